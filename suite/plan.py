"""What to measure: which problem stands at which size of a shape, and what the named shapes are.

The syntax of shapes and sizes is `suite.shapes`; this module knows operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from backends.arithmetic import DEFAULT_MATH, canonical_dtype
from backends.base import Problem

from .shapes import FAMILIES as GEMM_NAMES
from .shapes import Shape, parse_shape, parse_sizes

__all__ = [
    "FAMILIES", "Shape", "clip", "cpu_arithmetic", "cpu_problem", "family", "parse_sizes", "problem_at",
    "size_of", "words",
]  # fmt: skip

FAMILIES: dict[str, dict[str, str]] = {
    "gemm": {**GEMM_NAMES, "tall-square": "K=N,M=16K", "square-wide": "M=K,N=16K"},
    "gemv": {"square": "M=N", "tall": "N=32", "wide": "M=32", "tall16": "M=16N", "wide16": "N=16M"},
}
"""Named shapes by operation, each with its pattern in one free variable, the size.

They are the nine GEMM and five GEMV families that GPU-BLOB sweeps (its include/doGemm.hh and doGemv.hh):
M=N=K; M=N, K=32; M=N=32; N=K=32; M=K=32; M=N, K=16M; M=N, M=16K; K=N, M=16K; M=K, N=16K; and for A of
M x N times x: M=N; N=32; M=32; M=16N; N=16M.
"""


def family(text: str, op: str = "gemm") -> Shape:
    """The shape of a family name of `op`, or of a pattern such as `M=N,K=32`.

    ValueError lists the names of this operation when `text` is neither.
    """
    names = FAMILIES.get(op, {"square": "M=N"})
    pattern = names.get(text.strip().lower(), text)
    if "=" not in pattern:
        raise ValueError(f"shape {text!r} is unknown for {op}: use {', '.join(names)} or such as 'M=N,K=32'")
    shape = parse_shape(pattern)
    return Shape(text, shape.m, shape.n, shape.k)


def problem_at(
    op: str,
    shape: Shape,
    size: int,
    dtype: str = "float32",
    math: str = "",
    *,
    batch: int = 1,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> Problem:
    """The problem of `shape` at `size`; for gemv K is not used, for vector_add and copy N = size alone.

    ValueError as from `Problem` when the values do not make one.
    """
    m, n, k = shape.at(size)
    if op in ("vector_add", "copy"):
        m, n, k = 1, size, 1
    elif op == "gemv":
        k = 1
    elif op != "gemm":
        raise ValueError(f"operation {op!r} is unknown: use gemm, gemv, vector_add or copy")
    dtype = canonical_dtype(dtype)
    return Problem(op=op, m=m, n=n, k=k, batch=batch, dtype=dtype, math=math, alpha=alpha, beta=beta)  # type: ignore[arg-type]


def cpu_arithmetic(dtype: str, math: str) -> tuple[str, str]:
    """(dtype, math) of the CPU side where the GPU side computes `dtype` in `math`.

    The arithmetic of the storage type itself; float32 in fp32 for half types, for which no CPU BLAS is known.
    """
    dtype = "float32" if dtype in ("float16", "bfloat16") else dtype
    return dtype, DEFAULT_MATH[dtype]


def cpu_problem(problem: Problem) -> Problem:
    """`problem` as the CPU side computes it; itself unless the GPU was asked for a reduced precision."""
    dtype, math = cpu_arithmetic(problem.dtype, problem.math)
    same = (dtype, math) == (problem.dtype, problem.math)
    return problem if same else msgspec.structs.replace(problem, dtype=dtype, math=math)


def words(dtype: str, math: str) -> str:
    """The arithmetic of a comparison: `float32`; both sides' where they differ.

    `float32, CPU fp32 against GPU tf32`, or `CPU float32 against GPU float16`.
    """
    cpu = cpu_arithmetic(dtype, math)
    if cpu == (dtype, math):
        return dtype
    if cpu[0] == dtype:
        return f"{dtype}, CPU {cpu[1]} against GPU {math}"
    return f"CPU {cpu[0]} against GPU {dtype}"


def size_of(problem: Problem, shape: Shape) -> int:
    """The size at which `shape` gives this problem, the inverse of `problem_at`.

    A shape that is one fixed point has its largest dimension as size. ValueError for another shape's problem.
    """
    if problem.op in ("vector_add", "copy"):
        return problem.n
    pairs = [(problem.m, shape.m), (problem.n, shape.n)]
    pairs += [(problem.k, shape.k)] if problem.op == "gemm" else []
    free = [value // dim.factor for value, dim in pairs if not dim.fixed]
    size = free[0] if free else max(value for value, _ in pairs)
    if any(value != dim.at(size) for value, dim in pairs):
        raise ValueError(f"{problem.m} x {problem.n} x {problem.k} is not of the shape {shape.text!r}")
    return size


def clip(sizes: Sequence[int], shape: Shape, longest: int) -> tuple[int, ...]:
    """The sizes whose longest dimension is at most `longest`: what GPU-BLOB calls its upper limit."""
    return tuple(size for size in sizes if max(shape.at(size)) <= longest)
