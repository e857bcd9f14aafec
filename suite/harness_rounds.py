"""Rounds: every side once, in random order, each woken after the switch; and when there are enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from backends.base import DeviceLost, Session

from .analysis.controls import group_resolution
from .analysis.crossover import candidate
from .analysis.ratio import ratio
from .clock import ClockError
from .clocks import merged, throttled
from .harness_sample import Entry, calibrate, take, wake
from .harness_settings import Bench, Mode, Settings, reason_of
from .record import Cell, Clocks

ReadClocks = Callable[[str], "Clocks | None"]

STRETCH = 4.0
"""Budgets that a group may take for its first `rounds_least` rounds: two rounds decide next to nothing."""

STRICTER = 4.0
"""Rounds stop early only at this many times smaller a chance of error: looking often must not decide."""


@dataclass
class Watch:
    """Clock rates of both devices, after the first wake and after the last sample; readers may fail."""

    read: ReadClocks | None
    before: dict[str, Clocks | None] = field(default_factory=dict)
    after: dict[str, Clocks | None] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    slow: set[tuple[str, int]] = field(default_factory=set)
    """Device and round, where its clock was held down."""

    def look(self, device: str, readings: dict[str, Clocks | None]) -> None:
        """Read the clocks of `device` into `readings`; never again once that raised."""
        if self.read is None or device in self.unread:
            return
        try:
            readings[device] = self.read(device)
        except Exception:  # whatever a reader raises, the measurement goes on without it
            self.unread.add(device)

    def see(self, device: str, round_: int) -> None:
        """Read the clocks of `device` at the end of its turn in a round."""
        self.look(device, self.after)
        if throttled(self.after.get(device)):
            self.slow.add((device, round_))

    def clocks(self, device: str) -> Clocks | None:
        """Before and after as one record."""
        return merged(self.before.get(device), self.after.get(device))

    def flags(self, device: str) -> tuple[str, ...]:
        """throttled, or clocks_unread when the reader raised."""
        slow = throttled(self.clocks(device)) or any(side == device for side, _ in self.slow)
        found = ("throttled",) if slow else ()
        return (*found, "clocks_unread") if device in self.unread else found


@dataclass
class Visit:
    """One turn of one session: what is sampled in it, in random order."""

    session: Session
    device: str
    entries: list[Entry]

    def alive(self) -> list[Entry]:
        """The entries that have not failed."""
        return [entry for entry in self.entries if not entry.failed]


def prepare(bench: Bench, visits: Sequence[Visit]) -> None:
    """Find the calls per sample of every entry; one that raises has failed."""
    s = bench.settings
    for visit in visits:
        bench.enter(visit.session)
        for entry in visit.alive():
            _guarded(entry, partial(calibrate, bench.clock, entry, s.block_s, s.takes))
        bench.leave()


def _guarded(entry: Entry, action: Callable[[], None]) -> None:
    """Do it; what a candidate raises becomes its reason, and its samples so far are void."""
    try:
        action()
    except (ClockError, DeviceLost):
        raise
    except Exception as error:
        entry.failed = reason_of(error)
        for values in (entry.samples_s, entry.rounds, entry.inners):
            values.clear()


def one_round(bench: Bench, visits: Sequence[Visit], round_: int, watch: Watch) -> None:
    """Every visit once, in random order."""
    order = [visit for visit in visits if visit.alive()]
    bench.rng.shuffle(order)
    for visit in order:
        _visit(bench, visit, round_, watch)
    bench.leave()


def _visit(bench: Bench, visit: Visit, round_: int, watch: Watch) -> None:
    settings = bench.settings
    bench.enter(visit.session)
    entries = visit.alive()
    try:
        wake(bench.clock, entries, settings.wake_s, settings.slow_s)
    except (ClockError, DeviceLost):
        raise
    except Exception:  # its sample raises again below, where the reason is kept
        bench.clock.spin(settings.wake_s)
    if visit.device not in watch.before:
        watch.look(visit.device, watch.before)
    bench.rng.shuffle(entries)
    for entry in entries:
        _guarded(entry, partial(take, bench.clock, entry, round_))
    watch.see(visit.device, round_)


def rounds(bench: Bench, visits: Sequence[Visit], watch: Watch, most: int, budget_s: float) -> Iterator[int]:
    """Make rounds and yield their count after each, until `most` or until another would exceed the budget.

    At least two, whatever they cost, and `rounds_least` where STRETCH budgets suffice for them. The time they
    take is added to `bench.spent_s`.
    """
    for done in range(1, most + 1):
        start = bench.clock.now()
        one_round(bench, visits, done - 1, watch)
        cost = bench.clock.now() - start
        bench.spent_s += cost
        yield done
        if not any(visit.alive() for visit in visits):
            return
        allowed_s = budget_s if done >= bench.settings.rounds_least else STRETCH * budget_s
        if done >= 2 and bench.spent_s + cost > allowed_s:
            return


def looks(first: int, last: int) -> list[int]:
    """The round counts at which to look at the ratios: few, because every look is a chance to be wrong."""
    found = [first]
    while found[-1] < last:
        found.append(min(last, max(found[-1] + 2, round(found[-1] * 1.35))))
    return found


def settled(cells: Sequence[Cell], modes: Sequence[Mode], settings: Settings) -> bool:
    """Whether every mode is decided with margin, or too close to call for good.

    cells: those of one group. A mode of which a side has no time is settled, except when none has a pair.
    """
    stricter = 1 - (1 - settings.confidence) / STRICTER
    limit = group_resolution(cells, stricter)
    floor = limit.ratio if limit.controls else 1.0
    paired = False
    for transfer, reuse in modes:
        cpu, gpu = (candidate(cells, device, transfer, reuse) for device in ("cpu", "cuda"))
        if cpu is None or gpu is None:
            continue
        paired = True
        between = ratio(cpu, gpu, stricter, floor)
        close = 1 / settings.same <= between.low and between.high <= settings.same
        if between.verdict == "undecided" and not close:
            return False
    return paired
