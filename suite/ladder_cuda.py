"""The GPU's ladder: every kernel file in cuda/kernels by its header, and cuBLAS at the top.

A new kernel file is a new rung; nothing is listed here.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import msgspec

from backends import _cuda_driver, _cuda_probe, cublas, cuda_kernels
from backends._cuda_peaks import Peaks, Rate
from backends._cuda_source import Header, Variant
from backends.arithmetic import DEFAULT_MATH, ITEMSIZE
from backends.base import Problem

from .ladder import Provider, Rung

RECORDS = Path(__file__).resolve().parent / "profiles" / "ladders"
"""Climbs of real GPUs, shipped for machines without one."""

REFERENCE = "cublas"
"""The name of the last rung, which the others are held against."""

REFERENCE_MATH = {"3xtf32": "fp32"}
"""Arithmetics that cuBLAS lacks, and the one it stands beside them in."""

PEAK_MATH = {"3xtf32": ("tf32", 3.0)}
"""Arithmetics made of several products of another one: which, and of how many."""


def intensity(header: Header, variant: Variant, size: int) -> float:
    """FLOP per byte that a CTA tile reads, entries being `size` bytes: derived in docs/ladder-cuda.md.

    A kernel whose tile is one entry deep keeps nothing for its neighbours: each entry of C reads its own.
    Blocks of a cluster (along M) that send each other what they load have one tile between them.
    """
    if header.op == "gemm":
        m, n = variant.tile[:2] if variant.tile[2] > 1 else (1, 1)
        m *= getattr(variant, "cluster", 1)
        return 2 * m * n / ((m + n) * size)
    return {"gemv": 2 / size, "vector_add": 1 / (3 * size), "copy": 0.0}[header.op]


class CudaLadder(Provider):
    """Throughput by the device's clock, latency by the host's; the roofs are measured in the same rounds."""

    device = "cuda"
    levels = (("FLOP/B", "tile"),)
    columns = (
        ("registers", "registers"),
        ("shared B", "shared_bytes"),
        ("occupancy", "occupancy"),
        ("spills B", "local_bytes"),
    )

    def __init__(self) -> None:
        self._peaks: Peaks | None = None

    def unavailable(self) -> str:
        state = _cuda_probe.probe()
        return "" if state.ok else f"{state.reason}; {state.cure}"

    def rungs(self) -> list[Rung]:
        return list(_rungs())

    def broken(self) -> dict[str, str]:
        """Kernel files whose header is wrong, each with the reason."""
        return {b.name: str(b.error) for b in cuda_kernels.load() if isinstance(b, cuda_kernels.BrokenKernel)}

    def threads(self, asked: int | None) -> int:
        return 1

    def roof_flop_s(self, dtype: str, threads: int, seconds: float) -> float:
        return self.peak(DEFAULT_MATH[dtype], seconds).per_s

    def peak(self, math: str, seconds: float) -> Rate:
        """FLOP/s of an arithmetic, or bytes/s of BYTES, measured now; 0 where nothing offers it."""
        if self._peaks is None:
            self._peaks = Peaks(_cuda_driver.device(0))
        kind, products = PEAK_MATH.get(math, (math, 1.0))
        found = self._peaks.rate(kind, seconds)
        return Rate(found.per_s / products, found.instruction)

    def absent(self) -> dict[str, str]:
        """Peaks that could not be measured here, `arithmetic, file`, each with the reason."""
        return dict(self._peaks.absent) if self._peaks else {}

    def close(self) -> None:
        """Free what the peaks hold."""
        if self._peaks is not None:
            self._peaks.close()
            self._peaks = None


@functools.cache
def _rungs() -> tuple[Rung, ...]:
    """Every kernel variant in the order of the files, then cuBLAS."""
    ours = [b for b in cuda_kernels.load() if isinstance(b, cuda_kernels.CudaKernel)]
    return (*map(_rung, ours), reference_rung())


def _rung(backend: cuda_kernels.CudaKernel) -> Rung:
    kernel = backend.kernel
    stem, variant = kernel.path.stem, kernel.variant.name
    return Rung(
        name=f"{stem}/{variant}" if variant else stem,
        title=stem.partition("_")[2].replace("_", " "),
        idea=first_sentence(kernel.path.read_text()),
        changes=kernel.header.teaches,
        look_at="",
        backend=backend,
        beside=bool(variant),
    )


def first_sentence(text: str) -> str:
    """Of the comment that a kernel file begins with."""
    head = text.partition("// /// kernel")[0]
    words = " ".join(line.removeprefix("//").strip() for line in head.splitlines())
    return re.split(r"(?<=[.!?:]) ", " ".join(words.split()))[0]


def reference_rung() -> Rung:
    """The top of the ladder."""
    return Rung(
        name=REFERENCE,
        title="cuBLAS",
        idea="NVIDIA's library in the very same arithmetic.",
        changes="Many kernels, and a choice among them for every shape.",
        look_at="The distance to the peak, and the sizes at which it is far from it.",
        backend=cublas.Cublas(),
    )


def problem_of(rung: Rung, problem: Problem) -> Problem:
    """What this rung computes in the group of `problem`: cuBLAS takes its nearest arithmetic."""
    math = REFERENCE_MATH.get(problem.math, problem.math) if rung.name == REFERENCE else problem.math
    return msgspec.structs.replace(problem, math=math)


def made_for(rung: Rung) -> str:
    """The part that a kernel for products of one shape was made for; empty for those that climb on squares.

    Its header says so: products in batches, K cut among blocks for tiles as wide as tall, or for narrow ones.
    """
    header = header_of(rung)
    if header is None or header.op != "gemm" or header.launcher not in ("batched", "split_k"):
        return ""
    rows, columns, _ = header.variant[0].tile
    return "batched" if header.launcher == "batched" else "skinny" if columns < rows else "long_k"


def shape_of(p: Problem) -> str:
    """The part that a product belongs to by its shape."""
    if p.batch > 1:
        return "batched"
    return "long_k" if p.k > max(p.m, p.n) else "skinny" if p.n < p.m else "square"


def header_of(rung: Rung) -> Header | None:
    """Of our kernel; None for cuBLAS."""
    return getattr(getattr(rung.backend, "kernel", None), "header", None)


def apart(rung: Rung, problem: Problem) -> bool:
    """Has the rung no place here although it could compute it?

    What is made for one shape stands at that shape alone. There the rungs that climb on square products are
    what it is held against, where their CTA tile fits into C; without their variants, which are about square
    products too.
    """
    header, home = header_of(rung), made_for(rung)
    if header is None or header.op != "gemm" or problem.op != "gemm":
        return False
    here = shape_of(problem)
    if home or here == "square":
        return bool(home) and home != here
    rows, columns, _ = header.variant[0].tile
    return rung.beside or rows > problem.m or columns > problem.n


def concerns(rung: Rung, problem: Problem) -> bool:
    """Is the rung meant for this problem? One that this GPU cannot run is, and says why it does not."""
    return not apart(rung, problem) and rung.backend.supports(problem_of(rung, problem)) is None


def model(rung: Rung, problem: Problem) -> dict[str, float]:
    """`flop_per_byte` of the record."""
    if not isinstance(rung.backend, cuda_kernels.CudaKernel):
        return {}
    kernel = rung.backend.kernel
    return {"tile": intensity(kernel.header, kernel.variant, ITEMSIZE[problem.dtype])}


def provider() -> CudaLadder:
    """Called by `ladder.provider`."""
    return CudaLadder()
