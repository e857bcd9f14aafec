"""Sessions that compute with NumPy in a stated way, rightly or with one planted fault."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from backends.base import Problem, Session, SessionInfo
from backends.operands import allocate
from suite.trials import views

Compute = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""A (batch, M, K), B (batch, K, N) -> A @ B, in whatever arithmetic."""


def sequential(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One product after the other, in the type of the operands."""
    total = np.zeros((a.shape[0], a.shape[1], b.shape[2]), a.dtype)
    for k in range(a.shape[2]):
        total += a[:, :, k, None] * b[:, k, None, :]
    return total


def backwards(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return sequential(a[:, :, ::-1], b[:, ::-1])


def pairwise(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    k = a.shape[2]
    if k <= 4:
        return sequential(a, b)
    half = k // 2
    return pairwise(a[:, :, :half], b[:, :half]) + pairwise(a[:, :, half:], b[:, half:])


def blocked(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = np.zeros((a.shape[0], a.shape[1], b.shape[2]), a.dtype)
    for k in range(0, a.shape[2], 32):
        total += np.matmul(a[:, :, k : k + 32], b[:, k : k + 32])
    return total


def shortened(x: np.ndarray, bits: int) -> np.ndarray:
    """float32 rounded to nearest at `bits` significand bits."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.round(mantissa * 2.0**bits), exponent - bits).astype(np.float32)


def truncated(x: np.ndarray, bits: int) -> np.ndarray:
    """float32 cut off after `bits` significand bits, as tensor cores read TF32."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.trunc(mantissa * 2.0**bits), exponent - bits).astype(np.float32)


def reduced(bits: int, how: Callable[[np.ndarray, int], np.ndarray] = shortened) -> Compute:
    """Operands shortened to `bits`, sums in float32."""
    return lambda a, b: np.matmul(how(a, bits), how(b, bits))


def tf32_products(parts: str) -> Compute:
    """Operands in a big and a small part of 11 bits each, and these products of parts, as "bb bs sb"."""

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        split = [{"b": shortened(x, 11), "s": shortened(x - shortened(x, 11), 11)} for x in (a, b)]
        return sum(np.matmul(split[0][left], split[1][right]) for left, right in parts.split())

    return compute


def half_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Operands as they are, sums in float16."""
    total = np.zeros((a.shape[0], a.shape[1], b.shape[2]), np.float16)
    for k in range(0, a.shape[2], 2):
        total += np.matmul(a[:, :, k : k + 2].astype(np.float32), b[:, k : k + 2].astype(np.float32)).astype(
            np.float16
        )
    return total


class HostSession(Session):
    """Computes in the host arrays."""

    def __init__(self, problem: Problem, compute: Compute = np.matmul, **info: object) -> None:
        super().__init__(problem, allocate(problem), SessionInfo(**info))  # type: ignore[arg-type]
        self.compute, self.v = compute, views(problem, self.operands)
        self.runs = 0

    def run(self) -> None:
        self.runs += 1
        self.write(self.v.c, self.result(self.v.a, self.v.b, self.v.c))

    def result(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        """alpha * A @ B + beta * C by the rules of BLAS."""
        p = self.problem
        if p.op in ("vector_add", "copy"):
            return a + b if p.op == "vector_add" else a
        kind = c.dtype.type if c.dtype.itemsize >= 4 else np.float32
        total = np.zeros(c.shape, kind)
        if p.alpha != 0:
            total = kind(p.alpha) * self.compute(a, b).astype(kind)
        return total if p.beta == 0 else total + kind(p.beta) * c.astype(kind)

    def write(self, c: np.ndarray, result: np.ndarray) -> None:
        c[...] = result


class DeviceSession(HostSession):
    """Computes in memory of its own, as a GPU does."""

    def __init__(self, problem: Problem, compute: Compute = np.matmul, **info: object) -> None:
        super().__init__(problem, compute, **info)
        self.device = type(self.v)(*(np.zeros_like(x) for x in self.v))

    def upload(self) -> None:
        self.device.a[...], self.device.b[...] = self.v.a, self.v.b
        if self.problem.beta != 0:
            self.device.c[...] = self.v.c

    def run(self) -> None:
        self.runs += 1
        d = self.device
        self.write(d.c, self.result(d.a, d.b, d.c))

    def download(self) -> None:
        self.v.c[...] = self.device.c
