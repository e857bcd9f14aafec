"""Which sizes to measure next: a coarse sweep, then bisection wherever the verdict changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import sqrt

import msgspec

Verdicts = Sequence[str]
"""`win`, `loss` or `undecided`, one per question (transfer mode) asked at every size, always in one order."""


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes that may be measured.

    coarse: always measured, ascending. Between them multiples of `step`; below `fine_below`, where one lies
    between no two of those, multiples of half of it and so on, down to every whole size.
    resolution: a loss and a win this close (0.125: 12.5 %), with what is undecided between, are close enough.
    finest: a decided and an undecided size this close are not parted further.
    limit: at most this many sizes in all; the coarse ones come first.
    first: those of the coarse ones that come before the others, in case that time does not suffice for all.
    """

    coarse: tuple[int, ...]
    step: int = 8
    fine_below: int = 256
    resolution: float = 0.125
    finest: float = 0.02
    limit: int = 64
    first: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.coarse or any(a >= b for a, b in pairwise(self.coarse)):
            raise ValueError(f"coarse sizes must be ascending and at least one, got {self.coarse}")
        if self.step < 1 or min(self.resolution, self.finest) < 0:
            raise ValueError(
                f"step must be >= 1, resolution and finest >= 0; "
                f"got {self.step}, {self.resolution} and {self.finest}"
            )

    @property
    def spacing(self) -> float:
        """Largest ratio of neighbouring coarse sizes: only reversals wider than this are surely seen."""
        return max((b / a for a, b in pairwise(self.coarse)), default=1.0)

    def between(self, low: int, high: int, target: float | None = None) -> int | None:
        """The allowed size strictly between, nearest to `target` (the geometric mean), None without one."""
        target = sqrt(low * high) if target is None else target
        step = self.step
        while not (choices := _multiples(step, low, high, target)):
            if step == 1 or high > self.fine_below:
                return None
            step //= 2
        return min(choices, key=lambda size: abs(size - target))


def _multiples(step: int, low: int, high: int, target: float) -> list[int]:
    """The multiples of `step` next to `target` that lie strictly between."""
    nearest = round(target / step) * step
    return [size for size in (nearest, nearest - step, nearest + step) if low < size < high]


def next_sizes(grid: Grid, measured: Mapping[int, Verdicts]) -> list[int]:
    """The sizes to measure now, ascending (cheap ones first) after the grid's `first`; empty at the end.

    Call it again after every size, or after all of them. measured: the verdicts at each size measured so far,
    () for a size that could not be measured.
    """
    missing = [size for size in grid.coarse if size not in measured]
    if missing:
        missing.sort(key=lambda size: size not in grid.first)
        return missing[: max(0, grid.limit - len(measured))]
    return open_sizes(grid, measured)[: max(0, grid.limit - len(measured))]


def open_sizes(grid: Grid, measured: Mapping[int, Verdicts]) -> list[int]:
    """The next size for every change of verdict of every question that is not yet known well enough.

    When there are none left: sizes just outside of every change, where the next size is far. A change that
    rests on one odd size would otherwise hide the true one behind it.
    """
    known = sorted(size for size, verdicts in measured.items() if verdicts)
    found: set[int] = set()
    outside: set[int] = set()
    for verdicts in set(zip(*(measured[size] for size in known), strict=True)):
        changes = _changes(verdicts)
        for first, last in changes:
            found |= _inside(grid, known[first : last + 1], verdicts[first] != verdicts[last], measured)
        outside |= _outside(grid, known, changes)
    return sorted(found or outside - measured.keys())


def _changes(verdicts: Verdicts) -> list[tuple[int, int]]:
    """First and last index of every stretch whose ends are decided, or the ends of all, and that changes.

    Between them all is undecided: loss win; loss undecided undecided win; win undecided win; loss undecided.
    """
    inner = [i for i in range(1, len(verdicts) - 1) if verdicts[i] != "undecided"]
    ends = [0, *inner, len(verdicts) - 1] if len(verdicts) > 1 else []
    return [(a, b) for a, b in pairwise(ends) if len(set(verdicts[a : b + 1])) > 1]


def _inside(grid: Grid, sizes: Sequence[int], crosses: bool, measured: Mapping[int, Verdicts]) -> set[int]:
    """The middle of the wider end of a stretch, as long as parting it makes the answer finer.

    A stretch from a loss to a win (`crosses`) is one band: it is narrowed from its ends until it is as narrow
    as the resolution, or until no end can be parted. Any other: until each end is.
    """
    if crosses and sizes[-1] <= sizes[0] * (1 + grid.resolution):
        return set()
    apart = 1 + (_least_gap(grid, sizes) if crosses else grid.resolution)
    ends = {(sizes[0], sizes[1]), (sizes[-2], sizes[-1])}
    wide = [(high / low, grid.between(low, high)) for low, high in ends if high > low * apart]
    free = [(width, size) for width, size in wide if size is not None and size not in measured]
    return {max(free)[1]} if free else set()


def _least_gap(grid: Grid, sizes: Sequence[int]) -> float:
    """The end of a band is parted while it is wider than this.

    `finest`; where what is undecided is by itself wider than the resolution, narrow ends do not make the band
    narrow enough: half the resolution.
    """
    if sizes[-2] <= sizes[1] * (1 + grid.resolution):
        return min(grid.finest, grid.resolution)
    return grid.resolution / 2


def _outside(grid: Grid, known: Sequence[int], changes: Sequence[tuple[int, int]]) -> set[int]:
    apart = 1 + grid.resolution
    gaps = [(known[a - 1], known[a], known[a] / apart) for a, _ in changes if a > 0]
    gaps += [(known[b], known[b + 1], known[b] * apart) for _, b in changes if b + 1 < len(known)]
    wide = (grid.between(low, high, near) for low, high, near in gaps if high > low * apart * apart)
    return {size for size in wide if size is not None}


def worth_again(measured: Mapping[int, Verdicts]) -> list[int]:
    """Sizes at which some question is undecided, ascending: to be measured again once the search has ended.

    A noisy stretch of time is the cause as often as a ratio near 1, and one such size moves the stable
    region, and so the band, beyond it.
    """
    return sorted(size for size, verdicts in measured.items() if "undecided" in verdicts)


def expected_sizes(grid: Grid, crossings: int = 1) -> int:
    """About how many sizes a search with this many crossings measures: for estimates of the time left."""
    count = len(grid.coarse)
    for _ in range(crossings):
        ratio = grid.spacing
        while ratio > 1 + max(grid.resolution, 1e-2):
            ratio = sqrt(ratio)
            count += 1
        count += 1
    return min(count, grid.limit)
