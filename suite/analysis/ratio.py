"""How many times faster one cell is than another, from samples paired by round, and whether that is sure."""

from __future__ import annotations

import math
from typing import Literal

import msgspec
import numpy as np

from suite.record import Cell
from suite.stats import Interval, interval

Verdict = Literal["win", "loss", "undecided"]


class Ratio(msgspec.Struct, frozen=True):
    """t_cpu / t_gpu with its interval. win: the GPU is faster; loss: the CPU is; else undecided.

    drift: the factor by which each limit was moved out for drift between rounds (1: none was seen).
    visits: to the size, each with rounds of its own.
    """

    low: float
    mid: float
    high: float
    verdict: Verdict
    pairs: int = 0
    drift: float = 1.0
    visits: int = 1


UNKNOWN = Ratio(0.0, math.nan, math.inf, "undecided")
"""The ratio where one side has no time."""


def paired_logs(top: Cell, bottom: Cell) -> np.ndarray:
    """log(top / bottom) for every round in which both cells have a time, in the order of the rounds."""
    return np.array(list(paired(top, bottom).values()), dtype=float)


def paired(top: Cell, bottom: Cell) -> dict[int, float]:
    """Round -> log(top / bottom), for every round in which both cells have a time.

    Rounds with a time that is not above 0 (below the clock's resolution) have no ratio and are left out.
    """
    above, below = (dict(zip(sorted(set(c.round_of)), c.times_s, strict=True)) for c in (top, bottom))
    both = {round_: (a, below.get(round_, 0.0)) for round_, a in above.items()}
    return {round_: math.log(a / b) for round_, (a, b) in both.items() if a > 0 and b > 0}


def ratio(cpu: Cell, gpu: Cell, confidence: float = 0.95, resolution: float = 1.0) -> Ratio:
    """t_cpu / t_gpu of two cells of one comparison group, paired by round.

    A verdict needs the interval to lie on one side of 1 and the estimate to be at least `resolution` (the
    smallest ratio, >= 1, that the controls can tell apart; see `controls`) away from 1.
    """
    logs = paired_logs(cpu, gpu)
    if logs.size == 0:
        return UNKNOWN
    return from_interval(interval(logs, confidence), logs.size, resolution)


def from_interval(log: Interval, pairs: int, resolution: float = 1.0) -> Ratio:
    """The ratio of an interval of log ratios."""
    low, mid, high = (_exp(value) for value in (log.low, log.mid, log.high))
    return Ratio(low, mid, high, _verdict(log, math.log(resolution)), pairs, math.exp(log.drift))


def _exp(value: float) -> float:
    return math.inf if value > 700 else math.exp(value)


def _verdict(log: Interval, floor: float) -> Verdict:
    if log.low > 0 and log.mid >= floor:
        return "win"
    if log.high < 0 and log.mid <= -floor:
        return "loss"
    return "undecided"
