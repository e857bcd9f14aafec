"""When a comparison of `peers` has had rounds enough: pure functions of the cells that it has so far.

A disturbance can only lengthen a time, but a slow phase of a shared machine lasts for seconds: all visits of
one round, and of another right after it, may agree and all be slow. So a figure, the shortest of all visits,
counts as settled once the best visit of another round, taken a while before or after, has come as low. What
cannot decide the comparison any more, a peer far behind the best, is left out of further rounds; all others
are visited equally often: none has more chances of a quiet moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from .peers_plan import Group
from .record import Cell

OURS, ROOF = "native", "roof"

SETTLED_WITHIN = 0.02
"""The best visits of the two best rounds of a settled figure differ by no more."""

NEAR_BEST = 0.15
"""A peer that takes longer than the best one by more than this will not become the best."""

MOST_ROUNDS = 8
"""Of a group, however unsettled it is."""

APART_S = 5.0
"""Between two rounds of a group, at the least: a slow phase lasts for seconds."""

MOST_ERRORS = 2
"""Of a group, which is left as it is then."""

Way = tuple[str, str]
"""A backend, and which call of it: empty but for those from Python."""


def way_of(cell: Cell) -> Way:
    """What the cell timed."""
    return cell.backend, cell.config.get("call", "")


def settled(visits: Iterable[tuple[int, float]]) -> bool:
    """Do the two best rounds agree, each by the shortest of its visits? visits: (round, seconds)."""
    shortest: dict[int, float] = {}
    for round_, seconds in visits:
        shortest[round_] = min(seconds, shortest.get(round_, seconds))
    best = sorted(shortest.values())[:2]
    return len(best) == 2 and best[1] <= (1 + SETTLED_WITHIN) * best[0]


def contenders(cells: Iterable[Cell]) -> dict[Way, bool]:
    """Ours and every peer near the best, each with whether its figure is settled.

    Empty where there is nothing to compare. The visits among the others and those alone count together.
    """
    visits: dict[Way, list[tuple[int, float]]] = {}
    for cell in cells:
        if cell.backend != ROOF and cell.times_s:
            rounds = sorted({*cell.round_of})
            visits.setdefault(way_of(cell), []).extend(zip(rounds, cell.times_s, strict=True))
    best = {way: min(seconds for _, seconds in found) for way, found in visits.items()}
    peers = [seconds for (name, _), seconds in best.items() if name != OURS]
    if not peers or len(peers) == len(best):
        return {}
    most = (1 + NEAR_BEST) * min(peers)
    return {way: settled(visits[way]) for way in visits if way[0] == OURS or best[way] <= most}


def again(cells: Iterable[Cell]) -> tuple[str, ...]:
    """The backends to visit in a further round; none where every contender is settled."""
    found = contenders(cells)
    return () if all(found.values()) else tuple(dict.fromkeys(name for name, _ in found))


def joined(before: Cell, after: Cell) -> Cell:
    """One cell with the samples of both rounds; without any where the times of one do not count."""
    for cell in (before, after):
        if cell.skip_reason:
            return msgspec.structs.replace(cell, samples_s=(), round_of=(), inner=())
    fields: dict[str, Any] = {
        name: getattr(before, name) + getattr(after, name) for name in ("samples_s", "round_of", "inner")
    }
    cpus = max((cell.cpu_per_wall for cell in (before, after) if cell.cpu_per_wall is not None), default=None)
    best = max(before, after, key=lambda cell: cell.config.get("rate_per_s", 0.0))
    return msgspec.structs.replace(before, **fields, cpu_per_wall=cpus, config=best.config)


class Standing:
    """A group between its rounds: the cells it has so far, whom to visit next, and what that will take."""

    def __init__(self, group: Group, visited: int, cost_s: float, cells: Sequence[Cell] = ()) -> None:
        """visited: how many libraries a first round visits, in `cost_s` by the plan."""
        self.group, self.visited, self.per_library_s = group, visited, cost_s / visited
        self._cells = {_key(cell): cell for cell in cells}
        self.round_ = 1 + max((round_ for cell in cells for round_ in cell.round_of), default=-1)
        self.names = again(cells)
        self.errors = 0
        self.ended_s = float("-inf")

    @property
    def cells(self) -> tuple[Cell, ...]:
        """One for each library, way of calling and kind of visit."""
        return tuple(self._cells.values())

    @property
    def open(self) -> bool:
        """Is it to be visited again?"""
        more = bool(self.names) or not self.round_
        return more and self.errors < MOST_ERRORS and self.round_ < MOST_ROUNDS

    @property
    def next_s(self) -> float:
        """Seconds that its next round about takes."""
        return self.per_library_s * (len(self.names) or self.visited)

    def add(self, cells: Sequence[Cell], failed: bool, began_s: float, ended_s: float) -> None:
        """Take in a round; a run's first says little of the next: a library's first call takes longer."""
        if self.ended_s > float("-inf"):
            self.per_library_s = (ended_s - began_s) / (len(self.names) or self.visited)
        for cell in cells:
            key = _key(cell)
            self._cells[key] = joined(self._cells[key], cell) if key in self._cells else cell
        self.errors += failed
        self.round_, self.ended_s, self.names = self.round_ + 1, ended_s, again(self.cells)


def _key(cell: Cell) -> tuple[str, ...]:
    return (*way_of(cell), cell.config.get("visits", ""))
