"""Which sizes to measure next: a coarse sweep, then bisection wherever the verdict changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import sqrt

import msgspec

Verdicts = Sequence[str]
"""`win`, `loss` or `undecided`, one per question (transfer mode) asked at every size, always in one order."""


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes that may be measured.

    coarse: always measured, ascending. Between them multiples of `step`, below `fine_below` every whole size.
    resolution: two neighbours with different verdicts this close (0.125: 12.5 %) are close enough.
    limit: at most this many sizes in all; the coarse ones come first.
    """

    coarse: tuple[int, ...]
    step: int = 8
    fine_below: int = 64
    resolution: float = 0.125
    limit: int = 64

    def __post_init__(self) -> None:
        if not self.coarse or any(a >= b for a, b in pairwise(self.coarse)):
            raise ValueError(f"coarse sizes must be ascending and at least one, got {self.coarse}")
        if self.step < 1 or self.resolution < 0:
            raise ValueError(f"step must be >= 1, resolution >= 0; got {self.step} and {self.resolution}")

    @property
    def spacing(self) -> float:
        """Largest ratio of neighbouring coarse sizes: only reversals wider than this are surely seen."""
        return max((b / a for a, b in pairwise(self.coarse)), default=1.0)

    def between(self, low: int, high: int, target: float | None = None) -> int | None:
        """The allowed size strictly between, nearest to `target` (the geometric mean), None without one."""
        target = sqrt(low * high) if target is None else target
        step = self.step if high > self.fine_below else 1
        nearest = round(target / step) * step
        choices = [s for s in (nearest, nearest - step, nearest + step) if low < s < high]
        return min(choices, key=lambda s: abs(s - target)) if choices else None


def next_sizes(grid: Grid, measured: Mapping[int, Verdicts]) -> list[int]:
    """The sizes to measure now, ascending (cheap ones first); empty when the search has ended.

    Call it again after every size, or after all of them. measured: the verdicts at each size measured so far,
    () for a size that could not be measured.
    """
    missing = [size for size in grid.coarse if size not in measured]
    if missing:
        return missing[: max(0, grid.limit - len(measured))]
    return open_sizes(grid, measured)[: max(0, grid.limit - len(measured))]


def open_sizes(grid: Grid, measured: Mapping[int, Verdicts]) -> list[int]:
    """Middles of all neighbours whose verdicts differ in some question and that are not yet close enough.

    When there are none left: sizes just outside of every change, where the next size is far. A change that
    rests on one odd size would otherwise hide the true one behind it.
    """
    known = sorted(size for size, verdicts in measured.items() if verdicts)
    changes = [i for i, (a, b) in enumerate(pairwise(known)) if _differ(measured[a], measured[b])]
    wide = [i for i in changes if known[i + 1] > known[i] * (1 + grid.resolution)]
    middles = _new((grid.between(known[i], known[i + 1]) for i in wide), measured)
    return middles or _new(_outside(grid, known, changes), measured)


def _new(sizes: Iterable[int | None], measured: Mapping[int, Verdicts]) -> list[int]:
    return sorted({size for size in sizes if size is not None and size not in measured})


def _outside(grid: Grid, known: Sequence[int], changes: Sequence[int]) -> Iterable[int | None]:
    apart = 1 + grid.resolution
    gaps = [(known[i - 1], known[i], known[i] / apart) for i in changes if i > 0]
    gaps += [(known[i + 1], known[i + 2], known[i + 1] * apart) for i in changes if i + 2 < len(known)]
    return (grid.between(low, high, near) for low, high, near in gaps if high > low * apart * apart)


def _differ(a: Verdicts, b: Verdicts) -> bool:
    return any(x != y for x, y in zip(a, b, strict=True))


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
