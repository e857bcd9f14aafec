"""The clocks of the harness: the real one, and a false one that scripted backends advance."""

from __future__ import annotations

import time
from typing import Protocol

STUCK_AFTER = 2_000_000
"""Readings of a real clock without any change before it counts as standing still (about 0.1 s)."""


class ClockError(RuntimeError):
    """A clock that stands still or is too coarse to time anything in bounded time."""


class Clock(Protocol):
    """Where times come from. All values in seconds."""

    def now(self) -> float:
        """Time since an arbitrary start; never runs backwards."""

    def cpu(self) -> float:
        """Processor time used by the whole process so far, all threads together."""

    def spin(self, seconds: float) -> None:
        """Keep this thread busy for `seconds`: a sleep would let clocks and pools fall asleep."""

    def resolution(self) -> float:
        """The smallest step between two different readings; ClockError when it stands still."""


class PerfClock:
    """`time.perf_counter`, the finest monotonic clock Python has."""

    def __init__(self) -> None:
        self.now = time.perf_counter
        self.cpu = time.process_time
        self._resolution: float | None = None

    def spin(self, seconds: float) -> None:
        """Busy-wait on the clock itself."""
        now = self.now
        end = now() + seconds
        while now() < end:
            pass

    def resolution(self) -> float:
        """Smallest of several observed steps, found once."""
        if self._resolution is None:
            self._resolution = min(self._step() for _ in range(20))
        return self._resolution

    def _step(self) -> float:
        start = self.now()
        for _ in range(STUCK_AFTER):
            step = self.now() - start
            if step > 0:
                return step
        raise ClockError(f"the clock stood still at {start} s over {STUCK_AFTER} readings")


class FakeClock:
    """A clock that moves only when told to.

    step: readings are rounded down to multiples of it (0: exact), as with a coarse timer.
    stuck: readings never change, whatever happens.
    busy: processor seconds spent per second, what `cpu` reports.
    """

    def __init__(self, step: float = 0.0, *, stuck: bool = False, busy: float = 1.0) -> None:
        self.true_s, self.step, self.stuck, self.busy = 0.0, step, stuck, busy

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self.true_s += seconds

    def now(self) -> float:
        """The reading, in steps."""
        if self.stuck:
            return 0.0
        return self.true_s // self.step * self.step if self.step else self.true_s

    def cpu(self) -> float:
        """Processor time: `busy` times the true time."""
        return self.true_s * self.busy

    def spin(self, seconds: float) -> None:
        """The same as `advance`."""
        self.true_s += seconds

    def resolution(self) -> float:
        """The step; a very small number for an exact clock."""
        return self.step or 1e-12
