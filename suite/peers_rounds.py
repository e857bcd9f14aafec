"""When a comparison of `peers` has had rounds enough: pure functions of the cells that it has so far.

A disturbance can only lengthen a time. So a figure, the shortest of all visits, counts as settled once a
second visit has come as low. What cannot decide the comparison any more, a peer far behind the best, is left
out of further rounds; all others are visited equally often: none has more chances of a quiet moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .record import Cell

OURS, ROOF = "native", "roof"

SETTLED_WITHIN = 0.02
"""The two best visits of a settled figure differ by no more."""

NEAR_BEST = 0.15
"""A peer that takes longer than the best one by more than this will not become the best."""

MOST_ROUNDS = 8
"""Of a group, however unsettled it is."""

Way = tuple[str, str]
"""A backend, and which call of it: empty but for those from Python."""


def way_of(cell: Cell) -> Way:
    """What the cell timed."""
    return cell.backend, cell.config.get("call", "")


def settled(times: Iterable[float]) -> bool:
    """Do the two shortest agree?"""
    best = sorted(times)[:2]
    return len(best) == 2 and best[1] <= (1 + SETTLED_WITHIN) * best[0]


def contenders(cells: Iterable[Cell]) -> dict[Way, bool]:
    """Ours and every peer near the best, each with whether its figure is settled.

    Empty where there is nothing to compare. The visits among the others and those alone count together.
    """
    visits: dict[Way, list[float]] = {}
    for cell in cells:
        if cell.backend != ROOF and cell.times_s:
            visits.setdefault(way_of(cell), []).extend(cell.times_s)
    peers = [min(times) for (name, _), times in visits.items() if name != OURS]
    if not peers or len(peers) == len(visits):
        return {}
    most = (1 + NEAR_BEST) * min(peers)
    return {way: settled(times) for way, times in visits.items() if way[0] == OURS or min(times) <= most}


def again(cells: Iterable[Cell]) -> tuple[str, ...]:
    """The backends to visit in a further round; none where every contender is settled."""
    found = contenders(cells)
    return () if all(found.values()) else tuple(dict.fromkeys(name for name, _ in found))


def share_s(costs: Sequence[float], left_s: float) -> float:
    """Seconds for the first of the groups to come: its part of what is left, by what a round of each costs.

    So all have time for as many rounds, and what one does not need goes to those after it; never less than
    one round.
    """
    return costs[0] * max(1.0, left_s / sum(costs))
