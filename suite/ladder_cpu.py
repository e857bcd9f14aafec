"""The CPU's ladder: the rungs of cpu/ladder, and the library itself at the top."""

from __future__ import annotations

import re
from typing import Any

from backends import _cpu_ladder, native
from backends._native_library import library
from backends.arithmetic import ITEMSIZE
from backends.base import Problem, Session, SessionInfo

from .ladder import Provider, Rung


class Library(native.NativeBackend):
    """The library as a rung: the model's intensities stand beside what `native` records of itself."""

    def open(self, problem: Problem, *args: Any, **options: Any) -> Session:
        session = super().open(problem, *args, **options)
        session.info.config["flop_per_byte"] = intensities(session.info, ITEMSIZE[problem.dtype])
        return session


def intensities(info: SessionInfo, size: int) -> dict[str, float]:
    """FLOP per byte of the library's micro-tile (`..._14x32`) and blocks, by the formulas of rung 06.

    size: bytes of an entry.
    """
    mr, nr = map(int, re.findall(r"_(\d+)x(\d+)", info.kernel)[0])
    kc, nc = info.config["kc"], info.config["nc"]
    return {"registers": 2 * mr * nr / (mr + nr) / size, "block": 2 * kc * nc / (kc + 2 * nc) / size}


class CpuLadder(Provider):
    """Everything is timed from C. The roof: FMAs from registers, in the instruction set in force."""

    device = "cpu"
    levels = (("FLOP/B from L1", "registers"), ("FLOP/B beyond", "block"))
    columns = (("ISA", "isa"),)

    def unavailable(self) -> str:
        for backend in _cpu_ladder.backends():
            state = backend.probe()
            if not state.ok:
                return f"{state.reason}; {state.cure}"
        return ""

    def rungs(self) -> list[Rung]:
        found = [_rung(backend) for backend in _cpu_ladder.backends()]
        return [*found, library_rung()]

    def threads(self, asked: int | None) -> int:
        most = library().lib.gemm_threads_max()
        return min(asked, most) if asked else most

    def roof_flop_s(self, dtype: str, threads: int, seconds: float) -> float:
        bound = library()
        rate = bound.ffi.new("double *")
        before = bound.lib.gemm_threads_get()
        bound.lib.gemm_threads_set(threads)
        bound.lib.gemm_roof_flops(int(dtype == "float64"), threads, seconds, rate)
        bound.lib.gemm_threads_set(before)
        return rate[0]


def _rung(backend: _cpu_ladder.RungBackend) -> Rung:
    header, rung = backend.rung.header, backend.rung
    return Rung(
        name=rung.name,
        title=header.title,
        idea=header.idea,
        changes=header.changes,
        look_at=header.look_at,
        backend=backend,
        threads=None if header.threaded else 1,
        beside=rung.build != header.builds[0],
    )


def library_rung() -> Rung:
    """The top of the ladder."""
    return Rung(
        name="08_library",
        title="the library",
        idea="What every other command measures: the same five loops, with all that was left out.",
        changes=(
            "Larger tiles, and one of its own size for every edge; packing in vectors, shared by all "
            "threads; blocks that follow from the caches found; small products in place, on fewer threads."
        ),
        look_at="The distance left to the peak; and the small sizes: no rung is good at both ends.",
        backend=Library(),
    )


def provider() -> Provider:
    """Called by `ladder.provider`."""
    return CpuLadder()
