"""What the controls of a run say: the smallest ratio it can tell apart.

Two controls run in every comparison group that can afford them, through the same switches of side as the
candidates. A/A: one candidate entered a second time; the true ratio is 1. Added delay: a candidate whose
every sample is made longer by a known busy wait; the true ratio is known and small.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import msgspec

from suite.record import Cell
from suite.stats import Interval, interval, spread

from .ratio import paired_logs

DELAY_KEY = "control_delay_s"
"""In `config` of a control_delay cell: seconds added to each of its samples, in the units of the samples."""

DELAYS_KEY = "control_delays_s"
"""The same for several visits, whose delays differ: number of the visit, as text -> seconds."""


class Control(msgspec.Struct, frozen=True):
    """One control of one group, as ratios: true value, measured interval."""

    role: str
    backend: str
    expected: float
    low: float
    mid: float
    high: float

    @property
    def reach(self) -> float:
        """Log of the ratio that this control leaves in doubt.

        Half the width of its interval while that holds the truth: as much is random. Once it does not, the
        limit farther from the truth: the deviation is real, and as large.
        """
        low, high = (math.log(x / self.expected) for x in (self.low, self.high))
        return (high - low) / 2 if low <= 0 <= high else max(abs(low), abs(high))

    @property
    def seen(self) -> bool:
        """An added delay that the run could tell from nothing (always true for A/A)."""
        return self.role != "control_delay" or self.low > 1.0


class Resolution(msgspec.Struct, frozen=True):
    """`ratio` >= 1 is the smallest ratio that can be told from 1; infinite where no control ran."""

    ratio: float
    controls: tuple[Control, ...] = ()
    groups: int = 0
    worst: float = math.inf

    @property
    def delays_seen(self) -> tuple[int, int]:
        """How many known delays were seen, and how many were planted."""
        planted = [control for control in self.controls if control.role == "control_delay"]
        return sum(control.seen for control in planted), len(planted)


NO_CONTROLS = Resolution(math.inf)


def control_of(control: Cell, base: Cell, confidence: float = 0.95) -> Control | None:
    """What a control cell says beside the candidate it repeats.

    None with fewer than two common rounds, and where most times of the candidate are below the clock's step.
    """
    logs = paired_logs(control, base)
    typical = spread(base.samples_s).median
    if logs.size < 2 or typical <= 0:
        return None
    found: Interval = interval(logs, confidence)
    expected = _expected(control, base, typical)
    low, mid, high = (math.exp(min(value, 700.0)) for value in (found.low, found.mid, found.high))
    return Control(control.role, control.backend, expected, low, mid, high)


def delays_of(control: Cell) -> dict[str, float]:
    """Visit -> seconds added to each of its samples."""
    delay = float(control.config.get(DELAY_KEY, 0.0))
    return dict(control.config.get(DELAYS_KEY) or {str(visit): delay for visit in {*control.visit_of, 0}})


def _expected(control: Cell, base: Cell, typical: float) -> float:
    """The true ratio: of each visit the delay then beside the time of the candidate then."""
    if not control.visit_of or not base.visit_of:
        return 1.0 + float(control.config.get(DELAY_KEY, 0.0)) / typical
    delays, logs = delays_of(control), {}
    for visit in {*control.visit_of}:
        now = [s for s, v in zip(base.samples_s, base.visit_of, strict=True) if v == visit]
        its = spread(now).median if now else typical
        logs[visit] = math.log1p(delays.get(str(visit), 0.0) / (its if its > 0 else typical))
    return math.exp(statistics.fmean(logs[visit] for visit in control.visit_of))


def controls(cells: Iterable[Cell], confidence: float = 0.95) -> list[Control]:
    """The controls of one comparison group's cells."""
    cells = list(cells)
    bases = {_key(cell): cell for cell in cells if cell.role == "candidate" and cell.samples_s}
    pairs = [(cell, bases.get(_key(cell))) for cell in cells if cell.role.startswith("control")]
    found = [control_of(cell, base, confidence) for cell, base in pairs if base is not None]
    return [control for control in found if control is not None]


def _key(cell: Cell) -> tuple[str, int | None, str, int, str]:
    return cell.backend, cell.threads, cell.transfer, cell.reuse, cell.calls_from


def group_resolution(cells: Iterable[Cell], confidence: float = 0.95) -> Resolution:
    """Of one comparison group: the worst of its A/A controls, and no better than a delay it failed to see."""
    found = controls(cells, confidence)
    if not found:
        return NO_CONTROLS
    doubts = [c.reach if c.role == "control_aa" or c.seen else math.log(c.expected) + c.reach for c in found]
    worst = math.exp(max(doubts))
    return Resolution(worst, tuple(found), 1, worst)


def run_resolution(groups: Sequence[Resolution]) -> Resolution:
    """Of a whole run: the median of its groups that had controls, with the worst beside it."""
    with_controls = [group for group in groups if group.controls]
    if not with_controls:
        return NO_CONTROLS
    return Resolution(
        statistics.median(group.ratio for group in with_controls),
        tuple(control for group in with_controls for control in group.controls),
        len(with_controls),
        max(group.worst for group in with_controls),
    )
