"""What several visits to the same sizes say together: the ratio at each size, and how sure it is.

The rounds of one visit share what drifts slowly, so that the interval of their ratios is too narrow for the
truth. How much visits to one size differ is pooled over all sizes of a question (a variance of `df` degrees
of freedom), and a size known from `n` visits has an interval no narrower than that variance over `n` allows.

A disturbance that lasts a whole visit, such as a clock held down, is no random variation. A ratio that such a
disturbance could turn round (within CLEAR of 1) is decided by AHEAD visits more for it than against it, or by
one where a neighbouring size nearer to 1 is decided the same way.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, count

import msgspec
import numpy as np

from suite.record import Cell
from suite.stats import Interval, interval, t_quantile

from .ratio import Ratio, Verdict, paired

CLEAR = 1.5
"""An interval this far from 1 is decided by one visit: neighbours and clocks slow a side down by less."""

AHEAD = 2
"""Nearer to 1: so many more visits for a verdict than against it."""

NEIGHBOUR = 1.125
"""A size within this factor bears witness for a single visit."""

GUESS = 2.5
GUESS_DF = 5
"""Before any size was visited twice: visits differ by so many times what the rounds of one say. It counts as
so many degrees of freedom."""

NORMAL = 1.96
"""Standard errors in the half-width of an interval, about."""

ODD = 2.5
"""Standard deviations beyond which a visit moves the estimate, and the variance, no further."""


class Seen(msgspec.Struct, frozen=True):
    """One size of one question: estimate and half-width of log(t_cpu / t_gpu) in each visit.

    floor: log of the smallest ratio that its controls tell apart. once: the limits of an old record, which
    does not say in which visit its rounds were taken: they count as one, and nothing more is asked of it.
    """

    mids: tuple[float, ...]
    halves: tuple[float, ...]
    floor: float = 0.0
    pairs: int = 0
    drift: float = 0.0
    once: tuple[float, float] | None = None


class Between(msgspec.Struct, frozen=True):
    """How much visits to one size differ, as a standard deviation of logs; unknown where df is 0."""

    sd: float = 0.0
    df: int = 0

    def half_width(self, visits: int, confidence: float = 0.95) -> float:
        """Of the mean of `visits` visits; 0 where nothing is known."""
        if not self.df:
            return 0.0
        return t_quantile(self.df, (1 + confidence) / 2) * self.sd / math.sqrt(visits)


def seen(cpu: Cell, gpu: Cell, confidence: float = 0.95, floor: float = 1.0) -> Seen | None:
    """The visits in which both cells have times; None without one. floor: a ratio >= 1.

    Visits with a clock held down say what a machine does then; they count where there are no others.
    """
    visits = _by_visit(cpu, gpu)
    if not visits:
        return None
    calm = {
        visit: logs for visit, logs in visits.items() if visit not in {*cpu.slow_visits, *gpu.slow_visits}
    }
    visits = calm or visits
    found = [interval(np.array(logs), confidence) for logs in visits.values()]
    return Seen(
        mids=tuple(one.mid for one in found),
        halves=tuple(one.half_width for one in found),
        floor=math.log(floor),
        pairs=sum(map(len, visits.values())),
        drift=max(one.drift for one in found),
        once=None if gpu.visit_of else (found[0].low, found[0].high),
    )


def _by_visit(cpu: Cell, gpu: Cell) -> dict[int, list[float]]:
    """Visit -> log ratios of its rounds."""
    visit_of = dict(zip(gpu.round_of or count(), gpu.visit_of or (0,) * len(gpu.samples_s), strict=False))
    visits: dict[int, list[float]] = {}
    for round_, log in paired(cpu, gpu).items():
        visits.setdefault(visit_of[round_], []).append(log)
    return visits


def between(all_seen: Iterable[Seen]) -> Between:
    """Pooled over every size with two visits or more; odd visits count as ODD standard deviations."""
    known = [one for one in all_seen if not one.once]
    apart = [
        (abs(a - b) / math.sqrt(2), 2 / len(one.mids)) for one in known for a, b in combinations(one.mids, 2)
    ]
    df = sum(len(one.mids) - 1 for one in known)
    halves = sorted(half for one in known for _, half in _sure(one))
    halves = [half for half in halves if math.isfinite(half)] or halves
    guess = GUESS * halves[len(halves) // 2] / NORMAL if halves else 0.0
    if not df:
        return Between(guess, GUESS_DF if halves else 0)
    rough = statistics.median(difference for difference, _ in apart) * 1.4826
    most = ODD * rough if df >= 3 and rough > 0 else math.inf
    variance = sum(weight * min(difference, most) ** 2 for difference, weight in apart) / df
    if math.isfinite(guess):
        variance = (df * variance + GUESS_DF * guess**2) / (df + GUESS_DF)
        df += GUESS_DF
    return Between(math.sqrt(variance), df)


def _sure(one: Seen) -> list[tuple[float, float]]:
    """Its visits without those of a single pair, whose interval has no end; all where there are no others."""
    visits = list(zip(one.mids, one.halves, strict=True))
    return [visit for visit in visits if math.isfinite(visit[1])] or visits


def estimate(one: Seen, spread: Between, confidence: float = 0.95) -> Interval:
    """Of one size from all its visits; a visit far from the others moves it little."""
    if one.once is not None:
        return Interval(one.once[0], one.mids[0], one.once[1], one.drift)
    sure = _sure(one)
    n = len(sure)
    middle = statistics.median(mid for mid, _ in sure)
    most = ODD * spread.sd if n > 2 and spread.sd > 0 else math.inf
    mid = middle + sum(max(-most, min(most, x - middle)) for x, _ in sure) / n
    within = math.sqrt(sum(half * half for _, half in sure)) / n
    half = max(within, spread.half_width(n, confidence))
    return Interval(mid - half, mid, mid + half, one.drift)


def ratios(
    sizes: Mapping[int, Seen], confidence: float = 0.95, spread: Between | None = None
) -> dict[int, Ratio]:
    """The ratio at every size of one question; `spread` is pooled over them where it is not given."""
    spread = between(sizes.values()) if spread is None else spread
    known = {size: (one, estimate(one, spread, confidence)) for size, one in sorted(sizes.items())}
    sides = {size: _side(*entry) for size, entry in known.items()}
    own = {size: side if _enough(*known[size], side) else "undecided" for size, side in sides.items()}
    order = list(known)
    return {
        size: _ratio(one, log, _backed(i, order, sides, own, known))
        for i, (size, (one, log)) in enumerate(known.items())
    }


def _side(one: Seen, log: Interval) -> Verdict:
    """What the interval and the controls alone say."""
    if abs(log.mid) < one.floor:
        return "undecided"
    return "win" if log.low > 0 else "loss" if log.high < 0 else "undecided"


def _enough(one: Seen, log: Interval, side: Verdict) -> bool:
    """Whether the visits suffice for a verdict."""
    if side == "undecided" or one.once or max(log.low, -log.high) >= math.log(CLEAR):
        return True
    votes = sum(math.copysign(1.0, x) for x in one.mids)
    return (votes if side == "win" else -votes) >= AHEAD


def _backed(
    i: int,
    order: Sequence[int],
    sides: Mapping[int, Verdict],
    own: Mapping[int, Verdict],
    known: Mapping[int, tuple[Seen, Interval]],
) -> Verdict:
    """The verdict of the i-th size; one visit is enough beside a size nearer to 1 with that verdict."""
    size = order[i]
    side, (one, log) = sides[size], known[size]
    if own[size] != "undecided" or side == "undecided" or len(one.mids) > 1:
        return own[size]
    for other in (*order[max(0, i - 1) : i], *order[i + 1 : i + 2]):
        apart = max(size, other) / min(size, other)
        witness, its = known[other]
        nearer = len(witness.mids) > 1 and abs(its.mid) <= abs(log.mid)
        if own[other] == side and apart <= NEIGHBOUR and nearer:
            return side
    return "undecided"


def _ratio(one: Seen, log: Interval, verdict: Verdict) -> Ratio:
    low, mid, high = (math.exp(x) if x < 700 else math.inf for x in (log.low, log.mid, log.high))
    return Ratio(low, mid, high, verdict, one.pairs, math.exp(one.drift), len(one.mids))
