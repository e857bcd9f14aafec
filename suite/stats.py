"""Statistics of few, noisy, sometimes wild samples; pure functions of arrays.

Intervals are distribution-free where the number of samples allows it: the Hodges-Lehmann estimate with the
interval of Wilcoxon's signed-rank test (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods,
section 3.3), which a few wild samples cannot drag away. With too few samples for that, Student's t.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import msgspec
import numpy as np

OUTLIER = 5.0
"""Robust standard deviations from the median beyond which a sample is counted as an outlier."""

LEAST_SIGMA = 0.01
"""Relative standard deviation taken at least: a few samples that agree make no outlier of the next."""


class Interval(msgspec.Struct, frozen=True):
    """Estimate with lower and upper limit, and the part of the half-width that is drift between rounds."""

    low: float
    mid: float
    high: float
    drift: float = 0.0

    @property
    def half_width(self) -> float:
        """Half of the width."""
        return (self.high - self.low) / 2


class Spread(msgspec.Struct, frozen=True):
    """How samples of one cell scatter. `relative` is the robust standard deviation over the median."""

    count: int
    median: float
    relative: float
    outliers: int


def interval(values: Sequence[float] | np.ndarray, confidence: float = 0.95) -> Interval:
    """Location of `values`, in the order they were taken, with its interval at `confidence`.

    Widened where the earlier and the later half disagree by more than chance (drift between rounds). One
    value has an infinite interval; none has NaN as its estimate.
    """
    x = np.asarray(values, dtype=float)
    if x.size == 0:
        return Interval(-math.inf, math.nan, math.inf)
    if x.size == 1:
        return Interval(-math.inf, float(x[0]), math.inf)
    low, mid, high = _still(x, confidence)
    extra = _drift(x, (high - low) / 2)
    return Interval(low - extra, mid, high + extra, extra)


def _still(x: np.ndarray, confidence: float) -> tuple[float, float, float]:
    """Interval of samples without drift: signed-rank where its levels reach `confidence`, else t."""
    rank = signed_rank_index(x.size, confidence)
    if rank is None:
        mid = float(x.mean())
        half = t_quantile(x.size - 1, (1 + confidence) / 2) * float(x.std(ddof=1)) / math.sqrt(x.size)
        return mid - half, mid, mid + half
    walsh = np.sort(_walsh(x))
    return float(walsh[rank]), _middle(walsh), float(walsh[-1 - rank])


def _middle(ascending: Sequence[float] | np.ndarray) -> float:
    """Median of sorted values (NumPy's own costs 20 times more for so few)."""
    half = len(ascending) // 2
    return float(ascending[half] if len(ascending) % 2 else (ascending[half - 1] + ascending[half]) / 2)


@functools.lru_cache(maxsize=64)
def _triangle(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(n)


def _walsh(x: np.ndarray) -> np.ndarray:
    """The n(n+1)/2 means of all pairs, each value with itself included."""
    i, j = _triangle(x.size)
    return (x[i] + x[j]) / 2


def _drift(x: np.ndarray, half_width: float) -> float:
    """Half of what the later half differs from the earlier one beyond chance.

    Without drift the difference of the halves has twice the standard error of the whole, so that beyond
    2 half-widths is beyond chance at the same confidence.
    """
    if x.size < 6:
        return 0.0
    values, half = x.tolist(), x.size // 2
    gap = abs(_middle(sorted(values[-half:])) - _middle(sorted(values[:half])))
    return max(0.0, gap - 2 * half_width) / 2


@functools.lru_cache(maxsize=256)
def signed_rank_index(n: int, confidence: float) -> int | None:
    """Index of the sorted Walsh averages where the interval begins; None if n is too small for it."""
    counts = np.ones(1)
    for rank in range(1, n + 1):
        grown = np.zeros(counts.size + rank)
        grown[: counts.size] += counts
        grown[rank:] += counts
        counts = grown
    tail = np.cumsum(counts / counts.sum())
    below = int(np.searchsorted(tail, (1 - confidence) / 2, side="right"))
    return below - 1 if below else None


@functools.lru_cache(maxsize=256)
def t_quantile(df: int, p: float) -> float:
    """Quantile of Student's t, p > 1/2, by bisection of its distribution function."""
    low, high = 0.0, 1.0
    while t_cdf(df, high) < p:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(df, middle) < p else (low, middle)
    return high


def t_cdf(df: int, t: float) -> float:
    """P(T <= t) for t >= 0 and whole df (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(df))
    cos2 = math.cos(angle) ** 2
    term = total = 1.0
    for i in range(1 + df % 2, df - 2, 2):
        term *= cos2 * i / (i + 1)
        total += term
    total = total if df > 1 else 0.0
    if df % 2 == 0:
        return 0.5 + 0.5 * math.sin(angle) * total
    return 0.5 + (angle + math.sin(angle) * math.cos(angle) * total) / math.pi


def spread(samples_s: Sequence[float]) -> Spread:
    """Median, robust relative scatter (1.4826 MAD) and the number of outliers; nothing is dropped."""
    if not samples_s:
        return Spread(0, math.nan, math.nan, 0)
    median = _middle(sorted(samples_s))
    distances = sorted(abs(sample - median) for sample in samples_s)
    sigma = 1.4826 * _middle(distances)
    floor = max(sigma, LEAST_SIGMA * abs(median))
    outliers = sum(distance > OUTLIER * floor for distance in distances)
    return Spread(len(samples_s), median, sigma / median if median else math.nan, outliers)
