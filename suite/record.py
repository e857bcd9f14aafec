"""What was measured: versioned, immutable records. Raw samples are kept; all else is derived from them.

SI units: seconds, bytes, FLOP. No host or user name, no absolute path.
"""

from __future__ import annotations

from itertools import count
from statistics import median
from typing import Any, Literal

import msgspec

from backends.base import Problem

SCHEMA = 2
"""2: the role `at_threads`. Records of schema 1 are read as they are: each later field has a default."""

Provenance = Literal["measured", "recorded", "modelled"]
Role = Literal["candidate", "at_threads", "pilot", "control_aa", "control_delay"]
"""at_threads: the best CPU backend at one asked count of threads, in the same rounds as the candidates."""


class GateResult(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of the correctness gate; a cell whose gate is not ok has no samples."""

    ok: bool
    failed: str = ""
    """Which part failed: exact, fingerprint, bound, or error (it raised); empty when ok."""
    detail: str = ""
    max_error: float | None = None
    """Largest |error| / (|A||B|) seen on random data, in units of 1 (not of u)."""


class Clocks(msgspec.Struct, frozen=True, kw_only=True):
    """SM clock in MHz and throttle reasons, before and after; None where they cannot be read.

    temperature_c, power_w: of the GPU, the highest seen.
    """

    before_mhz: int | None = None
    after_mhz: int | None = None
    nominal_mhz: int | None = None
    throttle: tuple[str, ...] = ()
    temperature_c: int | None = None
    power_w: float | None = None


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate in one comparison group: the smallest thing that is measured.

    samples_s[i] is the wall time in seconds of one `enqueue(transfer, reuse)`: a mean over `inner[i]` calls
    of it where one is too short for the clock. round_of[i] is the round it was taken in, maybe one of several
    short samples: `times_s` has one time for each round. Times of two cells
    with the same round are a pair. visit_of[i] is the visit to this size it was taken in, from 0: what lies
    between visits may drift. Empty where all were taken in one.
    """

    problem: Problem
    backend: str
    device: str
    role: Role = "candidate"
    transfer: str = "resident"
    reuse: int = 1
    host_memory: str = "pageable"
    cache_state: str = "hot"
    timing: Literal["latency", "throughput"] = "latency"
    calls_from: Literal["python", "c", "device"] = "python"
    """Where the calls of a sample came from; device: replayed there, and timed by its clock."""
    threads: int | None = None
    threads_observed: int | None = None
    cpu_per_wall: float | None = None
    devices: tuple[int, ...] = ()
    provenance: Provenance = "measured"
    samples_s: tuple[float, ...] = ()
    round_of: tuple[int, ...] = ()
    inner: tuple[int, ...] = ()
    visit_of: tuple[int, ...] = ()
    scaled_by: int = 1
    """samples_s are this many times what was timed: a CPU has no transfers, one run of it stands for all."""
    empty_s: float | None = None
    compile_s: float | None = None
    alloc_s: float | None = None
    first_call_s: float | None = None
    pin_s: float | None = None
    """To pin host memory of its own, not the operands; None where it pins none. Outside every sample."""
    rough_s: float | None = None
    """Of one call, from the screening: what keeps a candidate out of the rounds, never a verdict."""
    parts_s: dict[str, float] | None = None
    gate: GateResult | None = None
    clocks: Clocks | None = None
    kernel: str = ""
    kernel_hash: str = ""
    config: dict[str, Any] = {}
    verified: bool = True
    flags: tuple[str, ...] = ()
    """Any of: throttled, clocks_unread (their reader failed), noisy, below_resolution, time_budget."""
    throttled: int = 0
    """Samples taken while the clock was held down; they stay among `samples_s`."""
    slow_visits: tuple[int, ...] = ()
    """Visits in which more than half of the samples were."""
    outliers: int = 0
    """Samples far above the others; they stay among `samples_s`."""
    skip_reason: str = ""
    """Why there is no time, where there is none."""
    process_id: int = 0
    group: str = ""
    """Key of the comparison group; see `group_key`."""

    @property
    def times_s(self) -> tuple[float, ...]:
        """One time in seconds for each round, in their order: the median of the samples taken in it.

        Intervals are made of these: samples of one round share its disturbances.
        """
        taken: dict[int, list[float]] = {}
        for round_, sample in zip(self.round_of or count(), self.samples_s, strict=False):
            taken.setdefault(round_, []).append(sample)
        return tuple(median(taken[round_]) for round_ in sorted(taken))


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One invocation: where, how asked, and every cell."""

    schema: int = SCHEMA
    tool_version: str = ""
    created: str = ""
    """UTC, ISO 8601."""
    experiment: str = ""
    command: str = ""
    options: dict[str, Any] = {}
    machine: dict[str, Any] = {}
    complete: bool = True
    """False when it was interrupted or ran out of budget; what is there is whole nevertheless."""
    model: dict[str, Any] = {}
    """The constants of the model fitted to this machine, by the names of who fits it; empty without one."""
    cells: tuple[Cell, ...] = ()


def group_arithmetic(cell: Cell) -> tuple[str, str]:
    """(dtype, math) asked of the comparison group of `cell`; its CPU side may compute in another."""
    parts = cell.group.split("/")
    return (parts[3], parts[4]) if len(parts) > 4 else (cell.problem.dtype, cell.problem.math)


def group_key(problem: Problem, host_memory: str) -> str:
    """Names the comparison group: all candidates, modes and controls of one problem and host memory kind."""
    p = problem
    marks = f"a{p.alpha:g}b{p.beta:g}{'t' if p.trans_a else 'n'}{'t' if p.trans_b else 'n'}"
    return f"{p.op}/{p.m}x{p.n}x{p.k}/{p.batch}/{p.dtype}/{p.math}/{marks}/{host_memory}"
