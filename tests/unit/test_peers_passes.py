"""Passes of `peers`, scripted: who is visited when, what the budget allows, what an interrupted run kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from test_peers_rounds import GROUP, RATES, cell

from backends.base import Problem
from suite import peers_rounds, peers_run
from suite.analysis import peers as analysis
from suite.journal import Journal
from suite.peers_bench import Setup
from suite.peers_plan import Group, Turn, cost_s
from suite.peers_rounds import APART_S, MOST_ROUNDS
from suite.peers_run import Asked, Reply, measure
from suite.record import Cell, Run


class Machine:
    """A scripted measuring process and clock: a visit takes `visit_s`, and yields what `times` says.

    times: backend -> time of each of its visits of a group, interleaved and alone in turn; the last stays.
    slow: (from, until, factor): between these seconds every visit is slower.
    """

    def __init__(
        self,
        times: dict[str, list[float]],
        visit_s: float = 0.1,
        slow: tuple[float, float, float] = (0.0, 0.0, 1.0),
    ) -> None:
        self.times, self.visit_s, self.slow, self.now = times, visit_s, slow, 0.0
        self.turns: list[Turn] = []
        self.began: list[float] = []
        self.first = Reply(rates=RATES)
        self.errors_in: tuple[int, ...] = ()
        self.stop_after = -1

    def __call__(self, setup: Setup, isa: str) -> Machine:
        return self

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def visits(self, name: str) -> int:
        return sum(turn.asks(name) for turn in self.turns)

    def order(self) -> list[tuple[int, int]]:
        return [(turn.round_, turn.group.problem.m) for turn in self.turns]

    def measure(self, turn: Turn) -> Reply:
        if len(self.turns) == self.stop_after:
            raise KeyboardInterrupt
        self.turns.append(turn)
        self.began.append(self.now)
        found = [
            self._visit(name, visits, 2 * turn.round_ + index, turn)
            for name in turn.names or self.times
            for index, visits in enumerate(("interleaved", "alone"))
        ]
        return Reply(tuple(found), error="it died" if turn.round_ in self.errors_in else "")

    def _visit(self, name: str, visits: str, number: int, turn: Turn) -> Cell:
        first, last, factor = self.slow
        disturbed = factor if first <= self.now < last else 1.0
        self.now += self.visit_s
        script = self.times[name]
        found = cell(name, disturbed * script[min(number, len(script) - 1)], visits=visits, group=turn.group)
        return msgspec.structs.replace(found, round_of=(turn.round_,))


NAMES = ("native", "cblas:a", "cblas:far")
STEADY = {"native": [1.0], "cblas:a": [1.0], "cblas:far": [2.0, 3.0]}
NEVER = {"native": [1 / 1.1**i for i in range(99)], "cblas:a": [1.0], "cblas:far": [2.0]}


def run(
    machine: Machine, budget_s: float = 1000.0, kept: Journal | None = None, tell: Any = None, **asked: Any
):
    question = {"dtypes": ("float32",), "threads": (1,), "classes": ("24-96",), "sizes": (64,)} | asked
    return measure(
        Asked(**question, time_budget_s=budget_s), NAMES,
        journal=kept, tell=tell, start=machine, clock=machine.clock, sleep=machine.sleep,
    )  # fmt: skip


class TestPasses:
    def test_what_is_steady_has_two_rounds(self):
        machine = Machine(STEADY)
        run(machine)
        assert [turn.names for turn in machine.turns] == [(), NAMES[:2]]

    def test_every_group_has_a_round_before_any_has_its_second(self):
        machine = Machine(STEADY)
        run(machine, sizes=(24, 32, 48))
        assert sorted(machine.order()) == machine.order() == [(r, m) for r in (0, 1) for m in (24, 32, 48)]

    @pytest.mark.parametrize("sizes", [(64,), (32, 64), (24, 32, 48, 64, 96)])
    def test_a_slow_phase_of_seconds_does_not_settle(self, sizes):
        """However few groups there are; all in it agree, and none of it is the figure in the end."""
        machine = Machine(STEADY, visit_s=0.3, slow=(0.0, 5.0, 1.25))
        outcome = run(machine, sizes=sizes)
        found = analysis.entries(Run(cells=tuple(outcome.cells)))
        assert len(found) == len(sizes) and not any(entry.unsettled for entry in found)
        assert {entry.ours_s for entry in found} == {1.0}
        assert any(turn.round_ == 2 for turn in machine.turns)

    def test_rounds_of_one_group_lie_apart(self):
        machine = Machine(NEVER)
        run(machine)
        ends = [begin + 2 * machine.visit_s * 2 for begin in machine.began]
        gaps = [begin - end for end, begin in zip(ends, machine.began[1:], strict=False)]
        assert len(gaps) == MOST_ROUNDS - 1 and min(gaps[1:]) == pytest.approx(APART_S)

    def test_only_groups_that_are_unsettled_come_again(self, monkeypatch):
        early = {Group(Problem(m=m, n=m, k=m), 1).key for m in (24, 32)}
        monkeypatch.setattr(
            peers_rounds, "again", lambda cells: () if {c.group for c in cells} & early else NAMES
        )
        machine = Machine(STEADY)
        run(machine, sizes=(24, 32, 48))
        assert [m for _, m in machine.order()] == [24, 32] + [48] * MOST_ROUNDS

    def test_all_contenders_are_visited_until_the_last_is_settled(self):
        machine = Machine({"native": [1.0], "cblas:a": [1.3, 1.2, 1.1, 1.0, 1.0], "cblas:far": [2.0, 3.0]})
        outcome = run(machine)
        assert [(turn.round_, turn.names) for turn in machine.turns] == [
            (0, ()), (1, NAMES[:2]), (2, NAMES[:2]),
        ]  # fmt: skip
        counts = {(c.backend, c.config["visits"]): c.round_of for c in outcome.cells}
        assert counts == {
            (name, visits): (0,) if name == "cblas:far" else (0, 1, 2)
            for name in NAMES for visits in ("interleaved", "alone")
        }  # fmt: skip
        assert len(outcome.cells) == len(counts)

    def test_what_never_settles_ends(self):
        machine = Machine(NEVER)
        outcome = run(machine)
        assert machine.visits("native") == machine.visits("cblas:a") == MOST_ROUNDS
        assert machine.visits("cblas:far") == 1
        (entry,) = analysis.entries(Run(cells=tuple(outcome.cells)))
        assert (entry.unsettled, entry.rounds) == ({"native"}, MOST_ROUNDS)

    def test_the_second_error_ends_a_group_and_keeps_what_there_was(self):
        machine = Machine(NEVER)
        machine.errors_in = (0, 2)
        outcome = run(machine)
        assert len(machine.turns) == 3 and outcome.errors == [f"{GROUP.key}: it died"] * 2
        assert {c.backend for c in outcome.cells} == set(NAMES)

    def test_calls_from_python_have_rounds_as_well(self):
        machine = Machine({"native": [1.2, 1.1, 1.0, 1.0], "numpy": [1.0]})
        run(machine, classes=("python",))
        assert [turn.names for turn in machine.turns] == [()] + [("native", "numpy")] * 2

    def test_the_pass_and_the_count_are_told(self):
        machine, told = Machine(STEADY), []
        run(machine, tell=lambda *words: told.append(words), sizes=(24, 32))
        assert [(doing.split("x")[0], *counts) for doing, *counts in told] == [
            (f"pass {n}: gemm/{m}", index, 2) for n in (1, 2) for index, m in enumerate((24, 32))
        ]


class TestResumed:
    sizes = (24, 32, 48)

    def interrupted(self, path: Path, after: int) -> Machine:
        machine = Machine(NEVER)
        machine.stop_after = after
        with Journal.create(path, Run()) as kept, pytest.raises(KeyboardInterrupt):
            run(machine, kept=kept, sizes=self.sizes)
        return machine

    def test_in_the_third_pass_what_passes_before_it_kept_is_there(self, tmp_path):
        path = tmp_path / "kept"
        self.interrupted(path, 7)  # two passes of three groups, and the first group of the third
        machine = Machine(NEVER)
        with Journal.resume(path, Run()) as kept:
            assert {key: max(c.round_of[-1] for c in cells) for key, cells in kept.done.items()} == {
                Group(Problem(m=m, n=m, k=m), 1).key: 2 if m == 24 else 1 for m in self.sizes
            }
            outcome = run(machine, kept=kept, sizes=self.sizes)
        assert machine.order()[:5] == [(2, 32), (2, 48), (3, 24), (3, 32), (3, 48)]
        assert all(turn.names == NAMES[:2] for turn in machine.turns)
        ours = [c for c in outcome.cells if c.backend == "native"]
        assert len(ours) == 2 * len(self.sizes)
        assert all(c.round_of == tuple(range(MOST_ROUNDS)) for c in ours)

    def test_in_the_first_pass_the_groups_that_lack_come_first(self, tmp_path):
        path = tmp_path / "kept"
        self.interrupted(path, 1)
        machine = Machine(NEVER)
        with Journal.resume(path, Run()) as kept:
            run(machine, kept=kept, sizes=self.sizes)
        assert machine.order()[:5] == [(0, 32), (0, 48), (1, 24), (1, 32), (1, 48)]

    def test_what_is_settled_is_not_measured_again(self, tmp_path):
        path = tmp_path / "kept"
        with Journal.create(path, Run()) as kept:
            before = run(Machine(STEADY), kept=kept, sizes=self.sizes)
        machine = Machine(STEADY)
        with Journal.resume(path, Run()) as kept:
            after = run(machine, kept=kept, sizes=self.sizes)
        assert machine.turns == [] and after.cells == before.cells


class TestBudget:
    unsettled = {"native": [1 / 1.1**i for i in range(99)], "cblas:a": [1.0], "cblas:far": [1.1]}
    sizes = (24, 32, 48, 64)

    @pytest.fixture(autouse=True)
    def no_pauses(self, monkeypatch):
        monkeypatch.setattr(peers_run, "APART_S", 0.0)

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

    def test_what_is_too_dear_for_the_time_left_makes_room_for_the_others(self):
        machine = Machine(self.unsettled, 0.1)
        dear = 2048  # costs more by the plan than there is left after the first pass
        run(machine, 2.0, sizes=(32, 64, dear), classes=("24-96", "768-up"))
        assert [m for _, m in machine.order()] == [32, 64, dear]
        machine = Machine(self.unsettled, 0.1)
        run(machine, 3.2, sizes=(32, 64, dear), classes=("24-96", "768-up"))
        assert [m for _, m in machine.order()][3:] == [32, 64]

    def test_a_slow_start_is_not_taken_for_what_a_round_costs(self):
        cost = cost_s(GROUP, len(NAMES), RATES)
        machine = Machine(self.unsettled, cost / (2 * len(NAMES)))
        first = machine.measure

        def slow(turn: Turn) -> Reply:
            machine.now += 0 if machine.turns else 2.5 * cost  # kernels are loaded, threads started
            return first(turn)

        machine.measure = slow  # type: ignore[method-assign]
        run(machine, (3.05 * len(self.sizes) + 2.5) * cost, sizes=self.sizes)
        assert self.rounds(machine) == [3] * len(self.sizes)

    def test_it_ends_in_time(self):
        cost = cost_s(GROUP, len(NAMES), RATES)
        for rounds in (1.02, 1.4, 2.5, 3.6, 5.0):
            assert self.budget(rounds)[0].now <= rounds * len(self.sizes) * cost

    def test_it_does_not_wait_for_a_round_that_comes_too_late(self, monkeypatch):
        monkeypatch.setattr(peers_run, "APART_S", 5.0)
        machine = Machine(NEVER)
        run(machine, 8.0)
        assert len(machine.turns) == 2 and machine.now < 8.0
