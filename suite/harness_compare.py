"""The comparison itself: the chosen candidates and their controls on fresh rounds, until it is decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from backends.base import DeviceLost

from .clock import ClockError
from .harness_candidates import Candidate, choose
from .harness_cells import cell
from .harness_rounds import Visit, Watch, looks, prepare, rounds, settled
from .harness_sample import Entry, calibrate, timed
from .harness_settings import CPU_MODE, Bench, Mode
from .record import Cell, Role

CONTROL_SHARE = 1 / 4
"""Of the time budget of a group: what the first rounds of one side's controls may take."""


@dataclass
class Sides:
    """What stands in the rounds: for each visit its session, for each entry whose it is and in which mode."""

    visits: list[Visit] = field(default_factory=list)
    owner: dict[Entry, tuple[Candidate, Mode]] = field(default_factory=dict)

    def add(self, one: Candidate, entries: Sequence[tuple[Mode, Entry]]) -> None:
        """One more visit in every round."""
        self.visits.append(Visit(one.session, one.device, [entry for _, entry in entries]))
        self.owner.update((entry, (one, mode)) for mode, entry in entries)

    def cells(self, bench: Bench, watch: Watch, flags: Sequence[str] = ()) -> list[Cell]:
        """All entries as cells; a CPU candidate stands in every mode, its controls in the first."""
        found = []
        for entry, (one, mode) in self.owner.items():
            modes: Sequence[Mode] = [mode]
            if one.device == "cpu" and entry.kind == "python":
                modes = bench.modes if entry.role == "candidate" else bench.modes[:1]
            found += [cell(bench, one, entry, m, watch, flags) for m in modes]
        return found

    @property
    def devices(self) -> set[str]:
        """The sides that are there."""
        return {visit.device for visit in self.visits if visit.alive()}


def entry_of(bench: Bench, one: Candidate, mode: Mode, role: Role = "candidate") -> Entry:
    """A fresh entry that knows the rough time of its calls."""
    rough = one.rough_s[mode]
    timing, estimate_s = bench.settings.timing, rough if math.isfinite(rough) else 0.0
    return Entry(one.session, *mode, role=role, timing=timing, estimate_s=estimate_s)


def compare(bench: Bench, alive: Sequence[Candidate], watch: Watch) -> list[Cell]:
    """Choose, close the rest, make rounds; the cells of candidates and controls."""
    best = {device: choose(alive, device) for device in ("cpu", "cuda")}
    chosen = {id(one) for modes in best.values() for one in modes.values()}
    for one in alive:
        if id(one) not in chosen:
            one.close()
    sides = _candidates(bench, best)
    if not sides.visits:
        return []
    prepare(bench, sides.visits)
    if bench.settings.controls:
        _add_controls(bench, sides)
    flags = _rounds(bench, sides, watch)
    for one in alive:
        if not one.closed:
            _details(bench, one)
    return sides.cells(bench, watch, flags)


def _candidates(bench: Bench, best: dict[str, dict[Mode, Candidate]]) -> Sides:
    """One visit per chosen candidate, with all the modes in which it is the best, and its calls from C."""
    sides = Sides()
    for modes in best.values():
        for one in dict.fromkeys(modes.values()):
            entries = [(mode, entry_of(bench, one, mode)) for mode, owner in modes.items() if owner is one]
            if CPU_MODE in modes and modes[CPU_MODE] is one and _runs_from_c(bench, one):
                entries.append((CPU_MODE, Entry(one.session, *CPU_MODE, kind="c")))
            sides.add(one, entries)
    return sides


def _runs_from_c(bench: Bench, one: Candidate) -> bool:
    bench.enter(one.session)
    try:
        return one.session.run_from_c(1) is not None
    except DeviceLost:
        raise
    except Exception:  # a diagnostic: without it the cell from Python stands alone
        return False
    finally:
        bench.leave()


def _add_controls(bench: Bench, sides: Sides) -> None:
    """A/A of each side and one known delay, in visits of their own, where the budget allows for them."""
    delayed = False
    for device in ("cpu", "cuda"):
        found = [(e, o) for e, o in sides.owner.items() if o[0].device == device and _may_repeat(bench, e)]
        if not found:
            continue
        entry, (one, mode) = found[0]
        entries = [(mode, entry.like("control_aa"))]
        if not delayed:
            delay_s = bench.settings.delay * entry.estimate_s
            entries.append((mode, entry.like("control_delay", delay_s)))
            delayed = True
        sides.add(one, entries)


def _may_repeat(bench: Bench, entry: Entry) -> bool:
    s = bench.settings
    cost = s.rounds_min * (s.wake_s + 2 * max(s.takes * s.block_s, entry.estimate_s))
    return entry.kind == "python" and not entry.failed and cost <= CONTROL_SHARE * s.group_budget_s


def _rounds(bench: Bench, sides: Sides, watch: Watch) -> tuple[str, ...]:
    """Rounds until every mode is settled; the flags that say why they ended."""
    s = bench.settings
    both = len(sides.devices) == 2
    most = s.rounds_max if both else min(2 * s.rounds_min, s.rounds_max)
    look_at, done = looks(s.rounds_min, most), 0
    for done in rounds(bench, sides.visits, watch, most, s.group_budget_s):
        bench.tell("round", "", done, most)
        if both and done in look_at and settled(sides.cells(bench, watch), bench.modes, s):
            return ()
    return () if done >= most else ("time_budget",)


def _details(bench: Bench, one: Candidate) -> None:
    """What is recorded beside the time of a candidate: its parts, an empty run."""
    bench.enter(one.session)
    try:
        one.parts_s = one.session.parts()
    except DeviceLost:
        raise
    except Exception:  # diagnostics: the measured times stand without them
        one.parts_s = None
    try:
        empty = Entry(one.session, kind="empty")
        calibrate(bench.clock, empty, bench.settings.block_s)
        one.empty_s = timed(bench.clock, empty, empty.inner) / empty.inner
    except DeviceLost:
        raise
    except (ClockError, Exception):  # an empty run that takes no time, or none at all
        one.empty_s = None
    bench.leave()
