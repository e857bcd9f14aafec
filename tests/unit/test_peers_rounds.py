"""Further rounds of `peers`: when a figure is settled, who is visited again, what the budget allows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import backends
from backends.base import Availability, Problem
from backends.cpus import allowed_cpus
from suite import peers_run
from suite.analysis import peers as analysis
from suite.peers_bench import Bench, Entry, Setup, arena, fill
from suite.peers_plan import Group, Rates, Turn, cost_s
from suite.peers_rounds import MOST_ROUNDS, again, contenders, settled, share_s
from suite.peers_run import Asked, Reply, measure
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
        assert settled(times) == verdict

    def test_both_kinds_of_visits_count_together(self):
        parts = [cell("native", 1.0), cell("native", 1.01, visits="interleaved"), cell("cblas:a", 2.0, 2.0)]
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


class TestShares:
    def test_what_is_left_is_shared_by_what_a_round_costs(self):
        assert share_s([1.0, 3.0], 8.0) == 2.0
        assert share_s([3.0], 6.0) == 6.0

    def test_a_first_round_is_always_paid(self):
        assert share_s([1.0, 3.0], 2.0) == 1.0
        assert share_s([1.0], -5.0) == 1.0


class Machine:
    """A scripted measuring process and clock: a visit takes `visit_s`, and yields what `times` says.

    times: backend -> time of each of its visits, interleaved and alone in turn; the last one stays.
    """

    def __init__(self, times: dict[str, list[float]], visit_s: float = 0.1) -> None:
        self.times, self.visit_s, self.now = times, visit_s, 0.0
        self.turns: list[Turn] = []
        self.kept: dict[tuple[str, str], list[float]] = {}
        self.first = Reply(rates=RATES)
        self.error_in = -1

    def __call__(self, setup: Setup, isa: str) -> Machine:
        return self

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def clock(self) -> float:
        return self.now

    def visits(self, name: str) -> int:
        return sum(not turn.names or name in turn.names for turn in self.turns)

    def measure(self, turn: Turn) -> Reply:
        if turn.round_ == 0:
            self.kept = {}
        self.turns.append(turn)
        for name in turn.names or self.times:
            for index, visits in enumerate(("interleaved", "alone")):
                self.now += self.visit_s
                script = self.times[name]
                time = script[min(2 * turn.round_ + index, len(script) - 1)]
                self.kept.setdefault((name, visits), []).append(time)
        found = [
            cell(name, *times, visits=visits, group=turn.group)
            for (name, visits), times in self.kept.items()
            if visits == "interleaved" or not turn.names or name in turn.names
        ]
        return Reply(tuple(found), error="it died" if turn.round_ == self.error_in else "")


NAMES = ("native", "cblas:a", "cblas:far")


def run(machine: Machine, budget_s: float = 1000.0, **asked: Any):
    question = {"dtypes": ("float32",), "threads": (1,), "classes": ("24-96",), "sizes": (64,)} | asked
    return measure(
        Asked(**question, time_budget_s=budget_s), NAMES, start=machine, clock=machine.clock
    )  # fmt: skip


class TestRounds:
    def test_settled_at_once_is_one_round(self):
        machine = Machine({"native": [1.0], "cblas:a": [1.0], "cblas:far": [2.0, 3.0]})
        run(machine)
        assert [turn.names for turn in machine.turns] == [()]

    def test_all_contenders_are_visited_until_the_last_is_settled(self):
        machine = Machine({"native": [1.0], "cblas:a": [1.3, 1.2, 1.1, 1.0, 1.0], "cblas:far": [2.0, 3.0]})
        outcome = run(machine)
        assert [(turn.round_, turn.names) for turn in machine.turns] == [
            (0, ()), (1, NAMES[:2]), (2, NAMES[:2]),
        ]  # fmt: skip
        counts = {(c.backend, c.config["visits"]): len(c.samples_s) for c in outcome.cells}
        assert counts == {
            (name, visits): 3 - 2 * (name == "cblas:far")
            for name in NAMES for visits in ("interleaved", "alone")
        }  # fmt: skip

    def test_what_never_settles_ends(self):
        machine = Machine({"native": [1 / 1.1**i for i in range(99)], "cblas:a": [1.0], "cblas:far": [2.0]})
        outcome = run(machine)
        assert machine.visits("native") == machine.visits("cblas:a") == MOST_ROUNDS
        assert machine.visits("cblas:far") == 1
        (entry,) = analysis.entries(Run(cells=tuple(outcome.cells)))
        assert (entry.unsettled, entry.rounds) == ({"native"}, MOST_ROUNDS)

    def test_an_error_in_a_further_round_ends_the_group_and_keeps_what_there_was(self):
        machine = Machine({"native": [1 / 1.1**i for i in range(99)], "cblas:a": [1.0], "cblas:far": [2.0]})
        machine.error_in = 2
        outcome = run(machine)
        assert len(machine.turns) == 3 and outcome.errors == [f"{GROUP.key}: it died"]
        assert {c.backend for c in outcome.cells} == set(NAMES)

    def test_calls_from_python_have_rounds_as_well(self):
        machine = Machine({"native": [1.2, 1.1, 1.0, 1.0], "numpy": [1.0]})
        run(machine, classes=("python",))
        assert [turn.names for turn in machine.turns] == [(), ("native", "numpy")]


class TestBudget:
    unsettled = {"native": [1 / 1.1**i for i in range(99)], "cblas:a": [1.0], "cblas:far": [1.1]}
    sizes = (24, 32, 48, 64)

    def budget(self, rounds: float) -> tuple[Machine, Any]:
        """A run with time for so many rounds of every group, each as long as the plan thinks."""
        cost = cost_s(GROUP, len(NAMES), RATES)
        machine = Machine(self.unsettled, cost / (2 * len(NAMES)))
        return machine, run(machine, rounds * len(self.sizes) * cost, sizes=self.sizes)

    def rounds(self, machine: Machine) -> list[int]:
        keys = [turn.group.key for turn in machine.turns]
        return [keys.count(key) for key in dict.fromkeys(keys)]

    def test_one_round_of_every_group_is_paid_first(self):
        machine, outcome = self.budget(1.02)
        assert self.rounds(machine) == [1] * len(self.sizes) and not outcome.unmeasured

    def test_what_is_left_gives_every_group_as_many(self):
        assert self.rounds(self.budget(3.05)[0]) == [3] * len(self.sizes)

    def test_what_one_does_not_need_goes_to_the_later_ones(self, monkeypatch):
        early = {Group(Problem(m=m, n=m, k=m), 1).key for m in (24, 32)}
        monkeypatch.setattr(
            peers_run, "again", lambda cells: () if {c.group for c in cells} & early else NAMES
        )
        machine, _ = self.budget(3.05)
        found = {turn.group.problem.m: turn.round_ + 1 for turn in machine.turns}
        assert found[24] == found[32] == 1
        assert found[48] + found[64] in (9, 10)

    def test_a_slow_start_costs_the_first_group_no_round(self):
        cost = cost_s(GROUP, len(NAMES), RATES)
        machine = Machine(self.unsettled, cost / (2 * len(NAMES)))
        first = machine.measure

        def slow(turn: Turn) -> Reply:
            machine.now += 0 if machine.turns else 2.5 * cost  # kernels are loaded, threads started
            return first(turn)

        machine.measure = slow  # type: ignore[method-assign]
        run(machine, (3.05 * len(self.sizes) + 2.5) * cost, sizes=self.sizes)
        assert self.rounds(machine)[0] >= 3

    def test_it_ends_in_time(self):
        cost = cost_s(GROUP, len(NAMES), RATES)
        for rounds in (1.02, 1.4, 2.5, 3.6, 5.0):
            assert self.budget(rounds)[0].now <= rounds * len(self.sizes) * cost


class TestConversation:
    """A child goes on with a group without checking it again."""

    def bench(self) -> Bench:
        memory = [arena(5000, "float32"), arena(5000, "float32")]
        for seed, array in enumerate(memory):
            fill(array, seed)
        return Bench(Setup("float32", ("native",), (5000, 5000, 5000)), memory, ("native",), True)

    def test_a_result_is_checked_once_for_each_group(self, monkeypatch):
        checked = []
        check = Entry.check
        monkeypatch.setattr(
            Entry, "check", lambda self, *args: checked.append(self.name) or check(self, *args)
        )
        bench, small = self.bench(), Group(Problem(m=8, n=8, k=8), 1)
        for round_ in range(3):
            found = bench.measure(Turn(GROUP, round_))
        assert checked == ["native"] and set(found[0].round_of) == {0, 1, 2}
        bench.measure(Turn(small))
        assert checked == ["native"] * 2

    def test_who_is_not_named_is_not_visited(self):
        bench = self.bench()
        before = bench.measure(Turn(GROUP))
        after = bench.measure(Turn(GROUP, 1, ("another",)))
        assert [c.samples_s for c in after] == [c.samples_s for c in before]

    def test_a_long_call_is_one_sample_of_each_round(self, monkeypatch):
        monkeypatch.setattr("suite.peers_bench.LONG_S", 0.0)
        monkeypatch.setattr("suite.peers_timing.LONG_S", 0.0)
        bench = self.bench()
        for round_ in range(3):
            found = bench.measure(Turn(GROUP, round_))
        assert found[0].round_of == (0, 1, 2) and found[0].inner == (1, 1, 1)


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
