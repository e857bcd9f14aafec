"""The measuring loop: sizes by the search, one comparison group at a time, in a time budget, resumable."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from backends.base import Backend, Problem

from . import harness, plan
from .analysis import crossover as analysis
from .clock import Clock
from .harness_settings import Event, Settings
from .journal import Journal
from .pooling import pooled
from .record import Cell, group_key
from .request import Request, Sweep, candidates
from .search import next_sizes, worth_again

LEAST_GROUP_S = 0.25
"""Below this a comparison group has too few rounds for an interval."""


MOST_AGAIN = 16
"""Further measurements of undecided sizes in one sweep, at most; a default run has time for few of them."""

MOST_VISITS = 5
"""Times one size is measured, at most."""

VISIT_ROUNDS = 12
"""Rounds in one visit, at most. Neighbours on a shared machine slow it down for 10 to 20 s at a time, one
side more than the other: visits apart see more of that than as many rounds in a row."""

KEPT_FOR_AGAIN = 3
"""Groups' worth of time that every sweep keeps for such visits."""


class Step(msgspec.Struct, frozen=True):
    """Progress of a run: which group is measured, how many are done of about how many, seconds left about."""

    sweep: Sweep
    size: int
    done: int
    expected: int
    left_s: float
    event: Event | None = None


class Outcome(msgspec.Struct, frozen=True):
    """Cells of every whole group, sizes for which the time did not suffice, why the journal ended early.

    lost: what a lost device was doing; interrupted: by the user. Both end a run before its time, with the
    cells of the groups that were whole by then.
    """

    cells: tuple[Cell, ...]
    unmeasured: tuple[str, ...] = ()
    journal_fault: str = ""
    lost: str = ""
    interrupted: bool = False


class Measuring:
    """One run over all sweeps of a request. chosen: see `request.candidates`; first: see `search.Grid`."""

    def __init__(
        self,
        request: Request,
        chosen: Sequence[Backend] = (),
        *,
        first: Sequence[int] = (),
        journal: Journal | None = None,
        clock: Clock | None = None,
        tell: Callable[[Step], None] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.request, self.chosen, self.journal, self.clock = request, chosen, journal, clock
        self.grid = msgspec.structs.replace(request.grid, first=tuple(first))
        self.tell, self.now, self.start = tell, now, now()
        self.done, self.journal_fault = 0, ""
        self.over_s: list[float] = []
        self.unmeasured: list[str] = []
        self.expected = request.groups_expected + KEPT_FOR_AGAIN * len(request.sweeps)

    @property
    def left_s(self) -> float:
        """Seconds of the time budget that are left."""
        return self.request.time_budget_s - (self.now() - self.start)

    def run(self) -> Outcome:
        """Measure every sweep; KeyboardInterrupt passes through, the journal then holds the whole groups."""
        cells: list[Cell] = []
        for left, sweep in reversed(list(enumerate(reversed(self.request.sweeps)))):
            cells += self._sweep(sweep, left)
        return Outcome(tuple(cells), tuple(self.unmeasured), self.journal_fault)

    def _sweep(self, sweep: Sweep, sweeps_left: int) -> list[Cell]:
        groups: dict[int, list[Cell]] = {}
        verdicts: dict[int, tuple[str, ...]] = {}
        visits: Counter[int] = Counter()
        while sizes := self._next(verdicts, visits):
            self._expect(sizes, sweeps_left)
            size = sizes[0]
            group = self._group(sweep, size, groups.get(size))
            if group is None:
                self._give_up(sweep, [size for size in sizes if size not in groups])
                break
            visits[size] += 1
            groups[size] = group
            verdicts[size] = self._verdicts(group)
        return [cell for group in groups.values() for cell in group]

    def _next(self, verdicts: dict[int, tuple[str, ...]], visits: Counter[int]) -> list[int]:
        """What the search asks for; when it has ended, undecided sizes once more, the least visited first."""
        sizes = next_sizes(self.grid, verdicts)
        if sizes or visits.total() - len(visits) >= MOST_AGAIN:
            return sizes
        again = [size for size in worth_again(verdicts) if visits[size] < MOST_VISITS]
        return sorted(again, key=lambda size: visits[size])

    def _expect(self, sizes: Sequence[int], sweeps_left: int) -> None:
        """While refining, keep time for the sizes known to be next, one more for each, and later sweeps."""
        if sizes[0] in self.grid.coarse:
            return
        later = sweeps_left * (self.request.groups_expected // len(self.request.sweeps) + KEPT_FOR_AGAIN)
        self.expected = max(self.expected, self.done + 2 * len(sizes) + KEPT_FOR_AGAIN + later)

    def _group(self, sweep: Sweep, size: int, before: Sequence[Cell] | None) -> list[Cell] | None:
        """The cells of one size, measured or from the journal; None when the time is spent.

        before: what an earlier visit found. Its samples and those of this visit stand together.
        """
        problem = self.request.problem(sweep, size)
        key = group_key(problem, sweep.host_memory)
        self.done += 1
        self.expected = max(self.expected, self.done)
        if self.journal is not None and key in self.journal.done and before is None:
            return list(self.journal.done[key])
        if self.left_s <= 0 and self.done > 1:
            return None
        cells = self._measure(sweep, size, problem)
        cells = pooled(before, cells) if before else cells
        self._keep(key, cells)
        return cells

    def _measure(self, sweep: Sweep, size: int, problem: Problem) -> list[Cell]:
        settings, start = self._settings(), self.now()
        cells = harness.measure_group(
            problem,
            sweep.host_memory,
            self.request.modes,
            settings,
            backends=candidates(problem, self.chosen),
            clock=self.clock,
            on_event=lambda event: self._tell(sweep, size, event),
            cpu_problem=plan.cpu_problem(problem),
        )
        self.over_s.append(max(0.0, self.now() - start - settings.group_budget_s))
        return cells

    def _keep(self, key: str, cells: Sequence[Cell]) -> None:
        """Into the journal; a disk that is full costs the journal, never the run."""
        if self.journal is not None:
            try:
                self.journal.append(key, cells)
            except OSError as error:
                self.journal, self.journal_fault = None, error.strerror or str(error)

    def _settings(self) -> Settings:
        """An equal share of the time left, less what groups took beyond theirs (opening, the gate)."""
        groups_left = self.expected - self.done + 1
        over = sum(self.over_s) / len(self.over_s) if self.over_s else 0.0
        share = max(LEAST_GROUP_S, self.left_s / groups_left - over)
        return Settings(
            seed=self.request.seed,
            threads=self.request.threads,
            group_budget_s=share,
            rounds_max=VISIT_ROUNDS,
        )

    def _tell(self, sweep: Sweep, size: int, event: Event) -> None:
        if self.tell is not None:
            self.tell(Step(sweep, size, self.done - 1, self.expected, max(0.0, self.left_s), event))

    def _verdicts(self, group: Iterable[Cell]) -> tuple[str, ...]:
        group = list(group)
        found = [
            analysis.points(group, asked.transfer, asked.reuse, lambda problem: 0)
            for asked in self.request.questions
        ]
        if not any(found):
            return ()
        return tuple(points[0].ratio.verdict if points else "undecided" for points in found)

    def _give_up(self, sweep: Sweep, sizes: Sequence[int]) -> None:
        self.done -= 1
        self.expected = max(self.done, self.expected - len(sizes))
        if not sizes:
            return
        listed = ", ".join(map(str, sorted(sizes)))
        self.unmeasured.append(f"{sweep.dtype} in {sweep.math}, {sweep.host_memory}: sizes {listed}")


def shape_sizes(request: Request, cells: Iterable[Cell]) -> tuple[int, ...]:
    """The sizes of the request's shape at which `cells` stand, within the range asked for, ascending."""
    shape = plan.family(request.shape, request.op)
    found = set()
    for cell in cells:
        if cell.problem.op == request.op:
            try:
                found.add(plan.size_of(cell.problem, shape))
            except ValueError:  # another shape's problem
                continue
    return tuple(sorted(size for size in found if request.sizes[0] <= size <= request.sizes[-1]))
