"""Passes of `peers`: when a figure is settled, who is visited again, what the budget allows, what is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import backends
from backends.base import Availability, Problem
from backends.cpus import allowed_cpus
from suite import peers_run
from suite.peers_bench import Bench, Entry, Setup, arena, fill, rotated
from suite.peers_plan import Group, Rates, Turn
from suite.peers_rounds import again, contenders, joined, settled
from suite.record import Cell, Run
from suite.render import peers as render

ROOT = Path(__file__).resolve().parents[2]
RATES = Rates(flops=1e11, bytes_read=1e10)
GROUP = Group(Problem(m=64, n=64, k=64), 1)


def cell(name: str, *times: float, visits: str = "alone", group: Group = GROUP) -> Cell:
    """One sample in each round."""
    backend, _, call = name.partition("/")
    config = {"visits": visits, **({"call": call} if call else {})}
    return Cell(
        problem=group.problem, backend=backend, device="cpu", calls_from=group.calls_from, threads=1,
        samples_s=times, round_of=tuple(range(len(times))), inner=(1,) * len(times), group=group.key,
        config=config,
    )  # fmt: skip


class TestSettled:
    @pytest.mark.parametrize(
        ("times", "verdict"),
        [
            ((), False), ((1.0,), False), ((1.0, 1.02), True), ((1.0, 1.021), False),
            ((9.0, 1.0, 5.0, 1.01), True), ((1.0, 1.5, 1.49, 1.5), False),
        ],
    )  # fmt: skip
    def test_two_best_rounds_agree(self, times, verdict):
        assert settled(enumerate(times)) == verdict

    def test_two_visits_of_one_round_are_no_two_rounds(self):
        assert not settled([(0, 1.0), (0, 1.0)])
        assert not settled([(0, 1.0), (0, 1.0), (1, 1.3), (1, 1.3)])
        assert settled([(0, 1.0), (0, 1.5), (1, 1.3), (1, 1.01)])

    def test_both_kinds_of_visits_count_together(self):
        ours = [cell("native", 1.0, 1.3), cell("native", 1.2, 1.01, visits="interleaved")]
        parts = [*ours, cell("cblas:a", 2.0, 2.0)]
        assert contenders(parts) == {("native", ""): True, ("cblas:a", ""): True}
        assert again(parts) == ()

    def test_only_ours_and_the_peers_near_the_best_are_visited_again(self):
        parts = [
            cell("native", 5.0, 5.0), cell("cblas:best", 1.0, 1.1), cell("cblas:near", 1.15, 1.15),
            cell("cblas:far", 1.16, 9.0), cell("roof", 0.1),
        ]  # fmt: skip
        assert contenders(parts) == {
            ("native", ""): True, ("cblas:best", ""): False, ("cblas:near", ""): True,
        }  # fmt: skip
        assert again(parts) == ("native", "cblas:best", "cblas:near")  # settled ones too: equal chances

    def test_a_peer_that_is_far_behind_needs_not_settle(self):
        parts = [cell("native", 1.0, 1.0), cell("cblas:a", 1.0, 1.0), cell("cblas:far", 2.0, 3.0)]
        assert again(parts) == ()

    def test_each_way_of_calling_ours_must_settle(self):
        parts = [cell("native/gemm", 1.0, 1.0), cell("native/prepared", 1.0, 2.0)]
        assert again([*parts, cell("numpy/matmul", 1.0, 1.0)]) == ("native", "numpy")

    def test_nothing_is_asked_where_nothing_can_be_compared(self):
        assert again([]) == again([cell("native", 1.0)]) == again([cell("cblas:a", 1.0)]) == ()
        assert again([cell("native"), cell("cblas:a", 1.0)]) == ()  # ours was wrong and has no times


class TestJoined:
    def one(self, round_: int, **fields: Any) -> Cell:
        return msgspec.structs.replace(cell("cblas:a", 1.0 + round_), round_of=(round_,), **fields)

    def test_one_cell_has_the_samples_of_both_rounds(self):
        found = joined(self.one(0, cpu_per_wall=1.1, process_id=1), self.one(3, cpu_per_wall=1.0))
        assert (found.samples_s, found.round_of, found.inner) == ((1.0, 4.0), (0, 3), (1, 1))
        assert (found.cpu_per_wall, found.process_id) == (1.1, 1)

    def test_the_best_round_of_the_roof_names_its_rate(self):
        rates = [self.one(i, config={"roof": "fma", "rate_per_s": rate}) for i, rate in enumerate((2.0, 1.0))]
        assert joined(*rates).config["rate_per_s"] == joined(*rates[::-1]).config["rate_per_s"] == 2.0

    def test_a_fault_in_any_round_counts(self):
        faulty = self.one(1, samples_s=(), inner=(), skip_reason="its result is wrong")
        faulty = msgspec.structs.replace(faulty, round_of=())
        for pair in ((self.one(0), faulty), (faulty, self.one(0))):
            assert (joined(*pair).samples_s, joined(*pair).skip_reason) == ((), "its result is wrong")


class TestConversation:
    """What a child does in a round."""

    def bench(self) -> Bench:
        memory = [arena(5000, "float32"), arena(5000, "float32")]
        for seed, array in enumerate(memory):
            fill(array, seed)
        return Bench(Setup("float32", ("native",), (5000, 5000, 5000)), memory, ("native",), True)

    def test_a_result_is_checked_in_each_round(self, monkeypatch):
        checked = []
        check = Entry.check
        monkeypatch.setattr(
            Entry, "check", lambda self, *args: checked.append(self.name) or check(self, *args)
        )
        bench, small = self.bench(), Group(Problem(m=8, n=8, k=8), 1)
        for round_, group in enumerate((GROUP, small, GROUP)):
            found = bench.measure(Turn(group, round_))
            assert set(found[0].round_of) == {round_} and found[0].group == group.key
        assert checked == ["native"] * 3

    def test_who_is_not_named_is_not_visited(self):
        assert self.bench().measure(Turn(GROUP, 1, ("another",))) == []

    def test_each_round_begins_with_another(self):
        assert [rotated([1, 2, 3], round_)[0] for round_ in range(4)] == [1, 2, 3, 1]  # type: ignore[list-item]
        assert rotated([], 1) == []

    def test_a_long_call_is_one_sample_of_each_round(self, monkeypatch):
        monkeypatch.setattr("suite.peers_bench.LONG_S", 0.0)
        monkeypatch.setattr("suite.peers_timing.LONG_S", 0.0)
        bench = self.bench()
        for round_ in range(2):
            found = bench.measure(Turn(GROUP, round_))
            assert (found[0].round_of, found[0].inner) == ((round_,), (1,))


AFTER_FORK = """
import os
import numpy as np
from backends.base import Problem
from suite.peers_bench import Bench, Setup, arena, fill
from suite.peers_plan import Group, Turn
np.ones((600, 600)) @ np.ones((600, 600))
if (child := os.fork()) == 0:
    os._exit(0)
os.waitpid(child, 0)
memory = [arena(5000, "float32") for _ in range(2)]
bench = Bench(Setup("float32", ("native",), (5000, 5000, 5000)), memory, ("native",), True)
group = Group(Problem(m=8, n=8, k=8), 1, "python")
print([cell.skip_reason for cell in bench.measure(Turn(group)) if cell.skip_reason])
"""


@pytest.mark.skipif(allowed_cpus() < 2, reason="needs a second CPU for a thread to spin on")
def test_threads_that_opening_a_session_starts_are_waited_for():
    """After a fork OpenBLAS starts its threads once it is told their number; they spin, here for 0.1 s."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    environment = {**kept, "OPENBLAS_THREAD_TIMEOUT": "28", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", AFTER_FORK], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


class Found:
    """A CBLAS that was found."""

    def __init__(self, name: str, stands_beside: str = "", **detail: Any) -> None:
        self.name, self.stands_beside = f"cblas:{name}", stands_beside
        self.detail = {"version": "0.3.30", "kernels": "Zen", "threading": "pthreads"} | detail

    def probe(self) -> Availability:
        return Availability(ok=True, detail=self.detail)


class TestSameLibraryTwice:
    def found(self, monkeypatch, *others: Found) -> tuple[tuple[str, ...], dict[str, str]]:
        monkeypatch.setattr(backends, "all_backends", lambda: list(others))
        monkeypatch.setattr(peers_run, "_usable", lambda name: name)
        return peers_run.libraries(()), peers_run.twice(())

    def test_the_one_with_32_bit_integers_stays(self, monkeypatch):
        names, twice = self.found(
            monkeypatch,
            Found("openblas64", integer_bits=64),
            Found("openblas", integer_bits=32),
            Found("mkl"),
        )
        assert names == ("native", "cblas:mkl", "cblas:openblas")
        why = "the same build as cblas:openblas (0.3.30 Zen pthreads, integers of 64 bits)"
        assert twice == {"cblas:openblas64": f"{why}: name both by --backend to measure both"}
        both = ("cblas:openblas", "cblas:openblas64")
        assert peers_run.libraries(both) == ("native", *both) and peers_run.twice(both) == {}
        text = render.to_markdown(Run(options={"twice": twice})).decode()
        assert f"Not measured: cblas:openblas64: {why}" in text

    @pytest.mark.parametrize(
        "other", [{"version": "0.3.21"}, {"threading": "openmp"}, {"kernels": "Haswell"}, {"version": ""}]
    )
    def test_another_build_is_another_library(self, monkeypatch, other):
        names, twice = self.found(monkeypatch, Found("openblas"), Found("openblas-system", **other))
        assert names == ("native", "cblas:openblas", "cblas:openblas-system") and twice == {}

    def test_numpys_own_is_no_second_one(self, monkeypatch):
        names, twice = self.found(monkeypatch, Found("openblas64", "numpy"), Found("openblas"))
        assert names == ("native", "cblas:openblas") and twice == {}


class TestTables:
    def test_what_never_settled_is_marked(self):
        parts = [
            cell("native", 1.0, 1.2), cell("cblas:a", 2.0, 2.0), cell("cblas:b", 2.2, 2.5),
            cell("cblas:far", 4.0, 5.0),
        ]  # fmt: skip
        text = render.to_markdown(Run(cells=tuple(parts))).decode()
        row = next(line for line in text.splitlines() if line.startswith("| 64 |"))
        figures = [column.strip() for column in row.split("|")[2:-1]]
        assert [figure.startswith("~") for figure in figures] == [True, False, True, False, False, True]
        assert render.UNSETTLED in text
        assert "1 comparison of 2 rounds; in 1 a figure that counts never settled (~)" in text

    def test_what_settled_is_not(self):
        parts = (cell("native", 1.0, 1.01), cell("cblas:a", 2.0, 2.0))
        text = render.to_markdown(Run(cells=parts)).decode()
        assert render.UNSETTLED not in text and "| ~" not in text

    def test_calls_from_python_are_marked_each(self):
        group = Group(Problem(m=64, n=64, k=64), 1, "python")
        times = {"native/gemm": (2.0, 2.0), "native/prepared": (1.0, 1.5), "numpy/matmul": (3.0, 3.0)}
        parts = tuple(cell(name, *seconds, group=group) for name, seconds in times.items())
        text = render.to_markdown(Run(cells=parts)).decode()
        row = next(line for line in text.splitlines() if line.startswith("| 64 |"))
        figures = [column.strip() for column in row.split("|")[2:-1]]
        assert [figure.startswith("~") for figure in figures] == [False, True, False, False, True]
