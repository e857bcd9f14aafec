"""One timed thing: how it is called, how often one sample repeats it, how it is woken, and its samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from backends.base import Session

from .clock import Clock, ClockError
from .record import Role

STEPS_PER_SAMPLE = 20
"""A sample lasts at least this many steps of the clock."""

MAX_INNER = 1 << 20
"""Calls in one sample at most: what still ends in about a second with an idle call."""

Kind = Literal["python", "c", "device", "empty"]


@dataclass(eq=False)
class Entry:
    """One candidate in one transfer mode (or a control of it), with what was measured of it.

    estimate_s: seconds of one call, from the calibration. inner: calls in a sample. takes: samples in a
    visit. delay_s: busy wait added to every sample, divided by its calls. failed: why it could not go on; it
    then has no samples.
    """

    session: Session
    transfer: str = "resident"
    reuse: int = 1
    role: Role = "candidate"
    kind: Kind = "python"
    timing: Literal["latency", "throughput"] = "latency"
    inner: int = 1
    takes: int = 1
    estimate_s: float = 0.0
    delay_s: float = 0.0
    failed: str = ""
    samples_s: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    inners: list[int] = field(default_factory=list)
    wall_s: float = 0.0
    cpu_s: float = 0.0
    threads_observed: int | None = None

    def calls(self, count: int) -> Callable[[], None]:
        """A function that makes `count` calls in the way that is timed, and waits for all of them."""
        session, transfer, reuse = self.session, self.transfer, self.reuse
        wait = session.synchronize
        if self.kind == "empty":
            return _repeat(session.run_empty, count, wait)
        if self.timing == "throughput":
            return _queued(session, transfer, reuse, count)

        def run() -> None:
            enqueue = session.enqueue
            for _ in range(count):
                enqueue(transfer, reuse)  # type: ignore[arg-type]
            wait()

        return run

    def like(self, role: Role, delay_s: float = 0.0) -> Entry:
        """The same thing entered once more, as a control."""
        return Entry(
            self.session,
            self.transfer,
            self.reuse,
            role,
            self.kind,
            self.timing,
            self.inner,
            self.takes,
            self.estimate_s,
            delay_s,
        )


def _repeat(call: Callable[[], None], count: int, wait: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(count):
            call()
        wait()

    return run


def _queued(session: Session, transfer: str, reuse: int, count: int) -> Callable[[], None]:
    """Throughput: `count` calls queued, one wait. Only `once` is composed of its parts here."""

    def run() -> None:
        if transfer != "once":
            session.enqueue(transfer, reuse * count)  # type: ignore[arg-type]
        else:
            for _ in range(count):
                session.upload()
                for _ in range(reuse):
                    session.run()
                session.download()
        session.synchronize()

    return run


def timed(clock: Clock, entry: Entry, count: int, delay_s: float = 0.0) -> float:
    """Wall seconds of `count` calls together, from the first call to the end of the last."""
    if entry.kind in ("c", "device"):
        session = entry.session
        inside = (session.run_from_c if entry.kind == "c" else session.run_on_device)(count)
        return 0.0 if inside is None else inside + delay_s
    run = entry.calls(count)
    before_cpu = clock.cpu()
    start = clock.now()
    run()
    if delay_s:
        clock.spin(delay_s)
    elapsed = clock.now() - start
    entry.cpu_s += clock.cpu() - before_cpu
    entry.wall_s += elapsed
    return elapsed


def take(clock: Clock, entry: Entry, round_: int) -> None:
    """The samples of one visit in round `round_`, kept in the entry with the threads that were in force."""
    for _ in range(entry.takes):
        total = timed(clock, entry, entry.inner, entry.delay_s * entry.inner)
        entry.samples_s.append(total / entry.inner)
        entry.rounds.append(round_)
        entry.inners.append(entry.inner)
    entry.threads_observed = entry.session.observed_threads()


def calibrate(clock: Clock, entry: Entry, block_s: float, takes: int = 1) -> None:
    """Find how many calls make a sample of `block_s` and of many clock steps; at most MAX_INNER.

    An entry whose rough time is longer than that stays at one call a sample, and takes fewer than `takes`
    samples in a visit where they would last longer than as many blocks.
    ClockError when not even MAX_INNER calls move the clock.
    """
    wanted = max(block_s, STEPS_PER_SAMPLE * clock.resolution())
    entry.takes = takes
    if entry.estimate_s >= wanted:
        entry.takes = max(1, min(takes, int(takes * block_s / entry.estimate_s)))
        return
    count, total = 1, _shorter(clock, entry, 1)
    while total < wanted / 2 and count < MAX_INNER:
        growth = min(16.0, max(2.0, wanted / total)) if total > 0 else 4.0
        count = min(MAX_INNER, int(count * growth) + 1)
        total = _shorter(clock, entry, count)
    if total <= 0:
        raise ClockError(f"the clock did not move while {count} calls of {label(entry)} were made")
    entry.estimate_s = total / count
    entry.inner = max(1, min(MAX_INNER, round(wanted / entry.estimate_s + 0.499)))
    entry.wall_s = entry.cpu_s = 0.0


def _shorter(clock: Clock, entry: Entry, count: int) -> float:
    """The shorter of two blocks: an interruption in one must not pass for a slow call."""
    return min(timed(clock, entry, count), timed(clock, entry, count))


def screen(clock: Clock, entry: Entry, seconds: float) -> float:
    """A rough time of one call: the fastest of those made in `seconds`, no less than a clock step.

    The first calls after a pause are slow, so that the fastest is the fairest of so few.
    """
    start, best = clock.now(), float("inf")
    for _ in range(MAX_INNER // 64):
        best = min(best, timed(clock, entry, 1))
        if clock.now() - start >= seconds:
            break
    return max(best, clock.resolution())


def wake(clock: Clock, entries: Sequence[Entry], seconds: float, slow_s: float) -> None:
    """Untimed work of these entries, each at least once, until `seconds` have passed.

    Entries slower than `slow_s` are left out (what waking changes is little of their time); where all are,
    a busy wait takes their place. ClockError when the clock stands still.
    """
    distinct = {(e.transfer, e.reuse): e for e in entries if e.estimate_s <= slow_s and e.kind == "python"}
    quick = [entry.calls(1) for entry in distinct.values()]
    if not quick:
        clock.spin(seconds)
        return
    start = clock.now()
    for made in range(MAX_INNER):
        quick[made % len(quick)]()
        if made + 1 >= len(quick) and clock.now() - start >= seconds:
            return
    if clock.now() <= start:
        raise ClockError(f"the clock did not move while {MAX_INNER} calls were made to wake a side")


def label(entry: Entry) -> str:
    """What is being timed, in words."""
    return (
        f"{entry.session.info.kernel or type(entry.session).__name__} ({entry.transfer}, {entry.reuse} runs)"
    )
