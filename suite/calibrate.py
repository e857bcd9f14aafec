"""Measures what a model is fitted to: six sizes of every operation and type, both sides, in a few seconds.

The first sizes of a type are timed with everything usable; who stood there is timed at the others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from backends.arithmetic import DEFAULT_MATH
from backends.base import Backend, HostMemory, Problem

from . import harness
from .analysis import calibration
from .analysis.model import Model, Roofs
from .clock import Clock
from .harness_settings import Settings
from .record import Cell
from .request import candidates

SIZES: dict[str, tuple[int, ...]] = {
    "gemm": (32, 96, 192, 384, 1024, 2560),
    "gemv": (128, 512, 1024, 2048, 4096, 8192),
}
"""Those a fit wants (`calibration.EDGES`), and a large one that even one CPU socket computes in a tenth of a
second."""

SCOUTS = (1, -1)
"""Which of them are timed with everything usable: one where calls cost most, one where work does."""

MODES: tuple[tuple[str, int], ...] = (("resident", 1), ("once", 10), ("always", 1))
LEAST_GROUP_S = 0.1
ROOF_S = 0.05
READ_BYTES = 1 << 28


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What to calibrate for; time_budget_s: of all timing together, what lies outside it apart."""

    ops: tuple[str, ...] = ("gemm", "gemv")
    dtypes: tuple[str, ...] = ("float32", "float64")
    host_memory: tuple[HostMemory, ...] = ("pageable",)
    backends: tuple[str, ...] = ()
    time_budget_s: float = 10.0
    seed: int = 0
    edges: dict[str, tuple[int, ...]] = msgspec.field(default_factory=lambda: dict(SIZES))

    @property
    def rows(self) -> list[tuple[str, str, HostMemory]]:
        """(op, dtype, host memory), each with sizes of its own."""
        return [
            (op, dtype, memory) for memory in self.host_memory for dtype in self.dtypes for op in self.ops
        ]

    @property
    def groups(self) -> int:
        """Comparison groups in all."""
        return sum(len(self.edges[op]) for op, _, _ in self.rows)

    def problems(self, op: str, dtype: str) -> list[Problem]:
        """The squares of one row, the scouts first."""
        sizes = self.edges[op]
        first = list(dict.fromkeys(sizes[i] for i in SCOUTS))
        return [
            Problem(op=op, m=n, n=n, k=n if op == "gemm" else 1, dtype=dtype)  # type: ignore[arg-type]
            for n in (*first, *(n for n in sizes if n not in first))
        ]


def measure(
    asked: Asked,
    chosen: Sequence[Backend] = (),
    *,
    clock: Clock | None = None,
    tell: Callable[[str, int, int], None] | None = None,
    now: Callable[[], float] = time.monotonic,
) -> list[Cell]:
    """The cells of every row. clock: see `harness.measure_group`; tell: what, how many, of how many."""
    found: list[Cell] = []
    start, done = now(), 0
    for op, dtype, memory in asked.rows:
        row: list[Cell] = []
        for problem in asked.problems(op, dtype):
            if tell is not None:
                tell(f"{op} {dtype} {memory} {problem.m}", done, asked.groups)
            usable = candidates(problem, chosen)
            if done_scouting := len({cell.problem for cell in row}) >= len(set(SCOUTS)):
                stood = {cell.backend for cell in row if cell.role == "candidate" and cell.samples_s}
                usable = [backend for backend in usable if backend.name in stood]
            left = asked.time_budget_s - (now() - start)
            share = max(LEAST_GROUP_S, left / (asked.groups - done))
            how = settings(asked, share, controls=not done_scouting)
            row += harness.measure_group(problem, memory, MODES, how, backends=usable, clock=clock)
            done += 1
        found += row
    return found


def settings(asked: Asked, share_s: float, controls: bool) -> Settings:
    """Of one group. Few rounds: a median is wanted, not an interval."""
    return Settings(
        seed=asked.seed, group_budget_s=share_s, rounds_min=6, rounds_max=8, pilot_rounds=2, controls=controls
    )


def fitted(cells: Iterable[Cell], machine: Mapping[str, Any], roofs: Mapping[str, Roofs]) -> Model:
    """The model of calibration cells, with the roofs measured; of a link the best rate that was reached."""
    model = calibration.fitted(cells, machine)
    merged = {device: with_measured(seen, roofs.get(device)) for device, seen in model.roofs.items()}
    return msgspec.structs.replace(model, roofs=merged)


def with_measured(seen: Roofs, roofs: Roofs | None) -> Roofs:
    """`roofs` where there are any; what they lack, and a rate that was exceeded, from `seen`."""
    if roofs is None:
        return seen
    rates = {math: max(rate, roofs.flops.get(math, 0.0)) for math, rate in seen.flops.items()}
    return Roofs(
        flops={**roofs.flops, **rates},
        memory=roofs.memory or seen.memory,
        link=roofs.link or seen.link,
        measured=True,
    )


# -- roofs


def measured_roofs(dtypes: Sequence[str]) -> dict[str, Roofs]:
    """Peaks of what is here, by device: each side that cannot be measured is left out."""
    found = {}
    for device, measure_side in (("cpu", _cpu_roofs), ("cuda", _gpu_roofs)):
        try:
            found[device] = measure_side(dtypes)
        except Exception:  # a roof explains; without it the best rate seen does
            continue
    return found


def _cpu_roofs(dtypes: Sequence[str]) -> Roofs:
    from backends._native_library import library

    bound = library()
    lib, ffi = bound.lib, bound.ffi
    threads, rate, before = lib.gemm_threads_max(), ffi.new("double *"), lib.gemm_threads_get()
    buffer = bytearray(os.urandom(1 << 12) * (READ_BYTES >> 12))
    address = ffi.cast("void *", ffi.from_buffer(buffer))
    flops = {}
    lib.gemm_threads_set(threads)
    try:
        for dtype in (dtype for dtype in dtypes if dtype in ("float32", "float64")):
            kind = lib.GEMM_F32 if dtype == "float32" else lib.GEMM_F64
            lib.gemm_roof_flops(kind, threads, ROOF_S, rate)
            flops[DEFAULT_MATH[dtype]] = rate[0]
        lib.gemm_roof_read(address, READ_BYTES, threads, ROOF_S, rate)
    finally:
        lib.gemm_threads_set(before)
        lib.gemm_threads_park()
    return Roofs(flops=flops, memory=rate[0], measured=True)


def _gpu_roofs(dtypes: Sequence[str]) -> Roofs:
    from backends import _cuda_driver
    from backends._cuda_peaks import BYTES, Peaks

    peaks = Peaks(_cuda_driver.device(0))
    try:
        flops = {DEFAULT_MATH[d]: peaks.rate(DEFAULT_MATH[d], ROOF_S).per_s for d in dtypes}
        return Roofs(flops=flops, memory=peaks.rate(BYTES, ROOF_S).per_s, measured=True)
    finally:
        peaks.close()
