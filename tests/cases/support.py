"""What the cases share: the callables under test, operands, references that use no BLAS, and comparisons."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np

from suite.reference import WIDE, product

Gemm = Callable[..., np.ndarray]


def whole(shape: tuple[int, ...], dtype: str, seed: int = 0, most: int = 7) -> np.ndarray:
    """Small integers: their products and sums are exact."""
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(dtype)


def real(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).random(shape) - 0.5).astype(dtype)


def pair(m: int, n: int, k: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    return whole((m, k), dtype, 1), whole((k, n), dtype, 2)


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of integer-valued arrays in 64-bit integers."""
    return np.matmul(a.astype(np.int64), b.astype(np.int64))


def same(got: np.ndarray, want: np.ndarray, dtype: str | None = None) -> None:
    """Equal in every entry, in shape and, if given, in dtype."""
    assert got.shape == want.shape
    assert dtype is None or got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(np.asarray(got, np.float64), np.asarray(want, np.float64))


def within_rounding(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """|C - AB| <= (K + 3) eps |A||B|, entry by entry."""
    right = product(a[None], b[None], WIDE)[0]
    size = product(a[None], b[None], WIDE, absolute=True)[0]
    assert got.shape == right.shape
    assert np.all(np.abs(got - right) <= (a.shape[1] + 3) * np.finfo(got.dtype).eps * size)


class Fenced:
    """An `out` in the middle of a larger buffer of 12345.0; `intact` once nothing else was written."""

    def __init__(self, shape: tuple[int, ...], dtype: str, fill: float) -> None:
        count = int(np.prod(shape))
        self.buffer = np.full(count + 200, 12345.0, dtype)
        self.out = self.buffer[100 : 100 + count].reshape(shape)
        self.out[...] = fill

    def intact(self) -> bool:
        count = self.out.size
        return bool(np.all(self.buffer[:100] == 12345) and np.all(self.buffer[100 + count :] == 12345))


def in_nan(array: np.ndarray, margins: tuple[int, int] = (2, 4)) -> np.ndarray:
    """The same values as a view whose leading dimension exceeds its width, NaN all round."""
    before, after = margins
    parent = np.full([n + before + after for n in array.shape], np.nan, array.dtype)
    view = parent[tuple(slice(before, before + n) for n in array.shape)]
    view[...] = array
    return view


def spread(array: np.ndarray, steps: tuple[int, ...]) -> np.ndarray:
    """The same values at those steps (negative: backwards), NaN between them."""
    parent = np.full([n * abs(s) for n, s in zip(array.shape, steps, strict=True)], np.nan, array.dtype)
    view = parent[tuple(slice(None, None, s) for s in steps)]
    view[...] = array
    return view


def at_offset(array: np.ndarray, bytes_past: int) -> np.ndarray:
    """The same values, beginning that many bytes past a 64-byte boundary."""
    raw = np.zeros(array.nbytes + 64 + bytes_past, np.uint8)
    start = -raw.ctypes.data % 64 + bytes_past
    view = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def python(code: str, seconds: float = 60, **environment: str) -> str:
    """What `code` prints in a fresh interpreter; it fails if that one does, or takes longer."""
    kept = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "GEMM_NUM_THREADS")}
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=kept | {"PYTHONPATH": os.pathsep.join(p or str(Path.cwd()) for p in sys.path)} | environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert run.returncode == 0, f"status {run.returncode}: {run.stdout}{run.stderr}"
    return run.stdout
