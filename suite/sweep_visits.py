"""What one sweep knows: its groups of cells, what they say of every question, who is worth another visit.

All of it follows from cells, so that a run resumed from its journal goes on as if it had not ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from backends.base import APART, Backend, Session

from .analysis import visits
from .analysis.controls import Resolution, group_resolution, run_resolution
from .analysis.crossover import candidate
from .pooling import pooled
from .record import Cell, GateResult
from .request import Asked
from .search import Reading

SHORTLIST = 2.0
"""Times the best of its side, at a neighbouring size, up to which a backend is opened again."""


class Readings:
    """The groups of one sweep, and the reading of every question at every size."""

    def __init__(self, questions: Sequence[Asked]) -> None:
        self.questions = list(questions)
        self.groups: dict[int, list[Cell]] = {}
        self.counts: dict[tuple[int, Asked], int] = {}
        self.last: dict[tuple[int, Asked], float] = {}
        self._seen: dict[Asked, dict[int, visits.Seen]] = {question: {} for question in self.questions}
        self._limits: dict[int, Resolution] = {}

    def add(self, size: int, questions: Iterable[Asked], cells: Sequence[Cell], now: float) -> list[Cell]:
        """One more visit to `size`; all cells of its group."""
        before = self.groups.get(size)
        for question in questions:
            self.counts[size, question] = self.counts.get((size, question), 0) + 1
            self.last[size, question] = now
        return self._keep(size, pooled(before, cells) if before else list(cells))

    def restore(self, size: int, cells: Sequence[Cell]) -> None:
        """A group from the journal, with the visits that its cells remember."""
        for question in self.questions:
            of_it = [c for c in cells if (c.transfer, c.reuse) == (question.transfer, question.reuse)]
            times = [len({*c.visit_of}) for c in of_it if c.samples_s and c.role == "candidate"]
            if of_it:
                self.counts[size, question] = max(times, default=1)
        self._keep(size, list(cells))

    def _keep(self, size: int, cells: list[Cell]) -> list[Cell]:
        self.groups[size] = cells
        self._limits[size] = group_resolution(cells)
        for question in self.questions:
            cpu, gpu = (candidate(cells, side, question.transfer, question.reuse) for side in ("cpu", "cuda"))
            found = visits.seen(cpu, gpu) if cpu and gpu else None
            if found is None:
                self._seen[question].pop(size, None)
            else:
                self._seen[question][size] = found
        return cells

    def known(self) -> dict[int, dict[Asked, Reading | None]]:
        """As the search wants it. The verdicts are worked out anew for all sizes: each visit tells of all."""
        found: dict[int, dict[Asked, Reading | None]] = {size: {} for size in self.groups}
        for question in self.questions:
            readings = self._readings(question)
            for size in self.groups:
                if (size, question) in self.counts:
                    found[size][question] = readings.get(size)
        return found

    def _readings(self, question: Asked) -> dict[int, Reading]:
        seen = {
            size: msgspec.structs.replace(one, floor=self._floor(size))
            for size, one in self._seen[question].items()
        }
        return {
            size: Reading(
                ratio.verdict,
                math.log(ratio.mid),
                math.log(ratio.high / ratio.low) / 2 if ratio.low > 0 else math.inf,
                seen[size].floor,
                self.counts.get((size, question), ratio.visits),
                self.last.get((size, question), -math.inf),
            )
            for size, ratio in visits.ratios(seen).items()
        }

    def _floor(self, size: int) -> float:
        """Log of what the controls of this group tell apart; the run's where it had none."""
        own = self._limits[size]
        limit = own if own.controls else run_resolution(list(self._limits.values()))
        return math.log(limit.ratio) if math.isfinite(limit.ratio) else 0.0

    def stood(self, size: int, question: Asked) -> list[Cell]:
        """The candidates of both sides that a further visit is to time again; empty before the first."""
        group = self.groups.get(size, ())
        found = [candidate(group, device, question.transfer, question.reuse) for device in ("cpu", "cuda")]
        return [cell for cell in found if cell is not None]


def alike(readings: Readings, size: int, questions: Sequence[Asked]) -> tuple[Asked, ...]:
    """The first of the questions and those others that the same candidates answered at `size`."""
    stood = {q: [(c.backend, c.threads) for c in readings.stood(size, q)] for q in questions}
    return tuple(q for q in questions if stood[q] == stood[questions[0]])


def shortlist(
    groups: Mapping[int, Sequence[Cell]], size: int, backends: Sequence[Backend]
) -> tuple[list[Backend], list[Backend]]:
    """(worth opening, not worth it) at `size`, by the screening times at the nearest measured sizes.

    On each side: those within SHORTLIST times the best in some mode at either of them; all where neither
    knows any that is usable now.
    """
    below, above = (
        max((s for s in groups if s < size), default=None),
        min((s for s in groups if s > size), default=None),
    )
    near = [neighbour for neighbour in (below, above) if neighbour is not None]
    quick = {name for neighbour in near for name in _quick(groups[neighbour])}
    sides = {device: {b.name for b in backends if b.device == device} for device in ("cpu", "cuda")}
    kept = [b for b in backends if b.name in quick or not sides[b.device] & quick]
    return kept, [b for b in backends if b not in kept]


def _quick(cells: Sequence[Cell]) -> set[str]:
    """Backends near the best of their side in some mode, by their screening."""
    best: dict[tuple[str, str, int], float] = {}
    timed = [cell for cell in cells if cell.rough_s is not None and (cell.gate is None or cell.gate.ok)]
    for cell in timed:
        key = (cell.device, cell.transfer, cell.reuse)
        best[key] = min(best.get(key, math.inf), cell.rough_s or 0.0)
    return {
        cell.backend
        for cell in timed
        if (cell.rough_s or 0.0) <= SHORTLIST * best[cell.device, cell.transfer, cell.reuse]
    }


def gate_again(
    cells: Collection[Cell], check: Callable[[Session], GateResult]
) -> Callable[[Session], GateResult]:
    """A gate for further visits: the same kernel at the same size was shown right before its first time."""
    passed = {
        (c.kernel, c.kernel_hash, c.transfer if c.transfer in APART else None): c.gate
        for c in cells
        if c.gate is not None and c.gate.ok
    }

    def gate(session: Session) -> GateResult:
        known = passed.get((session.info.kernel, session.info.kernel_hash, session.only))
        return check(session) if known is None else known

    return gate
