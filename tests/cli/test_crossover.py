"""The crossover experiment on scripted times: answers, tables, the overlay with a recorded machine."""

from __future__ import annotations

import csv
import getpass
import io
import random
import re
import socket
import sys

import msgspec
import pytest
import scripted
from rich.console import Console

from backends.base import Unavailable
from suite import harness, machine, profiles, record, search, sweep
from suite.exits import Exit, Stop
from suite.experiments import _resume, crossover, report
from suite.journal import Journal
from suite.journal import load as load_journal
from suite.render import comparison, markdown, plot, summary, svg, tables, tidy
from suite.request import Request, checked

ABSOLUTE = re.compile(r"(?<![\w.:/])/(?:[\w.+-]+/)+")


def shown(run, width=140, **attributes):
    out = Console(file=io.StringIO(), width=width, color_system=None)
    comparison.show(run, out, **attributes)
    return out.file.getvalue()


def test_answers_follow_the_script(scripted_run):
    lines = {line.question.mode: line for line in summary.lines(scripted_run)}
    assert set(lines) == {"resident", "once x10", "always"}
    assert {mode: line.crossover.first_win for mode, line in lines.items()} == {
        "resident": 23,
        "once x10": 24,
        "always": 34,
    }
    assert all(line.decided and not line.recorded for line in lines.values())
    assert lines["resident"].crossover.band == (22, 23)


def test_no_question_is_unanswered_and_a_missing_one_is_named(scripted_run):
    asked = Request(sizes=(8, 64))
    lines = summary.lines(scripted_run)
    assert crossover.unanswered(asked, lines) == []
    pinned = msgspec.structs.replace(asked, host_memory=("pageable", "pinned"), transfers=("resident",))
    assert crossover.unanswered(pinned, lines) == ["float32 in fp32, pinned, resident"]


def test_tables_name_who_stood_there_and_what_was_timed(scripted_run):
    text = shown(scripted_run, width=200)
    verdict = text[text.index("from which size") :]
    for word in ("scripted-cpu, 1 thread", "scripted-gpu", "22 … 23", "latency", "hot caches", "told apart"):
        assert word in verdict, word
    assert "undecided at 32" in verdict
    assert "factor of 2 in size may have been missed" in verdict
    assert "GFLOP/s" in text and "first shown to compute right results" in text


@pytest.mark.parametrize("width", [200, 80, 50, 30])
def test_nothing_is_wider_than_the_terminal_and_the_answer_is_there(scripted_run, width):
    text = shown(scripted_run, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text.replace(" … ", "").replace(" …\n", ""), "something was cut off"
    assert "\x1b" not in text
    text = " ".join(text.split())
    assert "24" in text[text.index("from which size") :]


def test_quiet_shows_the_verdicts_alone(scripted_run):
    text = shown(scripted_run, quiet=True)
    assert text.startswith("gemm float32, square, pageable host memory: from which size")
    assert "Speed-up" not in text


def test_plot_has_a_curve_for_each_mode(scripted_run):
    curves = plot.speedups(summary.lines(scripted_run))
    assert [curve.letter for curve in curves] == ["a", "b", "c"]
    text = plot.draw(curves, 80, level=1.0)
    for letter in "abc":
        assert text.count(letter) > 10
    assert "\x1b" not in text


def test_plot_without_utf8_is_ascii(scripted_run):
    raw = io.BytesIO()
    out = Console(file=io.TextIOWrapper(raw, encoding="ascii", errors="strict"), width=80, color_system=None)
    plot.show(out, summary.lines(scripted_run))
    out.file.flush()
    text = raw.getvalue().decode("ascii")
    assert "?" not in text and all(text.count(letter) > 10 for letter in "abc")


def test_slower_rivals_are_ranked():
    clock, pair = scripted.pair()
    rival = scripted.NullBackend(
        "slow-gpu",
        "cuda",
        lambda *a: 1.2 * scripted.gpu_time(*a),
        clock=clock,
        transfers=frozenset({"resident"}),
    )
    asked = checked(Request(sizes=(16,), transfers=("resident",)))
    run = crossover.measure(asked, chosen=[*pair, rival], clock=clock)
    (line,) = summary.lines(run)
    (text,) = tables.candidates(line)
    assert text.startswith("GPU candidates at 16x16x16, resident (pilot rounds): scripted-gpu")
    assert re.search(r"slow-gpu .* \(1\.2\d times as long\)", text)


def test_a_wrong_result_is_named_and_has_no_time():
    clock, (cpu, _) = scripted.pair()
    sevens = lambda problem, operands: operands.c.fill(7)  # noqa: E731
    gpu = scripted.NullBackend("scripted-gpu", "cuda", scripted.gpu_time, clock=clock, compute=sevens)
    asked = checked(Request(sizes=(16,), transfers=("resident",)))
    run = crossover.measure(asked, chosen=[cpu, gpu], clock=clock)
    (line,) = summary.lines(run)
    assert not line.decided
    assert "WRONG RESULT, not timed: scripted-gpu" in shown(run)
    assert not [cell for cell in run.cells if cell.backend == "scripted-gpu" and cell.samples_s]


def test_unverified_is_marked():
    clock, (cpu, gpu) = scripted.pair()
    gpu.verified = False
    run = crossover.measure(
        checked(Request(sizes=(16,), transfers=("resident",))), chosen=[cpu, gpu], clock=clock
    )
    assert "scripted-gpu UNVERIFIED" in shown(run, quiet=True)


def test_reuse_list_and_both_memories_give_a_row_each():
    clock, backends = scripted.pair()
    asked = checked(
        Request(sizes=(16,), transfers=("once",), reuse=(1, 100), host_memory=("pageable", "pinned"))
    )
    run = crossover.measure(asked, chosen=backends, clock=clock)
    rows = {(line.question.host_memory, line.question.mode): line.decided for line in summary.lines(run)}
    assert rows["pageable", "once x1"] and rows["pageable", "once x100"]
    assert ("pinned", "once x1") in rows


def test_a_spent_budget_is_said_and_not_called_complete():
    clock, backends = scripted.pair()
    ticks = iter(range(0, 10_000, 40))
    asked = checked(Request(sizes=(8, 16, 32), time_budget_s=60))
    from suite import sweep

    outcome = sweep.Measuring(asked, backends, clock=clock, now=lambda: float(next(ticks))).run()
    assert outcome.unmeasured and "sizes" in outcome.unmeasured[0]
    assert {cell.problem.m for cell in outcome.cells} == {8}


def test_resume_measures_no_group_twice(tmp_path):
    asked = checked(Request(sizes=(8, 16, 32, 64), transfers=("resident",)))
    clock, (cpu, gpu) = scripted.pair()
    stop_at = {"opens": 0}
    original = gpu.open

    def interrupted(problem, operands, **attributes):
        stop_at["opens"] += 1
        if stop_at["opens"] == 3:
            raise KeyboardInterrupt
        return original(problem, operands, **attributes)

    gpu.open = interrupted
    path = tmp_path / "journal.jsonl"
    journal = _resume.open_journal(path, crossover.EXPERIMENT, asked.options(), resume=False)
    with (
        pytest.raises(Stop, match="2 comparison groups are kept; go on with: again --resume") as caught,
        _resume.resumable(journal, "again"),
    ):
        crossover.measure(asked, chosen=[cpu, gpu], clock=clock, journal=journal)
    assert caught.value.code == Exit.INTERRUPTED

    clock, backends = scripted.pair()
    second = _resume.open_journal(path, crossover.EXPERIMENT, asked.options(), resume=True)
    assert len(second.done) == 2
    run = crossover.measure(asked, chosen=backends, clock=clock, journal=second)
    sizes_opened = [session.problem.m for session in backends[1].sessions]
    assert 8 not in sizes_opened and 32 in sizes_opened
    assert {8, 16, 32, 64} <= {cell.problem.m for cell in run.cells}
    before = {cells[0].problem.m for cells in load_journal(path).groups.values()} & {8, 16}
    assert before == {8, 16}
    for cell in run.cells:  # every visit is there once, numbered on from those before the interruption
        if cell.role == "candidate" and cell.device == "cuda":
            m, visits = cell.problem.m, dict.fromkeys(cell.visit_of)
            assert list(visits) == list(range(len(visits)))
            assert sizes_opened.count(m) + (m in before) == len(visits)


@pytest.mark.parametrize(
    ("typed", "program"),
    [
        (["python3", "-m", "suite", "crossover", "-q"], "python3 -m suite"),
        (["python", "-X", "dev", "-m", "suite", "crossover", "-q"], "python -X dev -m suite"),
        (["/usr/bin/python3", "/opt/bin/gemm-crossover", "crossover", "-q"], "gemm-crossover"),
    ],
)
def test_the_command_to_go_on_with_starts_as_this_one_did(monkeypatch, typed, program):
    monkeypatch.setattr(sys, "orig_argv", typed)
    monkeypatch.setattr(sys, "argv", ["program", "crossover", "-q"])
    assert _resume.program() == program


def test_an_unfinished_journal_is_not_replaced_silently(tmp_path, capsys):
    path, asked = tmp_path / "j.jsonl", checked(Request(sizes=(8,), transfers=("resident",)))
    clock, backends = scripted.pair()
    with _resume.open_journal(path, crossover.EXPERIMENT, asked.options(), resume=False) as first:
        crossover.measure(asked, chosen=backends, clock=clock, journal=first)
    assert capsys.readouterr().err == ""
    longer = msgspec.structs.replace(asked, time_budget_s=5.0)
    _resume.open_journal(path, crossover.EXPERIMENT, longer.options(), resume=False).close()
    (note,) = capsys.readouterr().err.splitlines()
    assert "(comparison groups finished: 1) is replaced" in note and "--resume" in note
    _resume.open_journal(path, crossover.EXPERIMENT, asked.options(), resume=False).close()
    assert capsys.readouterr().err == "", "nothing is lost with a journal that holds no group"


def test_another_questions_journal_is_replaced_without_a_note(tmp_path, capsys):
    path, asked = tmp_path / "j.jsonl", checked(Request(sizes=(8,), transfers=("resident",)))
    clock, backends = scripted.pair()
    with _resume.open_journal(path, crossover.EXPERIMENT, asked.options(), resume=False) as first:
        crossover.measure(asked, chosen=backends, clock=clock, journal=first)
    _resume.open_journal(
        path, crossover.EXPERIMENT, checked(Request(sizes=(9,))).options(), resume=False
    ).close()
    assert capsys.readouterr().err == ""


def test_resume_refuses_another_question(tmp_path):
    path = tmp_path / "j.jsonl"
    _resume.open_journal(
        path, crossover.EXPERIMENT, checked(Request(sizes=(8,))).options(), resume=False
    ).close()
    with pytest.raises(Stop, match=r"sizes") as caught:
        _resume.open_journal(path, crossover.EXPERIMENT, checked(Request(sizes=(9,))).options(), resume=True)
    assert caught.value.code == Exit.USAGE


def test_resume_refuses_other_thread_limits(tmp_path, monkeypatch):
    path = tmp_path / "j.jsonl"
    asked = checked(Request(sizes=(8,)))
    _resume.open_journal(path, crossover.EXPERIMENT, asked.options(), resume=False).close()
    limited = machine.describe() | {"threads": {"usable": 1, "environment": {"OMP_NUM_THREADS": "1"}}}
    monkeypatch.setattr(machine, "describe", lambda: limited)
    with pytest.raises(Stop, match=r"cannot be resumed: machine\.threads\."):
        _resume.open_journal(path, crossover.EXPERIMENT, asked.options(), resume=True)


def test_resume_allows_another_time_budget(tmp_path):
    path = tmp_path / "j.jsonl"
    _resume.open_journal(
        path, crossover.EXPERIMENT, checked(Request(sizes=(8,))).options(), resume=False
    ).close()
    again = _resume.open_journal(
        path, crossover.EXPERIMENT, checked(Request(sizes=(8,), time_budget_s=5.0)).options(), resume=True
    )
    assert isinstance(again, Journal)


def test_csv_has_a_row_for_each_cell_and_right_rates(scripted_run):
    rows = list(csv.DictReader(io.StringIO(tidy.render(scripted_run).decode())))
    assert len(rows) == len(scripted_run.cells)
    timed = [row for row in rows if row["role"] == "candidate" and row["time_s"]]
    for row in timed:
        flops = 2 * int(row["m"]) * int(row["n"]) * int(row["k"]) * int(row["reuse"])
        assert float(row["gflop_s"]) * float(row["time_s"]) * 1e9 == pytest.approx(flops)


def test_markdown_tables_are_whole(scripted_run):
    text = markdown.render(scripted_run).decode()
    blocks = [block for block in text.split("\n\n") if block.startswith("|")]
    assert len(blocks) == 4
    for block in blocks:
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_markdown_without_points_is_the_verdict_table(scripted_run):
    text = markdown.render(scripted_run, points=False).decode()
    assert text.count("### ") == 1 and "| resident | 23 | 23 |" in text


def test_without_gpu_times_the_cpu_is_shown_once(scripted_run):
    cells = tuple(cell for cell in scripted_run.cells if cell.device == "cpu")
    run = msgspec.structs.replace(scripted_run, cells=cells)
    lines = summary.lines(run)
    assert len(lines) == 3 and len(summary.worth_points(lines)) == 1
    text = shown(run)
    assert "no verdict" in text and "CPU time over size" in text and "unavailable" in text


def test_svg_and_png(scripted_run):
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    assert b"<svg" in svg.render(scripted_run)
    assert svg.render(scripted_run, "png").startswith(b"\x89PNG")


def test_record_names_nobody(scripted_run):
    text = msgspec.json.encode(scripted_run).decode()
    assert not ABSOLUTE.search(text)
    for private in {socket.gethostname(), getpass.getuser()}:
        assert not re.search(rf"(?<![\w-]){re.escape(private)}(?![\w-])", text)


def test_paths_in_command_line_and_failures_are_cut():
    clock, (cpu, gpu) = scripted.pair()
    gpu.open_error = RuntimeError("cannot open /opt/lib/libx.so.1")
    asked = checked(Request(sizes=(16,), transfers=("resident",)))
    command = "gemm-crossover crossover --export-json /home/joe/out.json"
    run = crossover.measure(asked, chosen=[cpu, gpu], clock=clock, command=command)
    assert run.command == "gemm-crossover crossover --export-json out.json"
    assert [cell.skip_reason for cell in run.cells if cell.device == "cuda"] == [
        "RuntimeError: cannot open libx.so.1"
    ]
    assert "cannot open libx.so.1" in shown(run)


@pytest.fixture(scope="module")
def profile(profile_path):
    return profiles.load(str(profile_path))


@pytest.fixture(scope="module")
def overlaid(profile):
    clock, (cpu, _) = scripted.pair()
    asked = checked(Request(sizes=(16, 32, 64), time_budget_s=100))
    return crossover.measure(asked, chosen=[cpu], profile=profile, clock=clock)


class TestRecorded:
    """A computer without a GPU against a recorded machine."""

    def test_both_comparisons_are_made_and_labelled(self, overlaid):
        lines = summary.lines(overlaid)
        assert [(x.question.mode, x.comparison) for x in lines] == [
            (mode, how)
            for mode in ("resident", "once x10", "always")
            for how in ("recorded", "cross-machine")
        ]
        assert all(line.recorded for line in lines)
        by_kind = {line.comparison: line for line in lines if line.question.mode == "resident"}
        assert by_kind["recorded"].crossover.first_win == 23
        assert by_kind["cross-machine"].crossover.first_win == 23

    def test_a_note_says_what_intervals_across_machines_leave_out(self, overlaid, scripted_run):
        words = "leave out what drifts between visits"
        notes = [" ".join(shown(run, width=400).split()) for run in (overlaid, scripted_run)]
        assert [words in text for text in notes] == [True, False]

    def test_across_machines_the_coarser_of_both_limits_counts(self, overlaid):
        def slower(cell):
            if cell.provenance == "recorded" or cell.role != "control_aa":
                return cell
            return msgspec.structs.replace(cell, samples_s=tuple(1.5 * sample for sample in cell.samples_s))

        run = msgspec.structs.replace(overlaid, cells=tuple(map(slower, overlaid.cells)))
        limits = {line.comparison: line.crossover.resolution for line in summary.lines(run)}
        assert limits["recorded"] < 1.1 < 1.4 < limits["cross-machine"] < 1.6

    def test_recorded_stands_on_every_table_plot_and_export(self, overlaid):
        text = shown(overlaid)
        for title in (line for line in text.splitlines() if "host memory" in line and "transfer" not in line):
            assert "RECORDED" in title or "from which size" in title
        assert "RECORDED: Scripted GPU" in text[text.index("Speed-up") :]
        assert "cross-machine, RECORDED" in text
        assert "RECORDED: Scripted GPU" in markdown.render(overlaid).decode()
        rows = list(csv.DictReader(io.StringIO(tidy.render(overlaid).decode())))
        assert {row["provenance"] for row in rows if row["device"] == "cuda"} == {"recorded"}
        assert {row["machine"] for row in rows if row["provenance"] == "recorded"} == {"0123456789ab"}
        again = msgspec.json.decode(report.make(overlaid, {})["json"](), type=record.Run)
        assert again.options["profile"]["gpu"] == "Scripted GPU"
        assert {c.provenance for c in again.cells if c.device == "cuda"} == {"recorded"}

    def test_recorded_stands_in_the_picture(self, overlaid):
        pytest.importorskip("matplotlib", reason="the extra plot is not installed")
        assert b"RECORDED" in svg.render(overlaid)

    def test_only_recorded_sizes_are_measured_here(self, overlaid, profile):
        recorded = {cell.problem.m for cell in profile.cells}
        here = {cell.problem.m for cell in overlaid.cells if cell.provenance == "measured"}
        assert here <= recorded and min(here) >= 16

    def test_the_sizes_asked_for_come_first(self, profile):
        clock, (cpu, _) = scripted.pair()
        asked = checked(Request(sizes=(16, 32, 64), transfers=("resident",)))
        seen = []
        crossover.measure(
            asked, chosen=[cpu], profile=profile, clock=clock, tell=lambda step: seen.append(step.size)
        )
        order = list(dict.fromkeys(seen))
        assert order[:3] == [16, 32, 64] and order[3:] == sorted(order[3:]) and len(order) > 3

    @pytest.mark.parametrize(
        ("asked", "said"),
        [
            (
                Request(op="gemv", sizes=(64, 96)),
                "gemv, shape square, sizes 64 to 96, batch 1: float32 in fp32",
            ),
            (Request(dtypes=("float64",), sizes=(16,)), "size 16, batch 1: float64 in fp64, pageable memory"),
            (Request(shape="M=N,K=32", sizes=(16,)), "gemm, shape M=N,K=32, size 16"),
            (Request(sizes=(12,)), "size 12, batch 1: float32 in fp32"),
            (Request(maths=("tf32",), sizes=(16,)), "float32 in tf32"),
            (Request(batch=3, sizes=(16,)), "batch 3: float32 in fp32"),
            (Request(sizes=(16,), transfers=("once",), reuse=(5,)), "pageable memory, once x5; no verdict"),
        ],
    )
    def test_without_recorded_figures_the_cpu_is_measured_and_what_lacks_is_said(
        self, profile, asked, said, capsys
    ):
        clock, (cpu, _) = scripted.pair()
        asked = checked(asked)
        run = crossover.measure(asked, chosen=[cpu], profile=profile, clock=clock)
        assert {max(cell.problem.m, cell.problem.n) for cell in run.cells if cell.samples_s} == {*asked.sizes}
        assert {cell.provenance for cell in run.cells} == {"measured"} and "profile" not in run.options
        assert "RECORDED" not in shown(run)
        (note,) = capsys.readouterr().err.splitlines()
        assert said in note and "Recorded are gemm float32 in fp32, 8 to 64; shape square; batch 1" in note
        assert len(crossover.unanswered(asked, summary.lines(run))) == len(asked.modes)

    def test_one_row_that_lacks_leaves_the_others_their_verdict(self, profile, capsys):
        clock, (cpu, _) = scripted.pair()
        asked = checked(Request(sizes=(8, 64), transfers=("once",), reuse=(10, 5)))
        run = crossover.measure(asked, chosen=[cpu], profile=profile, clock=clock)
        assert crossover.unanswered(asked, summary.lines(run)) == ["float32 in fp32, pageable, once x5"]
        assert "pageable memory, once x5; no verdict" in capsys.readouterr().err

    def test_pinned_memory_without_cuda_is_not_taken_for_pageable(self, profile, capsys, monkeypatch):
        def refused(problem, host_memory):
            raise Unavailable(f"{host_memory}: no CUDA")

        monkeypatch.setattr(harness, "allocate", refused)
        asked = checked(Request(sizes=(16,), host_memory=("pinned",)))
        run = crossover.measure(asked, chosen=[scripted.pair()[1][0]], profile=profile)
        assert not any(cell.samples_s for cell in run.cells)
        lacks, why = capsys.readouterr().err.splitlines()
        assert "pinned memory, resident" in lacks and "pinned host memory needs CUDA" in why

    def test_pinned_is_answered_by_the_recorded_machine_alone(self, profile, capsys):
        cells = tuple(msgspec.structs.replace(cell, host_memory="pinned") for cell in profile.cells)
        pinned = msgspec.structs.replace(profile, cells=cells)
        asked = checked(Request(sizes=(8, 64), host_memory=("pinned",), transfers=("resident",)))
        lines = summary.lines(crossover.measure(asked, profile=pinned))
        assert [(line.comparison, line.decided) for line in lines] == [("recorded", True)]
        said = capsys.readouterr().err
        assert said == "note: pinned host memory needs CUDA, so there is no line of this CPU for it\n"
        assert crossover.unanswered(asked, lines) == []


class TestProfiles:
    def test_build_keeps_samples_and_drops_pilots(self, scripted_run):
        built = profiles.build([scripted_run], "x")
        kept = [cell for cell in scripted_run.cells if cell.role != "pilot"]
        assert len(built.cells) == len(kept)
        assert {cell.provenance for cell in built.cells} == {"recorded"}
        assert built.cells[0].samples_s == kept[0].samples_s
        assert built.options["label"] == "x"

    def test_encoding_loses_nothing_but_digits(self, scripted_run):
        built = profiles.build([scripted_run], "x")
        again = msgspec.json.decode(profiles.encode(built), type=record.Run)
        assert again.machine == built.machine and len(again.cells) == len(built.cells)
        for a, b in zip(again.cells, built.cells, strict=True):
            assert a.samples_s == pytest.approx(b.samples_s, rel=1e-5)
            assert msgspec.structs.replace(a, samples_s=()) == msgspec.structs.replace(b, samples_s=())

    def test_unlike_machines_are_refused(self, scripted_run):
        other = msgspec.structs.replace(
            scripted_run, machine={**scripted_run.machine, "fingerprint": "f" * 12}
        )
        with pytest.raises(ValueError, match=r"not of one machine.*Scripted GPU"):
            profiles.build([scripted_run, other], "x")

    def test_the_later_run_of_a_group_counts(self, scripted_run):
        later = msgspec.structs.replace(
            scripted_run,
            created="2999-01-01T00:00:00+00:00",
            cells=scripted_run.cells[:1] + scripted_run.cells[-1:],
        )
        built = profiles.build([later, scripted_run], "x")
        groups = [cell.group for cell in built.cells]
        assert len(groups) < len([c for c in scripted_run.cells if c.role != "pilot"])
        assert built.created == later.created

    def test_a_run_without_gpu_makes_no_profile(self, scripted_run):
        cpu_only = tuple(cell for cell in scripted_run.cells if cell.device == "cpu")
        with pytest.raises(ValueError, match="no run holds a measured GPU cell"):
            profiles.build([msgspec.structs.replace(scripted_run, cells=cpu_only)], "x")

    def test_a_run_is_no_profile(self, scripted_run, tmp_path):
        path = tmp_path / "run.json"
        path.write_bytes(msgspec.json.encode(scripted_run))
        with pytest.raises(ValueError, match=r"run\.json is a run of crossover, no profile"):
            profiles.load(str(path))

    def test_unknown_names_list_the_known(self):
        with pytest.raises(LookupError, match="no profile 'nosuch': shipped are"):
            profiles.load("nosuch")

    def test_shipped_profiles_are_profiles_of_gpu_machines(self):
        for profile in profiles.available():
            assert profile.experiment == profiles.KIND
            assert {cell.provenance for cell in profile.cells} == {"recorded"}
            assert profile.machine["gpus"] and not ABSOLUTE.search(msgspec.json.encode(profile).decode())
            assert machine.scrub(profile.options["label"]) == profile.options["label"]


class TestUndecidedSizes:
    """Once the search has ended they are measured again, and all their samples stand together."""

    def measured(self, path, bad_sessions):
        opened, rng = [], random.Random(1)

        def gpu_time(problem, transfer, reuse, index):
            if problem.m == 64 and index == 0:
                opened.append(problem)
            wild = problem.m == 64 and len(opened) <= bad_sessions
            return 64e-3 * rng.lognormvariate(0, 1) if wild else 1e-3

        clock, (cpu, _) = scripted.pair()
        gpu = scripted.NullBackend("gpu", "cuda", gpu_time, clock=clock)
        asked = checked(Request(sizes=(32, 64, 128), transfers=("resident",)))
        with Journal.create(path, record.Run(experiment="crossover")) as journal:
            measuring = sweep.Measuring(asked, [cpu, gpu], journal=journal, clock=clock)
            found = measuring.run()
        (line,) = summary.lines(record.Run(cells=found.cells))
        return line, path.read_text().count('{"group":"gemm/64x64x64/'), found

    def test_calm_visits_outvote_a_wild_one_and_nothing_is_dropped(self, tmp_path):
        line, times, found = self.measured(tmp_path / "j", bad_sessions=1)
        assert (line.crossover.kind, line.crossover.undecided, times) == ("<= smallest", (), 3)
        at_64 = [c for c in found.cells if c.problem.m == 64 and c.role == "candidate" and c.device == "cuda"]
        assert len(at_64) == 1 and max(at_64[0].samples_s) > 2e-3
        assert len(at_64[0].times_s) > 2 * harness.Settings().rounds_min
        assert load_journal(tmp_path / "j").groups[at_64[0].group] == tuple(
            c for c in found.cells if c.group == at_64[0].group
        )

    def test_there_is_an_end_to_it(self, tmp_path):
        line, times, found = self.measured(tmp_path / "j", bad_sessions=99)
        assert 64 in line.crossover.undecided and found.unmeasured == ()
        assert times == search.MOST_VISITS


@pytest.fixture(scope="module")
def both_maths():
    return checked(Request(sizes=(16, 32, 64), maths=("fp32", "tf32"), transfers=("resident",)))


@pytest.fixture(scope="module")
def reduced(both_maths):
    clock, backends = scripted.reduced_pair()
    return crossover.measure(both_maths, chosen=backends, clock=clock)


class TestReducedPrecision:
    """A GPU in tf32 or float16 against a CPU in fp32: answered, never mixed with fp32, named everywhere."""

    BOTH = "CPU fp32 against GPU tf32"

    def test_it_is_answered_and_kept_apart_from_fp32(self, reduced, both_maths):
        lines = {line.question.math: line for line in summary.lines(reduced)}
        assert set(lines) == {"fp32", "tf32"} and crossover.unanswered(both_maths, list(lines.values())) == []
        for math, line in lines.items():
            assert {e.cpu.problem.math for e in line.entries} == {"fp32"}
            assert {e.gpu.problem.math for e in line.entries} == {math}
            assert all(e.cpu.group == e.gpu.group for e in line.entries)
        assert lines["fp32"].crossover.stable_from > lines["tf32"].crossover.stable_from

    def test_every_table_plot_and_export_names_both(self, reduced):
        text = shown(reduced, width=200)
        verdict = text[text.index("from which size") :]
        assert f"gemm float32, {self.BOTH}, square" in verdict and "REDUCED PRECISION" in verdict
        titles = [line for line in text.splitlines() if "host memory" in line]
        assert sum(self.BOTH in title for title in titles) == 1
        assert any(f"float32, {self.BOTH} resident" in c.name for c in plot.speedups(summary.lines(reduced)))
        assert markdown.render(reduced).decode().count(self.BOTH) >= 3
        rows = list(csv.DictReader(io.StringIO(tidy.render(reduced).decode())))
        mixed = {(r["device"], r["math"]) for r in rows if r["group_arithmetic"] == f"float32, {self.BOTH}"}
        assert mixed == {("cpu", "fp32"), ("cuda", "tf32")}
        assert {r["math"] for r in rows if r["group_arithmetic"] == "float32"} == {"fp32"}
        assert reduced.options["mixed_arithmetics"] == [f"float32, {self.BOTH}"]

    def test_fp32_alone_says_nothing_of_it(self, scripted_run):
        assert "mixed_arithmetics" not in scripted_run.options
        assert "REDUCED" not in shown(scripted_run) and "against" not in shown(scripted_run)

    def test_the_picture_names_both(self, reduced):
        pytest.importorskip("matplotlib", reason="the extra plot is not installed")
        assert b"CPU fp32 against GPU tf32" in svg.render(reduced)

    def test_float16_meets_float32(self):
        clock, backends = scripted.reduced_pair()
        asked = checked(Request(sizes=(16, 64), dtypes=("float16",), transfers=("resident",)))
        run = crossover.measure(asked, chosen=backends, clock=clock)
        (line,) = summary.lines(run)
        assert line.decided and {c.problem.dtype for c in line.cells} == {"float16", "float32"}
        text = " ".join(shown(run, width=200).split())
        assert "CPU float32 against GPU float16" in text and "stored as float32 for the CPU" in text

    def test_a_recorded_machine_answers_it(self, reduced):
        elsewhere = machine.describe() | {"fingerprint": "0123456789ab", "gpus": [{"name": "Scripted GPU"}]}
        recorded = profiles.build([msgspec.structs.replace(reduced, machine=elsewhere)], "scripted")
        clock, (cpu, _) = scripted.reduced_pair()
        asked = checked(Request(sizes=(16, 32, 64), maths=("tf32",), transfers=("resident",)))
        overlaid = crossover.measure(asked, chosen=[cpu], profile=recorded, clock=clock)
        lines = summary.lines(overlaid)
        assert [line.comparison for line in lines] == ["recorded", "cross-machine"]
        assert {line.question.math for line in lines} == {"tf32"} and all(line.decided for line in lines)
        assert crossover.unanswered(asked, lines) == []
        assert {c.problem.math for c in overlaid.cells if c.device == "cuda"} == {"tf32"}
        assert shown(overlaid, width=200).count(self.BOTH) >= 3

    def test_a_cpu_time_in_the_reduced_arithmetic_does_not_stand_for_fp32(self, reduced):
        cells = tuple(
            msgspec.structs.replace(c, problem=msgspec.structs.replace(c.problem, math="tf32"))
            for c in reduced.cells
            if "/tf32/" in c.group
        )
        (line,) = summary.lines(msgspec.structs.replace(reduced, cells=cells))
        assert not line.decided and line.why == "no CPU time"
