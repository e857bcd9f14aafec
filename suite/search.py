"""Which sizes to visit next, and for which questions: a coarse sweep, then only where the sign is open."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import sqrt
from typing import Any

import msgspec

from . import search_place as place

MOST_VISITS = 8
"""Times one question is asked of one size, at most."""

END_VISITS = 3
"""Visits that the two ends of a band get at least: all rests on them."""

MOST_AGAIN = 36
"""Visits to sizes that one question had been asked of before, at most."""

MOST_REFINED = 8
"""Sizes within one step of the coarse sweep from which on brackets are halved, whatever a line says."""

LEAN = 0.5
"""Part of its half-width that a ratio must be away from 1 to be searched beside as if it were decided."""

WORTH = 0.6
"""Part of its half-width, after two visits more, that a ratio must be away from 1 to promise a verdict."""

SLACK = 2.0
"""Times as wide as asked, a band is left as it is where only sizes too near 1 are left in it."""

CLIFF = 1.25
"""A ratio that changes by more from a size to the next one: one of the two may be an odd one."""

WAITS = 3
"""Rank of what would better wait: then the ends of the band take turns with it, so that visits are apart."""

STEEP = 1.5
"""A band whose ends are farther from 1 than this is not yet narrowed as far as it can be."""

FAR = 1.125
"""A next size farther away than this cannot show that."""


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes that may be measured.

    coarse: always measured, ascending. Between them multiples of `step`, which is halved below `fine_below`
    and once more for every further halving of the size, down to every whole size.
    resolution: a loss and a win this close (0.02: 2 %), or one step, are close enough.
    limit: at most this many sizes in all; the coarse ones come first.
    first: those of the coarse ones that come before the others, in case that time does not suffice for all.
    """

    coarse: tuple[int, ...]
    step: int = 8
    fine_below: int = 128
    resolution: float = 0.02
    limit: int = 64
    first: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.coarse or any(a >= b for a, b in pairwise(self.coarse)):
            raise ValueError(f"coarse sizes must be ascending and at least one, got {self.coarse}")
        if self.step < 1 or self.resolution < 0:
            raise ValueError(f"step must be >= 1, resolution >= 0; got {self.step} and {self.resolution}")

    @property
    def spacing(self) -> float:
        """Largest ratio of neighbouring coarse sizes: only reversals wider than this are surely seen."""
        return max((b / a for a, b in pairwise(self.coarse)), default=1.0)

    def step_at(self, size: float) -> int:
        """The step from sizes like this one to the next."""
        step, least = self.step, self.fine_below
        while step > 1 and size < least:
            step, least = step // 2, least // 2
        return step

    def narrow(self, low: int, high: int) -> bool:
        """Whether two sizes are as close as asked, or one step."""
        return high - low <= max(self.step_at(low), self.resolution * low)

    def between(self, low: int, high: int, target: float | None = None) -> int | None:
        """The allowed size strictly between, nearest to `target` (the geometric mean), None without one."""
        target = sqrt(low * high) if target is None else min(max(target, low), high)
        step = self.step_at(target)
        nearest = round(target / step) * step
        found = [size for size in (nearest, nearest - step, nearest + step) if low < size < high]
        return min(found, key=lambda size: abs(size - target)) if found else None


class Reading(msgspec.Struct, frozen=True):
    """What is known of one question at one size: see `analysis.visits`. Logs of t_cpu / t_gpu.

    last: when it was visited last, on the clock of the caller.
    """

    verdict: str
    mid: float
    half: float
    floor: float = 0.0
    visits: int = 1
    last: float = -math.inf

    @property
    def leaning(self) -> int:
        """1 to a win, -1 to a loss: the verdict, or the likely one until there were visits enough for it."""
        if self.verdict in ("win", "loss"):
            return 1 if self.verdict == "win" else -1
        if self.visits >= END_VISITS:
            return 0
        doubt = LEAN * max(self.half, self.floor)
        return 0 if not abs(self.mid) > doubt else 1 if self.mid > 0 else -1


class Visit(msgspec.Struct, frozen=True):
    """One size and the questions to ask there."""

    size: int
    questions: tuple[Any, ...]


Known = Mapping[int, Mapping[Any, Reading | None]]
"""Size -> question -> its reading, None where a side has no time; a question never asked there is absent."""


def next_visits(
    grid: Grid, known: Known, questions: Sequence[Any], now: float = 0.0, pause: float = 0.0
) -> list[Visit]:
    """What to visit, the first of them now; empty at the end. Call it again after every visit.

    Two visits to one size are `pause` apart where something else can be done meanwhile.
    """
    coarse = _coarse(grid, known, questions)
    if coarse:
        return coarse[: max(0, grid.limit - len(known))]
    wanted: dict[int, dict[Any, tuple]] = {}
    for question in questions:
        for size, rank in _wanted(grid, known, question, now - pause).items():
            wanted.setdefault(size, {})[question] = rank
    order = sorted(wanted, key=lambda size: (min(wanted[size].values()), size))
    return [Visit(size, tuple(wanted[size])) for size in order]


def _coarse(grid: Grid, known: Known, questions: Sequence[Any]) -> list[Visit]:
    """The coarse sizes of which something was not asked, ascending (cheap ones first) after the `first`."""
    found = []
    for size in sorted(grid.coarse, key=lambda size: (size not in grid.first, size)):
        missing = tuple(question for question in questions if question not in known.get(size, ()))
        if missing:
            found.append(Visit(size, missing))
    return found


def _wanted(grid: Grid, known: Known, question: Any, due: float) -> dict[int, tuple]:
    """Size -> rank (lower is more urgent) of what one question asks for."""
    asked = {size: answers[question] for size, answers in known.items() if question in answers}
    track = Track(grid, [(size, r) for size, r in sorted(asked.items()) if r is not None], asked.keys())
    again, ends = track.again(), track.ends()
    spent = sum(reading.visits - 1 for reading in track.readings)
    found: dict[int, tuple] = {}
    for size, promising in again.items() if spent < MOST_AGAIN else ():
        reading = track.at[size]
        ready = reading.last <= due
        rank = WAITS if not (ready and promising) else 0 if size in ends else 2
        found[size] = (rank, reading.last, reading.visits)
    if found and min(found.values())[0] >= WAITS:
        found.update({size: (WAITS, track.at[size].last, 0) for size in ends if track.near(size)})
    if len(known) < grid.limit:
        fresh = track.refined() or ([] if found else track.outside())
        found.update(dict.fromkeys(fresh, (1, -math.inf, 0)))
    return found


class Track:
    """The readings of one question along the sizes. tried: sizes that were asked of, with a time or not."""

    def __init__(
        self, grid: Grid, readings: Sequence[tuple[int, Reading]], tried: Iterable[int] = ()
    ) -> None:
        self.grid, self.tried = grid, set(tried)
        self.sizes = [size for size, _ in readings]
        self.readings = [reading for _, reading in readings]
        self.at = dict(readings)
        self.leanings = [reading.leaning for reading in self.readings]
        leaning = [i for i, side in enumerate(self.leanings) if side]
        self.stretches = list(pairwise(leaning))
        """Neighbours that lean to a side; those between them lean to none."""

    def crosses(self, i: int, j: int) -> bool:
        """Whether the ends of a stretch lean to different sides."""
        return self.leanings[i] != self.leanings[j]

    def ends(self) -> set[int]:
        """Sizes at the ends of a stretch that crosses."""
        return {self.sizes[x] for i, j in self.stretches if self.crosses(i, j) for x in (i, j)}

    def again(self) -> dict[int, bool]:
        """Sizes without a verdict that further visits may give one, and whether they promise it.

        Those between the ends of a stretch that is narrow enough matter to nothing.
        """
        crossing = [(i, j) for i, j in self.stretches if self.crosses(i, j)]
        inside = {x for i, j in crossing for x in range(i + 1, j)}
        enough = {
            x
            for i, j in crossing
            for x in range(i + 1, j)
            if self.grid.narrow(self.sizes[i], self.sizes[j]) or (self._idle(x) and self._near_enough(i, j))
        }
        open_ones = {
            self.sizes[x]: x not in inside or _promising(r)
            for x, r in enumerate(self.readings)
            if r.verdict == "undecided" and r.visits < MOST_VISITS and x not in enough
        }
        return open_ones | {self.sizes[x]: True for i, j in crossing for x in self._doubtful(i, j)}

    def _idle(self, x: int) -> bool:
        """Whether enough visits were made to a size to see that it is too near 1."""
        return self.readings[x].visits >= END_VISITS and not _promising(self.readings[x])

    def _near_enough(self, i: int, j: int) -> bool:
        """Whether a band is so narrow that a size in it which promises nothing is not worth more visits."""
        low, high = self.sizes[i], self.sizes[j]
        return high - low <= SLACK * max(self.grid.step_at(low), self.grid.resolution * low)

    def near(self, size: int) -> bool:
        """Whether a disturbance could turn it round, and further visits may say so."""
        reading = self.at[size]
        return abs(reading.mid) < math.log(STEEP) and reading.visits < MOST_VISITS

    def _doubtful(self, i: int, j: int) -> list[int]:
        """Ends of a band that too few visits stand for: more where one of them is where no line leads."""
        a, b = self.readings[i], self.readings[j]
        if max(abs(a.mid), abs(b.mid)) > math.log(STEEP):
            return []
        enough = MOST_VISITS - 1 if self._is_step(i, j) else END_VISITS
        return [x for x in (i, j) if self.readings[x].visits < enough]

    def _is_step(self, i: int, j: int) -> bool:
        """Whether the ratio changes by far more between these two than the next sizes lead one to expect."""
        a, b = self.readings[i], self.readings[j]
        slopes = [
            abs(self.readings[y].mid - self.readings[x].mid) / math.log(self.sizes[y] / self.sizes[x])
            for x, y in ((i - 1, i), (j, j + 1))
            if x >= 0 and y < len(self.sizes)
        ]
        expected = max(slopes, default=0.0) * math.log(self.sizes[j] / self.sizes[i])
        return abs(a.mid - b.mid) > 2 * expected + a.half + b.half

    def refined(self) -> list[int]:
        """A new size for every stretch that is not yet known well enough."""
        found = [self._refine(i, j) for i, j in self.stretches]
        return sorted({size for size in found if size is not None})

    def _refine(self, i: int, j: int) -> int | None:
        low, high = self.sizes[i], self.sizes[j]
        if not self.crosses(i, j):
            return self._beside_open(i, j)
        if self.grid.narrow(low, high):
            return None
        odd = [x for x in (i, j) if self._is_odd(x)]
        if len(odd) == 1:
            return self._beside_odd(odd[0], i, j)
        return self._placed(i, j)

    def _placed(self, i: int, j: int) -> int | None:
        low, high = self.sizes[i], self.sizes[j]
        points = [
            place.Seen(size, r.mid, r.half, r.floor, r.visits)
            for size, r in zip(self.sizes[i : j + 1], self.readings[i : j + 1], strict=True)
        ]
        step = self.grid.step_at(low)
        narrow = max(self.grid.resolution, step / low)
        found = place.targets(points, self.leanings[j] > 0, narrow, self._refined_in(low, high))
        sizes = [self._free(*self._gap(i, j, target), target) for target in found]
        return next((size for size in sizes if size is not None), None)

    def _gap(self, i: int, j: int, target: float) -> tuple[int, int]:
        """The two neighbours among the sizes of a stretch between which `target` lies."""
        above = next(x for x in range(i + 1, j + 1) if x == j or self.sizes[x] > target)
        return self.sizes[above - 1], self.sizes[above]

    def _refined_in(self, low: int, high: int) -> bool:
        """Whether so many sizes were measured in this step of the coarse sweep that a line is no help."""
        bottom = max((size for size in self.grid.coarse if size <= low), default=low)
        top = min((size for size in self.grid.coarse if size >= high), default=high)
        return sum(bottom < size < top for size in self.sizes) >= MOST_REFINED

    def _is_odd(self, x: int) -> bool:
        """Whether the nearest sizes that lean to a side both lean to the other one."""
        sides = [self.leanings[a if b == x else b] for a, b in self.stretches if x in (a, b)]
        return len(sides) == 2 and all(side != self.leanings[x] for side in sides)

    def _beside_odd(self, x: int, i: int, j: int) -> int | None:
        """The next size to an odd one, once that has its verdict: is it alone?"""
        if self.readings[x].verdict == "undecided" and self.readings[x].visits < MOST_VISITS:
            return None
        size = self.sizes[x]
        away = max(self.grid.resolution, self.grid.step_at(size) / size)
        target = size / (1 + away) if x == j else size * (1 + away)
        return self._free(self.sizes[i], self.sizes[j], target)

    def _beside_open(self, i: int, j: int) -> int | None:
        """Wins above what stays undecided between wins, closer: they begin the stable region."""
        if self.leanings[j] < 0 or j == i + 1 or self.again().keys() & {*self.sizes[i + 1 : j]}:
            return None
        low, high = self.sizes[j - 1], self.sizes[j]
        return None if self.grid.narrow(low, high) or high < FAR * low else self._free(low, high, None)

    def outside(self) -> list[int]:
        """Sizes just outside of a cliff, where the next size is far: an odd size would hide a crossing."""
        found: list[int | None] = []
        for i, j in self.stretches:
            if not self.crosses(i, j) or j > i + 1:
                continue
            a, b = self.readings[i], self.readings[j]
            if abs(a.mid - b.mid) <= math.log(CLIFF) + a.half + b.half:
                continue
            low, high = self.sizes[i], self.sizes[j]
            away = 1 + max(self.grid.resolution, self.grid.step_at(low) / low)
            if i and low > FAR * self.sizes[i - 1]:
                found.append(self._free(self.sizes[i - 1], low, low / away))
            if j + 1 < len(self.sizes) and self.sizes[j + 1] > FAR * high:
                found.append(self._free(high, self.sizes[j + 1], high * away))
        return sorted({size for size in found if size is not None})

    def _free(self, low: int, high: int, target: float | None) -> int | None:
        size = self.grid.between(low, high, target)
        return None if size in self.tried else size


def _promising(reading: Reading) -> bool:
    """Whether a few more visits may well decide it."""
    shrunk = math.sqrt(reading.visits / (reading.visits + 2))
    return abs(reading.mid) > WORTH * shrunk * max(reading.half, reading.floor)


def expected_sizes(grid: Grid, crossings: int = 1) -> int:
    """About how many sizes a search with this many crossings measures: for estimates of the time left."""
    return min(grid.limit, len(grid.coarse) + 4 * crossings * (len(grid.coarse) > 1))


def expected_visits(grid: Grid, crossings: int = 1) -> int:
    """About how many visits those sizes get."""
    return expected_sizes(grid, crossings) + (4 * crossings if len(grid.coarse) > 1 else 2)
