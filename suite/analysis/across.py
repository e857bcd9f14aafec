"""Ratios across machines: times that share no rounds, so that nothing common to both cancels."""

from __future__ import annotations

import numpy as np

from suite.record import Cell
from suite.stats import Interval, interval

from .ratio import UNKNOWN, Ratio, from_interval


def unpaired(cpu: Cell, gpu: Cell, confidence: float = 0.95, resolution: float = 1.0) -> Ratio:
    """t_cpu / t_gpu of cells measured apart, from the interval of each side's own log times.

    The limits are the extremes of both intervals together: wider than a pooled interval, so never bolder.
    """
    sides = [np.log([sample for sample in cell.times_s if sample > 0]) for cell in (cpu, gpu)]
    if min(side.size for side in sides) == 0:
        return UNKNOWN
    top, bottom = (interval(side, confidence) for side in sides)
    log = Interval(top.low - bottom.high, top.mid - bottom.mid, top.high - bottom.low)
    return from_interval(log, min(side.size for side in sides), resolution)
