"""Where between a loss and a win the next size goes: beside the crossing, where a verdict can be had.

A line through log ratio against log size, fitted to what was measured between the two, says where the ratio
is 1 and how steep it is. At that size itself no number of visits gives a verdict; the sizes asked for lie to
both sides of it, as far as the noise needs, and no farther than the resolution where that is quiet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

BEND = 0.15
"""Part of a log ratio that a straight line is taken to miss it by: far points say little of the crossing."""

AIM = 1.0
"""Half-widths that a size is to lie away from 1."""

VISITS = 3
"""As many visits the sizes beside the crossing are to get; the half-width aimed by is that after them."""

LONE = 0.6
"""The half-width of a single visit is mostly a guess of what visits differ by; it shrinks so much faster."""

GAIN = 0.1
"""Part of a bracket, in logs, that a new size is to cut off."""


class Seen(msgspec.Struct, frozen=True):
    """One size: log of the ratio, its half-width in all visits and the controls' floor, how many visits."""

    size: int
    mid: float
    half: float
    floor: float = 0.0
    visits: int = 1


class Line(msgspec.Struct, frozen=True):
    """Log ratio against log size near the crossing: where it is 0, how well that is known, its slope."""

    root: float
    error: float
    slope: float


def fit(points: Sequence[Seen], rising: bool) -> Line | None:
    """None where the points do not rise (fall) from the first to the last."""
    weights = [1.0 / ((BEND * p.mid) ** 2 + p.half**2 / 4 + 1e-8) for p in points if math.isfinite(p.half)]
    known = [p for p in points if math.isfinite(p.half)]
    if len(known) < 2:
        return None
    total = sum(weights)
    x = [math.log(p.size) for p in known]
    x0 = sum(w * v for w, v in zip(weights, x, strict=True)) / total
    y0 = sum(w * p.mid for w, p in zip(weights, known, strict=True)) / total
    across = sum(w * (v - x0) ** 2 for w, v in zip(weights, x, strict=True))
    along = sum(w * (v - x0) * (p.mid - y0) for w, v, p in zip(weights, x, known, strict=True))
    slope = along / across if across > 0 else 0.0
    if (slope <= 0) if rising else (slope >= 0):
        return None
    root = x0 - y0 / slope
    error = math.sqrt(1 / total + (root - x0) ** 2 / across) / abs(slope)
    return Line(root, error, abs(slope))


def reach(points: Sequence[Seen], line: Line) -> float:
    """How far from the crossing, in log size, a verdict can be had with some visits."""
    shrinks = {1: LONE * math.sqrt(1 / VISITS)}
    doubts = sorted(
        max(p.half, p.floor) * shrinks.get(p.visits, math.sqrt(p.visits / VISITS)) for p in points
    )
    return AIM * doubts[(len(doubts) - 1) // 2] / line.slope


def targets(points: Sequence[Seen], rising: bool, resolution: float, bisect: bool) -> list[float]:
    """Sizes to ask for within a bracket whose ends lean to different sides, best first; perhaps none.

    points: the ends of the bracket and what lies between, which leans to neither side. resolution: relative
    width that is narrow enough. bisect: do not trust the line.
    """
    low, high = math.log(points[0].size), math.log(points[-1].size)
    inside = points[1:-1]
    line = None if bisect else fit(points, rising)
    if line is None:
        return [math.exp((low + high) / 2)] if not inside else []
    away = reach(points, line)
    middle = min(max(line.root, low + (high - low) / 4), high - (high - low) / 4)
    if not inside and line.error > 2 * max(away, math.log1p(resolution) / 2):
        return [math.exp(middle)]
    apart = max(away, math.log1p(resolution) / 2 - line.error / 2) + line.error
    below = min([line.root - apart, *(math.log(p.size) - away / AIM for p in inside)])
    above = max([line.root + apart, *(math.log(p.size) + away / AIM for p in inside)])
    wanted = [(below - low, below), (high - above, above)]
    found = [x for gain, x in sorted(wanted, reverse=True) if gain > GAIN * (high - low) and low < x < high]
    if not found and not inside and away < (high - low) / 2:
        return [math.exp(middle)]
    return [math.exp(x) for x in found]
