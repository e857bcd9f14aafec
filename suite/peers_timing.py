"""How `peers` times one library on one problem: warm it for 50 ms, then a few samples of about 4 ms.

After a pause libraries are at their worst (sleeping threads, low clocks), so no time counts before a library
has been busy for 50 ms. A product longer than that is warmed by a smaller one of the same library.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import msgspec

WARM_S, SAMPLE_S, SAMPLES = 0.05, 0.004, 5
LONG_S = 0.04
"""Calls from here on are timed one by one, and warmed by a smaller problem."""

TimedCalls = Callable[[int], float]
"""Seconds that so many calls took, timed as near to the library as can be."""


class Visit(msgspec.Struct, frozen=True):
    """Samples of one visit: seconds per call, each a mean over `inner` calls, and CPUs used meanwhile."""

    samples_s: tuple[float, ...]
    inner: int
    cpus: float


def visit(
    run: TimedCalls,
    expected_s: float,
    warm: TimedCalls | None = None,
    clock: Callable[[], float] = time.perf_counter,
    cpu_clock: Callable[[], float] = time.process_time,
) -> Visit:
    """Warm up and take samples. expected_s: of one call, about; warm: a smaller problem for long ones."""
    inner = count = 1
    if expected_s >= LONG_S and warm is not None:
        _busy(warm, clock)
    else:
        per_call = _busy(run, clock)
        inner = max(1, round(SAMPLE_S / per_call))
        count = max(1, min(SAMPLES, math.ceil(SAMPLES * SAMPLE_S / (per_call * inner))))
    start, cpu_start = clock(), cpu_clock()
    samples = tuple(run(inner) / inner for _ in range(count))
    return Visit(samples, inner, (cpu_clock() - cpu_start) / max(clock() - start, 1e-9))


def _busy(run: TimedCalls, clock: Callable[[], float]) -> float:
    """Call for WARM_S; returns what one call took at the end."""
    calls, end = 1, clock() + WARM_S
    while True:
        per_call = max(run(calls) / calls, 1e-10)
        if clock() >= end:
            return per_call
        calls = min(max(1, round(SAMPLE_S / per_call)), 2 * calls if per_call < SAMPLE_S else calls)


def python_calls(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> TimedCalls:
    """Times a Python call as its user pays for it; the loop itself costs some 20 ns."""

    def timed(calls: int) -> float:
        start = clock()
        for _ in range(calls):
            call()
        return clock() - start

    return timed
