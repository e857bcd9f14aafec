"""Samples taken while a clock was held down are counted, round by round, and stay."""

import math

from backends.base import Problem
from backends.null import NullBackend
from suite.clock import FakeClock
from suite.harness import Settings, measure_group
from suite.record import Cell, Clocks, Run
from suite.render import notes, summary


def group(slow_from):
    """The GPU's cell of a group whose GPU clock falls at the reading `slow_from`."""
    clock, readings = FakeClock(), []

    def read(device):
        if device == "cuda":
            readings.append(device)
        slow = device == "cuda" and len(readings) > slow_from
        return Clocks(before_mhz=1000 if slow else 1900, nominal_mhz=1980)

    pair = [NullBackend(n, d, lambda *about: 1e-3, clock=clock) for n, d in (("c", "cpu"), ("g", "cuda"))]
    settings = Settings(controls=False, rounds_min=10, rounds_max=10, wake_s=0.0, block_s=0.0)
    cells = measure_group(
        Problem(m=8, n=8, k=8), "pageable", [("resident", 1)], settings,
        backends=pair, clock=clock, clocks=read, memory_bytes=1 << 40,
    )  # fmt: skip
    return cells, next(c for c in cells if c.device == "cuda" and c.role == "candidate")


def test_a_clock_that_falls_late_marks_the_samples_after_it():
    _, cell = group(slow_from=8)  # one reading before the first round, then one after each
    assert cell.throttled == 3 and len(cell.samples_s) == 10
    assert cell.slow_visits == () and "throttled" in cell.flags


def test_a_visit_that_is_slow_for_the_most_part_says_so():
    _, cell = group(slow_from=3)
    assert cell.throttled == 8 and cell.slow_visits == (0,)


def test_a_steady_clock_marks_nothing():
    _, cell = group(slow_from=math.inf)
    assert cell.throttled == 0 and cell.slow_visits == () and "throttled" not in cell.flags


def test_the_counts_are_said():
    cells, _ = group(slow_from=8)
    wild = [
        Cell(**{f: getattr(c, f) for f in c.__struct_fields__ if f != "outliers"}, outliers=1) for c in cells
    ]
    run = Run(cells=tuple(wild))
    said = " ".join(notes.remarks(run, summary.lines(run)))
    assert "of 20 samples 2 outliers, 3 taken with the clock held down; none was dropped" in said
