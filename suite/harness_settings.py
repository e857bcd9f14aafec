"""What a measurement of one comparison group is told, and what it reports while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Literal

import msgspec

from backends.base import HostMemory, Problem, Session
from backends.operands import Operands

from .clock import Clock
from .record import GateResult

Mode = tuple[str, int]
"""Transfer mode and reuse."""

CPU_MODE: Mode = ("resident", 1)
"""A CPU has no transfers: one run is timed, and stands `reuse` times in the cell of every mode."""

Gate = Callable[[Session], GateResult]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How to measure a group. All times in seconds.

    rounds_min, rounds_max: rounds before the first look at the ratios, and at most. rounds_least: made even
    beyond the budget, within reason; six are the fewest with a distribution-free interval.
    block_s: a sample repeats a short call until it lasts about this long; takes: samples in a visit, whose
    median is the time of the round, so that one interruption does not make it.
    wake_s: untimed work after every switch of side; slow_s: calls longer than this are not repeated for it.
    group_budget_s: for pilots and rounds together (not for opening, compiling and the gate); at least two
    rounds are made whatever they cost.
    same: a ratio whose interval lies within this factor of 1 is settled as too close to call.
    delay: the known delay of the control, as a part of the time it is added to.
    contender: candidates slower than this many times the best of a screening are not gated.
    threads: the one CPU thread count to use; None tries those that the backend offers.
    timing: latency (each call waited for) or throughput (calls queued, one wait).
    """

    seed: int = 0
    rounds_min: int = 8
    rounds_max: int = 40
    rounds_least: int = 6
    block_s: float = 0.0015
    takes: int = 3
    wake_s: float = 0.02
    slow_s: float = 0.1
    confidence: float = 0.95
    group_budget_s: float = 2.5
    pilot_rounds: int = 3
    contender: float = 1.5
    most_contenders: int = 3
    same: float = 1.02
    delay: float = 0.05
    controls: bool = True
    gate: bool = True
    threads: int | None = None
    timing: Literal["latency", "throughput"] = "latency"

    def __post_init__(self) -> None:
        if not 2 <= self.rounds_min <= self.rounds_max:
            raise ValueError(f"2 <= rounds_min <= rounds_max, got {self.rounds_min} and {self.rounds_max}")
        if not 0.5 < self.confidence < 1:
            raise ValueError(f"confidence lies between 0.5 and 1, got {self.confidence}")


class Event(msgspec.Struct, frozen=True):
    """Progress: kind is open, gate, pilot, round or done; `done` of at most `total` steps of that kind."""

    kind: str
    group: str
    text: str = ""
    done: int = 0
    total: int = 0


@dataclass
class Bench:
    """What every step of measuring one group needs: for each device (cpu, cuda) its problem and operands."""

    problems: dict[str, Problem]
    operands: dict[str, Operands]
    host_memory: HostMemory
    modes: tuple[Mode, ...]
    settings: Settings
    clock: Clock
    rng: Random
    group: str
    gate: Gate | None = None
    on_event: Callable[[Event], None] | None = None
    spent_s: float = 0.0
    active: list[Session] = field(default_factory=list)
    best_rough_s: dict[tuple[str, Mode], float] = field(default_factory=dict)

    def tell(self, kind: str, text: str = "", done: int = 0, total: int = 0) -> None:
        """Report progress to whoever listens."""
        if self.on_event is not None:
            self.on_event(Event(kind, self.group, text, done, total))

    def enter(self, session: Session) -> None:
        """Make it the turn of `session`: the one before is parked first."""
        self.leave()
        self.active.append(session)
        session.activate()

    def leave(self) -> None:
        """Park the session whose turn it is."""
        while self.active:
            self.active.pop().quiesce()


def reason_of(error: BaseException) -> str:
    """Why a candidate has no time, from what it raised."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
