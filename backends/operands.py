"""The host arrays of a problem: allocated once, touched, and shared by every candidate of a comparison."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .base import HostMemory, Problem, Unavailable


class Operands(NamedTuple):
    """Row-major host arrays. gemm: A, B, C; gemv: A, x, y; vector_add: a, b, c; copy: a, None, c.

    Shapes are those in memory: A is (K, M) when trans_a. A leading axis of `batch` when batch > 1.
    """

    a: np.ndarray
    b: np.ndarray | None
    c: np.ndarray


def numpy_dtype(name: str) -> np.dtype:
    """NumPy's dtype of that name; bfloat16 needs the `bf16` extra, else Unavailable says so."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise Unavailable("bfloat16 arrays need ml_dtypes: pip install 'gemm-crossover[bf16]'") from error
    return np.dtype(ml_dtypes.bfloat16)


def shapes(p: Problem) -> tuple[tuple[int, ...], tuple[int, ...] | None, tuple[int, ...]]:
    """Shapes in memory of A, B and C."""
    if p.op == "gemm":
        a, b = (p.m, p.k), (p.k, p.n)
        a, b = (a[::-1] if p.trans_a else a), (b[::-1] if p.trans_b else b)
        lead = (p.batch,) if p.batch > 1 else ()
        return lead + a, lead + b, (*lead, p.m, p.n)
    if p.op == "gemv":
        return ((p.n, p.m) if p.trans_a else (p.m, p.n)), (p.n,), (p.m,)
    return (p.n,), ((p.n,) if p.op == "vector_add" else None), (p.n,)


def allocate(p: Problem, host_memory: HostMemory = "pageable") -> Operands:
    """Arrays for `p`, every page written once. Pinned ones need CUDA, else Unavailable says why."""
    dtype = numpy_dtype(p.dtype)
    empty = np.empty if host_memory == "pageable" else _empty_pinned
    arrays = [None if s is None else empty(s, dtype) for s in shapes(p)]
    for array in arrays:
        if array is not None:
            array.fill(0)
    a, b, c = arrays
    assert a is not None and c is not None
    return Operands(a, b, c)


def _empty_pinned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    try:
        import cupyx

        return cupyx.empty_pinned(shape, dtype)
    except Exception as error:  # CuPy raises several unrelated kinds without a driver
        reason = f"{type(error).__name__}: {error}"
        raise Unavailable(f"pinned host memory needs a CUDA device: {reason}") from error


def fill_random(operands: Operands, seed: int) -> None:
    """Uniform in [-0.5, 0.5) with full mantissas (never zeros: they draw less power and clock higher)."""
    rng = np.random.default_rng(seed)
    for array in (operands.a, operands.b):
        if array is not None:
            flat = array.reshape(-1)
            for start in range(0, flat.size, 1 << 22):
                part = flat[start : start + (1 << 22)]
                part[...] = (rng.random(part.size) - 0.5).astype(part.dtype)
    operands.c.fill(0)
