"""Journals survive being cut anywhere; runs are saved whole; every unusable file is named with its place."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.base import Problem
from suite.journal import Journal, RecordError, atomic_write, load, load_run, save_run
from suite.record import SCHEMA, Cell, Run

ROOT = Path(__file__).parents[2]
RUN = Run(
    experiment="crossover",
    options={"sizes": [64, 128], "dtype": "float32"},
    machine={"cpu": {"model": "A", "cores": 2}},
    command="crossover --dtype float32",
)


def cells(group, count=3):
    return [
        Cell(problem=Problem(m=8, n=8, k=8), backend=f"b{i}", device="cpu", group=group,
             samples_s=(1e-6 * (i + 1),), round_of=(0,), inner=(1,))
        for i in range(count)
    ]  # fmt: skip


def journal(path, groups=("g1", "g2", "g3")):
    with Journal.create(path, RUN) as j:
        for group in groups:
            j.append(group, cells(group))
    return path.read_bytes()


def test_what_is_written_is_read_back(tmp_path):
    journal(tmp_path / "j")
    loaded = load(tmp_path / "j")
    assert loaded.run == RUN
    assert list(loaded.groups) == ["g1", "g2", "g3"]
    assert loaded.groups["g2"] == tuple(cells("g2"))
    assert len(loaded.cells) == 9


def test_cut_anywhere_it_keeps_every_whole_group(tmp_path):
    """At many lengths: no error once the header is there, no half group, nothing lost that was whole."""
    data = journal(tmp_path / "j")
    header = data.index(b"\n") + 1
    ends = [
        i + 1
        for i in range(len(data))
        if data[i : i + 1] == b"\n" and b'{"group"' in data[:i].split(b"\n")[-1]
    ]
    assert len(ends) == 3
    cuts = {*range(0, len(data), 23), *(end + near for end in [header, *ends] for near in (-2, -1, 0, 1))}
    for cut in sorted(cuts - {len(data) + 1}):
        path = tmp_path / "cut"
        path.write_bytes(data[:cut])
        if cut < header:
            with pytest.raises(RecordError, match="first line"):
                load(path)
        else:
            assert len(load(path).groups) == sum(end <= cut for end in ends)


@given(st.integers(0, 10_000))
def test_resumed_after_any_cut_it_is_as_if_never_cut(tmp_path_factory, where):
    folder = tmp_path_factory.mktemp("resume")
    data = journal(folder / "whole")
    path = folder / "cut"
    header = data.index(b"\n") + 1
    path.write_bytes(data[: header + where % (len(data) - header)])
    with Journal.resume(path, RUN) as j:
        for group in ("g1", "g2", "g3"):
            if group not in j.done:
                j.append(group, cells(group))
    assert path.read_bytes() == data


def test_resume_without_a_journal_begins_one(tmp_path):
    with Journal.resume(tmp_path / "new", RUN) as j:
        assert j.done == {}
    assert load(tmp_path / "new").run == RUN


@pytest.mark.parametrize("begin", [Journal.create, Journal.resume])
def test_a_file_that_is_no_journal_is_left_as_it_is(tmp_path, begin):
    save_run(tmp_path / "run.json", RUN)
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(RecordError, match=r"run\.json is no journal of this tool"):
        begin(tmp_path / "run.json", RUN)
    assert (tmp_path / "run.json").read_bytes() == before


@pytest.mark.parametrize("begin", [Journal.create, Journal.resume])
def test_one_run_at_a_time_writes_a_journal(tmp_path, begin):
    with Journal.create(tmp_path / "j", RUN) as j:
        j.append("g1", cells("g1"))
        with pytest.raises(RecordError, match="being written by another run"):
            begin(tmp_path / "j", RUN)
        j.append("g2", cells("g2"))
    with begin(tmp_path / "j", RUN) as again:
        assert list(again.done) == ([] if begin == Journal.create else ["g1", "g2"])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"options": {"sizes": [64, 128], "dtype": "float64"}}, "options.dtype was 'float32'"),
        ({"options": {"sizes": [64], "dtype": "float32"}}, "options.sizes"),
        ({"machine": {"cpu": {"model": "B", "cores": 2}}}, "machine.cpu.model was 'A' there and is 'B' now"),
        ({"experiment": "gemv"}, "experiment"),
    ],
)
def test_resume_refuses_other_options_and_machines_by_name(tmp_path, change, named):
    journal(tmp_path / "j")
    with pytest.raises(RecordError, match="cannot be resumed") as raised:
        Journal.resume(tmp_path / "j", msgspec.structs.replace(RUN, **change))
    assert named in str(raised.value)
    assert "without --resume" in str(raised.value)


def test_resume_ignores_what_it_is_told_to(tmp_path):
    journal(tmp_path / "j")
    other = msgspec.structs.replace(
        RUN, machine={"cpu": {"model": "A", "cores": 4}}, command="x", created="now"
    )
    Journal.resume(tmp_path / "j", other, ignore={"machine.cpu.cores"}).close()


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (3, b'{"cell": {"problem": 3}}', "line 3: not a line of a journal"),
        (3, b"\x00\x00\x00", "line 3: damaged"),
        (5, b'{"group":"g1","cells":7}', "line 5: a group of 7 cells ends after 3"),
        (1, b"{}", "line 1: no journal of this tool"),
        (1, b"[1]", "line 1: no journal of this tool"),
        (1, b'{"journal": 99}', "newer"),
    ],
)
def test_damage_in_the_middle_is_named_with_file_and_line(tmp_path, line, text, message):
    lines = journal(tmp_path / "j").split(b"\n")
    lines[line - 1] = text
    (tmp_path / "j").write_bytes(b"\n".join(lines))
    with pytest.raises(RecordError) as raised:
        load(tmp_path / "j")
    assert message in str(raised.value)
    assert str(tmp_path / "j") in str(raised.value)


def test_killed_while_writing_it_keeps_what_was_complete(tmp_path):
    """A writer that is killed without warning, in the middle of a group."""
    path = tmp_path / "j"
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(Path(__file__).parent)!r}]\n"
        "from test_journal import Journal, RUN, cells\n"
        f"j = Journal.create({str(path)!r}, RUN)\n"
        "for i in range(10**6): j.append(f'g{i}', cells(f'g{i}', 40))\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code])
    try:
        deadline = time.monotonic() + 30
        while (not path.exists() or path.stat().st_size < 200_000) and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
    loaded = load(path)
    assert len(loaded.groups) > 3
    assert all(len(group) == 40 for group in loaded.groups.values())
    with Journal.resume(path, RUN) as j:
        j.append("after", cells("after"))
    assert list(load(path).groups) == [*loaded.groups, "after"]


def test_a_run_is_saved_and_loaded(tmp_path):
    run = msgspec.structs.replace(RUN, cells=tuple(cells("g")))
    save_run(tmp_path / "run.json", run)
    assert load_run(tmp_path / "run.json") == run
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"[1, 2]", "no record of this tool"),
        (b'{"a": 1}', "no record of this tool"),
        (b'{"schema": 1, "cells": 5}', "no record of this tool: Expected `array`, got `int` - at `$.cells`"),
        (b"%PDF-1.4", "byte 0"),
        (f'{{"schema": {SCHEMA + 1}, "cells": []}}'.encode(), f"schema {SCHEMA + 1} is newer than {SCHEMA}"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path, content, message):
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(RecordError) as raised:
        load_run(path)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"machine": {"gpus": 3}}, "Expected `array | null`, got `int` - at `$.machine.gpus`"),
        ({"machine": {"gpus": [{}]}}, "missing required field `name` - at `$.machine.gpus[0]`"),
        ({"machine": {"cpu": "fast"}}, "Expected `object | null`, got `str` - at `$.machine.cpu`"),
        ({"machine": {"threads": 8}}, "Expected `object`, got `int` - at `$.machine.threads`"),
        ({"options": {"shape": 3}}, "Expected `str`, got `int` - at `$.options.shape`"),
        ({"options": {"shapes": "square"}}, "Expected `array`, got `str` - at `$.options.shapes`"),
        ({"options": {"profile": {}}}, "missing required field `gpu` - at `$.options.profile`"),
        ({"round_of": (0, 1)}, "each of 1 samples_s, got 2 - at `$.cells[0].round_of`"),
        ({"samples_s": ()}, "each of 0 samples_s, got 1 - at `$.cells[0].round_of`"),
        ({"inner": ()}, "each of 1 samples_s, got 0 - at `$.cells[0].inner`"),
        ({"visit_of": (0, 1)}, "each of 1 samples_s, got 2 - at `$.cells[0].visit_of`"),
        ({"options": {"sizes": "all"}}, "Expected `array`, got `str` - at `$.options.sizes`"),
    ],
)
def test_a_damaged_field_is_named(tmp_path, damage, message):
    path = tmp_path / "run.json"
    run = msgspec.structs.replace(RUN, cells=tuple(cells("g", 1)))
    save_run(path, run)
    assert load_run(path) == run
    plain = msgspec.json.decode(path.read_bytes())
    for name, value in damage.items():
        (plain if name in plain else plain["cells"][0])[name] = value
    path.write_bytes(msgspec.json.encode(plain))
    with pytest.raises(RecordError) as raised:
        load_run(path)
    assert message in str(raised.value) and str(path) in str(raised.value)


SINCE_SCHEMA_2 = ("visit_of", "throttled", "outliers", "rough_s", "pin_s")


def first_schema(plain):
    """A record as it was written before schema 2: without the fields that came with it."""
    for cell in plain["cells"]:
        for name in SINCE_SCHEMA_2:
            del cell[name]
    del plain["model"]
    return {**plain, "schema": 1}


def test_a_run_of_schema_1_is_read_and_what_came_later_is_empty(tmp_path):
    path = tmp_path / "run.json"
    run = msgspec.structs.replace(RUN, cells=tuple(cells("g")))
    path.write_bytes(msgspec.json.encode(first_schema(msgspec.to_builtins(run))))
    assert load_run(path) == msgspec.structs.replace(run, schema=1)


def test_a_journal_of_schema_1_is_read(tmp_path):
    journal(tmp_path / "j")
    lines = [msgspec.json.decode(line) for line in (tmp_path / "j").read_bytes().splitlines()]
    for line in lines:
        if "run" in line:
            line["run"] = first_schema(line["run"])
        for name in SINCE_SCHEMA_2 if "cell" in line else ():
            del line["cell"][name]
    (tmp_path / "old").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    assert load(tmp_path / "old").groups == load(tmp_path / "j").groups


def test_what_schema_2_brought_comes_back(tmp_path):
    new = {"visit_of": (3,), "throttled": 1, "outliers": 1, "rough_s": 1e-6, "pin_s": 0.5}
    first, *rest = (msgspec.structs.replace(cell, **new) for cell in cells("g"))
    first = msgspec.structs.replace(first, role="at_threads", threads=2)
    run = msgspec.structs.replace(RUN, cells=(first, *rest), model={"cpu": {"latency_s": 1e-6}})
    save_run(tmp_path / "run.json", run)
    assert load_run(tmp_path / "run.json") == run
    assert run.schema == SCHEMA == 2
    with Journal.create(tmp_path / "j", RUN) as j:
        j.append("g", run.cells)
    assert load(tmp_path / "j").groups["g"] == run.cells


def test_a_damaged_cell_of_a_journal_is_named(tmp_path):
    data = journal(tmp_path / "j")
    (tmp_path / "j").write_bytes(data.replace(b'"round_of":[0]', b'"round_of":[0,1]', 1))
    with pytest.raises(RecordError, match=r"line 2: not a line .* got 2 - at `\$\.cell\.round_of`"):
        load(tmp_path / "j")


def test_a_cut_run_is_refused_with_its_position(tmp_path):
    path = tmp_path / "run.json"
    save_run(path, RUN)
    data = path.read_bytes()
    for cut in range(1, len(data) - 2, 7):
        path.write_bytes(data[:cut])
        with pytest.raises(RecordError, match="cut short or damaged"):
            load_run(path)


def test_a_failed_export_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "out.csv"
    atomic_write(path, "old")

    def fail(file):
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        atomic_write(path, fail)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]
