"""The measuring loop: sizes by the search, one comparison group at a time, in a time budget, resumable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

from backends.base import Backend, DeviceLost, Problem

from . import harness, plan, search
from .clock import Clock
from .harness_cells import left_out as left_out_cells
from .harness_settings import Event, Settings
from .journal import Journal
from .record import Cell, group_key
from .request import Asked, Request, Sweep, candidates
from .sweep_visits import Readings, alike, gate_again, shortlist

LEAST_GROUP_S = 0.25
"""Below this a comparison group has too few rounds for an interval."""

VISIT_ROUNDS = (6, 12)
"""Rounds in one visit: before the first look at the ratios, and at most. Neighbours on a shared machine slow
it down for 10 to 20 s at a time, one side more than the other: visits apart see more of that than as many
rounds in a row."""

PAUSE_S = 10.0
PAUSE_SHARE = 1 / 5
"""Two visits to one size are so far apart, or this part of the time budget where that is shorter."""


class Step(msgspec.Struct, frozen=True):
    """Progress of a run: which group is measured, how many are done of about how many, seconds left about."""

    sweep: Sweep
    size: int
    done: int
    expected: int
    left_s: float
    event: Event | None = None


class Outcome(msgspec.Struct, frozen=True):
    """Cells of every whole group, what the time did not suffice for, why the journal ended early.

    lost: what a lost device was doing. It ends a run before its time, with the cells of the groups that were
    whole by then.
    """

    cells: tuple[Cell, ...]
    unmeasured: tuple[str, ...] = ()
    journal_fault: str = ""
    lost: str = ""


class Measuring:
    """One run over all sweeps of a request. chosen: see `request.candidates`; first: see `search.Grid`.

    measure: how one comparison group is measured (`harness.measure_group` when None).
    """

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
        measure: Callable[..., list[Cell]] | None = None,
    ) -> None:
        self.request, self.chosen, self.journal, self.clock = request, chosen, journal, clock
        self.grid = msgspec.structs.replace(request.grid, first=tuple(first))
        self.tell, self.now, self.start, self.measure = tell, now, now(), measure
        self.done, self.journal_fault, self.lost = 0, "", ""
        self.over_s: list[float] = []
        self.unmeasured: list[str] = []
        self.expected = len(request.sweeps) * request.visits_expected

    @property
    def left_s(self) -> float:
        """Seconds of the time budget that are left."""
        return self.request.time_budget_s - (self.now() - self.start)

    def run(self) -> Outcome:
        """Measure every sweep; KeyboardInterrupt passes through, the journal then holds the whole groups."""
        cells: list[Cell] = []
        for left, sweep in reversed(list(enumerate(reversed(self.request.sweeps)))):
            cells += self._sweep(sweep, left)
        return Outcome(tuple(cells), tuple(self.unmeasured), self.journal_fault, self.lost)

    def _sweep(self, sweep: Sweep, sweeps_left: int) -> list[Cell]:
        readings = self._restored(sweep)
        pause = min(PAUSE_S, PAUSE_SHARE * self.request.time_budget_s)
        # the later sweeps' share of the time left: nothing but the coarse sizes may cut into it
        kept = self.left_s * sweeps_left / (sweeps_left + 1)
        while not self.lost and (visits := self._next(readings, pause)):
            self._expect(visits, sweeps_left)
            first = visits[0].size in self.grid.coarse and visits[0].size not in readings.groups
            if self.left_s <= (0 if first else kept) and self.done:
                self._give_up(sweep, visits, readings)
                break
            try:
                self._visit(sweep, visits[0], readings)
            except DeviceLost as error:  # all that is whole stays
                self.lost = str(error)
        return [cell for group in readings.groups.values() for cell in group]

    def _next(self, readings: Readings, pause: float) -> list[search.Visit]:
        questions = self.request.questions
        return search.next_visits(self.grid, readings.known(), questions, self.now() - self.start, pause)

    def _restored(self, sweep: Sweep) -> Readings:
        """What the journal holds of this sweep."""
        readings = Readings(self.request.questions)
        for size, cells in self._in_journal(sweep).items():
            readings.restore(size, cells)
            self.done += 1
        self.expected = max(self.expected, self.done)
        return readings

    def _in_journal(self, sweep: Sweep) -> dict[int, Sequence[Cell]]:
        done = self.journal.done if self.journal is not None else {}
        problems = {key: cells[0].problem for key, cells in done.items() if cells}
        found: dict[int, Sequence[Cell]] = {}
        for key in done:
            for size in shape_sizes(self.request, done[key]) if key in problems else ():
                if group_key(self.request.problem(sweep, size), sweep.host_memory) == key:
                    found[size] = done[key]
        return found

    def _expect(self, visits: Sequence[search.Visit], sweeps_left: int) -> None:
        """While refining, keep time for the visits known to be next, one more for each, and later sweeps."""
        if visits[0].size in self.grid.coarse:
            return
        later = sweeps_left * self.request.visits_expected
        self.expected = max(self.expected, self.done + 2 * len(visits) + later)

    def _visit(self, sweep: Sweep, visit: search.Visit, readings: Readings) -> None:
        """Measure some questions at one size, once more or for the first time."""
        self.done += 1
        self.expected = max(self.expected, self.done)
        problem = self.request.problem(sweep, visit.size)
        questions = alike(readings, visit.size, visit.questions)
        cells = self._measure(sweep, visit.size, problem, questions, readings)
        whole = readings.add(visit.size, questions, cells, self.now() - self.start)
        self._keep(group_key(problem, sweep.host_memory), whole)

    def _measure(
        self, sweep: Sweep, size: int, problem: Problem, questions: Sequence[Asked], readings: Readings
    ) -> list[Cell]:
        stood = [cell for question in questions for cell in readings.stood(size, question)]
        settings, start = self._settings(stood), self.now()
        backends, left_out = self._backends(size, problem, readings, stood)
        modes = list(dict.fromkeys((question.transfer, question.reuse) for question in questions))
        cells = (self.measure or harness.measure_group)(
            problem,
            sweep.host_memory,
            modes,
            settings,
            backends=backends,
            clock=self.clock,
            gate=gate_again(stood, harness.default_gate(settings.seed)) if _both(stood) else None,
            on_event=lambda event: self._tell(sweep, size, event),
            cpu_problem=plan.cpu_problem(problem),
        )
        self.over_s.append(max(0.0, self.now() - start - settings.group_budget_s))
        return cells + left_out_cells(left_out, problem, sweep.host_memory, modes, settings)

    def _backends(
        self, size: int, problem: Problem, readings: Readings, stood: Sequence[Cell]
    ) -> tuple[list[Backend], list[Backend]]:
        """Who is opened, and who is not worth it. A further visit times those again that stood in the first.

        Every second coarse size opens all: who is slow at small sizes may be the best at large ones.
        """
        everyone = candidates(problem, self.chosen)
        if _both(stood):
            names = {cell.backend for cell in stood}
            return [backend for backend in everyone if backend.name in names], []
        if size in self.grid.coarse[::2]:
            return everyone, []
        return shortlist(readings.groups, size, everyone)

    def _keep(self, key: str, cells: Sequence[Cell]) -> None:
        """Into the journal; a disk that is full costs the journal, never the run."""
        if self.journal is not None:
            try:
                self.journal.append(key, cells)
            except OSError as error:
                self.journal, self.journal_fault = None, error.strerror or str(error)

    def _settings(self, stood: Sequence[Cell] = ()) -> Settings:
        """An equal share of the time left, less what groups took beyond theirs (opening, the gate).

        stood: the candidates of an earlier visit, whose thread count is taken again.
        """
        groups_left = self.expected - self.done + 1
        over = sum(self.over_s) / len(self.over_s) if self.over_s else 0.0
        share = max(LEAST_GROUP_S, self.left_s / groups_left - over)
        threads = {cell.threads for cell in stood if cell.device == "cpu"}
        return Settings(
            seed=self.request.seed,
            threads=threads.pop() if len(threads) == 1 else self.request.threads,
            group_budget_s=share,
            rounds_min=VISIT_ROUNDS[0],
            rounds_max=VISIT_ROUNDS[1],
        )

    def _tell(self, sweep: Sweep, size: int, event: Event) -> None:
        if self.tell is not None:
            self.tell(Step(sweep, size, self.done - 1, self.expected, max(0.0, self.left_s), event))

    def _give_up(self, sweep: Sweep, visits: Sequence[search.Visit], readings: Readings) -> None:
        """The time is spent: say which sizes stay unmeasured, and which questions wanted further visits."""
        sizes = [visit.size for visit in visits if visit.size not in readings.groups]
        self.expected = max(self.done, self.expected - len(sizes))
        about = f"{sweep.dtype} in {sweep.math}, {sweep.host_memory}"
        if sizes:
            self.unmeasured.append(f"{about}: sizes {', '.join(map(str, sorted(sizes)))}")
        again = [visit for visit in visits if visit.size in readings.groups]
        asked = dict.fromkeys(question.text for visit in again for question in visit.questions)
        if asked:
            listed = ", ".join(str(size) for size in sorted(visit.size for visit in again))
            self.unmeasured.append(f"{about}: further visits to {listed} ({'; '.join(asked)})")


def _both(stood: Iterable[Cell]) -> bool:
    """Whether both sides stood in an earlier visit: then no others are opened, and a name is one library."""
    return {cell.device for cell in stood} == {"cpu", "cuda"}


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
