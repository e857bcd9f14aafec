"""The everyday calls as plain functions, for anything that wants `module:function`."""

from __future__ import annotations

from typing import Any

import numpy as np

import backends


def native_gemm(A: Any, B: Any, *, out: Any = None, alpha: float = 1.0, beta: float = 0.0) -> np.ndarray:
    return backends.get("native").gemm(A, B, out=out, alpha=alpha, beta=beta)


def native_gemv(A: Any, x: Any, *, out: Any = None, alpha: float = 1.0, beta: float = 0.0) -> np.ndarray:
    return backends.get("native").gemv(A, x, out=out, alpha=alpha, beta=beta)


def numpy_gemm(A: Any, B: Any, *, out: Any = None, alpha: float = 1.0, beta: float = 0.0) -> np.ndarray:
    return backends.get("numpy").gemm(A, B, out=out, alpha=alpha, beta=beta)


def numpy_gemv(A: Any, x: Any, *, out: Any = None, alpha: float = 1.0, beta: float = 0.0) -> np.ndarray:
    return backends.get("numpy").gemv(A, x, out=out, alpha=alpha, beta=beta)
