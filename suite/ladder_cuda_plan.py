"""What the GPU's ladder is climbed on: parts, each a handful of problems that ask one question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from backends.arithmetic import ITEMSIZE
from backends.base import Problem, check_problem

from . import ladder_cuda
from .ladder import Rung
from .ladder_measure import Request

SIZES = (1024, 2048, 4096, 8192)
RAGGED = (1000, 1023, 2047, 4097)
LONG_K = ((128, 128, 65536), (256, 256, 16384))
SKINNY_N = (1, 4, 16, 64, 256)
SKINNY = 4096
BATCHES = ((32, 4096), (64, 2048), (128, 512))
GEMV_SIZES = (1024, 4096, 4097, 8192, 16384)
VECTOR_SIZES = (1 << 20, 1 << 24)

STANDS_FOR = {
    "long_k": 0, "skinny": 2, "batched": 1, "gemv": 1, "gemv_t": 1, "vector_add": 1, "copy": 1
}  # fmt: skip
"""Which problem of a part stands for it in a further type: to check all of them would take minutes."""

TITLES = {
    "square": "M = N = K",
    "ragged": "ragged M = N = K",
    "long_k": "small M = N, long K",
    "skinny": f"M = K = {SKINNY}, few columns N",
    "batched": "many small products, M = N = K",
    "gemv": "y = A x",
    "gemv_t": "y = A x, A stored transposed",
    "vector_add": "c = a + b",
    "copy": "c = a",
}
"""Every part and its heading, in the order of the tables."""

SHAPED = ("long_k", "skinny", "batched")
"""Parts of products of one shape, for which there are kernels of their own."""

PRODUCTS = ("square", "ragged", *SHAPED)

IN_BYTES = ("gemv", "gemv_t", "vector_add", "copy")
"""Parts whose rate is bytes per second."""


class CudaRequest(Request, frozen=True, kw_only=True):
    """What to climb: these parts, in each (dtype, arithmetic), as far as a rung of ours is meant for it."""

    device: str = "cuda"
    sizes: tuple[int, ...] = SIZES
    ragged: tuple[int, ...] = RAGGED
    arithmetics: tuple[tuple[str, str], ...] = (("float32", "fp32"),)
    parts: tuple[str, ...] = tuple(TITLES)
    time_budget_s: float = 300.0

    @property
    def problems(self) -> list[Problem]:
        """Those with the fewest entries first, whatever their part and arithmetic.

        The time that small ones leave is there for the large ones, and where it ends too early the largest
        size is missing in every arithmetic, not one arithmetic at every size.
        """
        rungs = [r for r in ladder_cuda.provider().rungs() if r.name != ladder_cuda.REFERENCE]
        wanted = [r for r in rungs if not self.rungs or r.name in self.rungs]
        every = [p for how in self.arithmetics for _, p in planned(self, *how)]
        found = [
            p
            for p in dict.fromkeys(every)
            if worth(rungs, p) and any(ladder_cuda.concerns(rung, p) for rung in wanted)
        ]
        return sorted(found, key=lambda p: p.bytes_min // ITEMSIZE[p.dtype])


def worth(rungs: Sequence[Rung], problem: Problem) -> bool:
    """Is a rung of ours meant for it? In a part of one shape, one at least that was made for that shape."""
    shape = ladder_cuda.shape_of(problem) if problem.op == "gemm" else "square"
    concerned = [rung for rung in rungs if ladder_cuda.concerns(rung, problem)]
    return any(shape in ("square", ladder_cuda.made_for(rung)) for rung in concerned)


def any_concern(rung: Rung, problems: Sequence[Problem]) -> bool:
    """Is the rung meant for one of these problems?"""
    return any(ladder_cuda.concerns(rung, problem) for problem in problems)


def planned(asked: CudaRequest, dtype: str, math: str) -> Iterator[tuple[str, Problem]]:
    """(part, problem), whether or not there is a rung for it."""
    makers: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "square": lambda: [{"m": n, "n": n, "k": n} for n in asked.sizes],
        "ragged": lambda: [{"m": n, "n": n, "k": n} for n in asked.ragged],
        "long_k": lambda: [{"m": m, "n": n, "k": k} for m, n, k in LONG_K],
        "skinny": lambda: [{"m": SKINNY, "n": n, "k": SKINNY} for n in SKINNY_N],
        "batched": lambda: [{"m": n, "n": n, "k": n, "batch": count} for n, count in BATCHES],
        "gemv": lambda: [{"op": "gemv", "m": n, "n": n} for n in GEMV_SIZES],
        "gemv_t": lambda: [{"op": "gemv", "m": n, "n": n, "trans_a": True} for n in GEMV_SIZES],
        "vector_add": lambda: [{"op": "vector_add", "n": n} for n in VECTOR_SIZES],
        "copy": lambda: [{"op": "copy", "n": n} for n in VECTOR_SIZES],
    }
    further = dtype != asked.arithmetics[0][0]
    for part in asked.parts:
        shapes = makers[part]()
        if further and part in STANDS_FOR:
            shapes = [shapes[STANDS_FOR[part]]]
        for shape in shapes:
            yield part, Problem(dtype=dtype, math=math, **shape)


def part_of(asked: CudaRequest, problem: Problem) -> str:
    """Which part a problem of the request belongs to."""
    found = (part for part, p in planned(asked, problem.dtype, problem.math) if p == problem)
    return next(found, "square")


def arithmetics(dtypes: Sequence[str], maths: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(dtype, math) for all that go together. maths: empty for each dtype's own; `all`: every one of a rung.

    ValueError where nothing goes together.
    """
    rungs = ladder_cuda.provider().rungs()
    found = [pair for pair in _candidates(rungs, dtypes, maths) if pair[0] in dtypes]
    if not found:
        raise ValueError(f"--math {','.join(maths)} is no arithmetic of {', '.join(dtypes)} that a rung has")
    return tuple(dict.fromkeys(found))


def _candidates(
    rungs: Sequence[Rung], dtypes: Sequence[str], maths: Sequence[str]
) -> Iterator[tuple[str, str]]:
    if not maths:
        yield from ((dtype, Problem(dtype=dtype).math) for dtype in dtypes)
        return
    offered = [pair for rung in rungs for pair in offers(rung)]
    for dtype in dtypes:
        yield from (pair for pair in offered if pair[0] == dtype and (pair[1] in maths or "all" in maths))


def offers(rung: Rung) -> list[tuple[str, str]]:
    """(dtype, math) that a kernel computes; none for cuBLAS, which only stands beside them."""
    header = ladder_cuda.header_of(rung)
    return list(zip(header.dtypes, header.math, strict=True)) if header else []


def checked_sizes(asked: CudaRequest) -> CudaRequest:
    """The request; ValueError for a size that no product has."""
    for problem in asked.problems:
        check_problem(problem)
    return asked
