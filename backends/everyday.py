"""The everyday calls: gemm, gemv and plan on host arrays, for every backend.

Shapes and errors are NumPy's (`np.matmul`: 1-d, 2-d, and stacks that broadcast); alpha and beta are BLAS's:
beta = 0 never reads `out`, alpha = 0 never reads A and B. Views that a backend `takes` are used as they
lie (all where its attribute `strided` is true); of the others a transposed one becomes a transpose flag and
everything else a contiguous copy. `out` may share memory with the inputs: the result is the one that
copies of the inputs would have given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .base import Backend, Problem, Session, Unavailable
from .checks import (
    as_array,
    checked_out,
    common_dtype,
    gemv_shape,
    matmul_shape,
    may_overlap_itself,
    real_number,
)
from .operands import Operands

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def gemm(
    backend: Backend, A: Any, B: Any, *, alpha: float = 1.0, beta: float = 0.0, out: Any = None
) -> np.ndarray:
    """alpha * A @ B + beta * out, as `np.matmul` shapes it; returns `out` where given.

    A, B: float16, float32, float64 (bool beside a float) of any strides, 1-d, 2-d or stacks of matrices.
    ValueError for shapes that do not fit, beta without `out`, a read-only `out`; TypeError for other dtypes.
    """
    result = _common_case(backend, A, B, alpha, beta, out)
    if result is not None:
        return result
    result = _Work("gemm", backend, A, B, alpha, beta, out).compute()
    return result[()] if out is None else result  # of two vectors: a scalar


def gemv(
    backend: Backend, A: Any, x: Any, *, alpha: float = 1.0, beta: float = 0.0, out: Any = None
) -> np.ndarray:
    """alpha * A @ x + beta * out, a vector (M,), for A (M, N) and x (N,); errors as in `gemm`."""
    return _Work("gemv", backend, A, x, alpha, beta, out).compute()


def plan(backend: Backend, A: Any, B: Any, out: Any, *, alpha: float = 1.0, beta: float = 0.0) -> Plan:
    """A prepared `gemm(A, B, out=out)`: call it as often as the arrays' contents change; `close()` frees it.

    A vector B with a matrix A makes it a gemv. A, B and `out` must be NumPy arrays; errors as in `gemm`.
    """
    for name, array in (("A", A), ("B", B), ("out", out)):
        if not isinstance(array, np.ndarray):
            raise TypeError(f"plan keeps NumPy arrays and reads them at each call: {name} is {type(array)}")
    op = "gemv" if A.ndim == 2 and B.ndim == 1 else "gemm"
    return Plan(_Work(op, backend, A, B, alpha, beta, out))


class Plan:
    """A prepared call without arguments; also a context manager."""

    def __init__(self, work: _Work) -> None:
        self.out = work.out
        self._work = work
        self._sessions = [work.backend.open(*part) for part in work.parts]
        self._calls: list[Callable[[], Any]] = [*work.before, *map(_whole_call, self._sessions), *work.after]

    def __call__(self) -> np.ndarray:
        for call in self._calls:
            call()
        return self.out

    def close(self) -> None:
        """Free what the sessions hold. Calling the plan afterwards is a RuntimeError."""
        sessions, self._sessions = self._sessions, []
        self._calls = [_closed]
        for session in sessions:
            session.close()

    def __enter__(self) -> Plan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _closed() -> None:
    raise RuntimeError("this plan is closed: make a new one with backend.plan(A, B, out)")


def _whole_call(session: Session) -> Callable[[], Any]:
    """Upload, run, download, wait; just the run where the session leaves the rest to the base class."""
    parts = ("upload", "download", "synchronize", "enqueue")
    if all(getattr(type(session), part) is getattr(Session, part) for part in parts):
        return session.run
    return functools.partial(session.enqueue, "always")


@functools.lru_cache(maxsize=4096)
def checked_problem(
    backend: Backend, op: Any, m: int, n: int, k: int, dtype: str, alpha: float, beta: float,
    trans_a: bool = False, trans_b: bool = False,
) -> Problem:  # fmt: skip
    """The Problem, once the backend is known to be usable (else Unavailable) and to take it (TypeError)."""
    problem = Problem(
        op=op, m=m, n=n, k=k, dtype=dtype, alpha=alpha, beta=beta, trans_a=trans_a, trans_b=trans_b
    )
    there = backend.probe()
    if not there.ok:
        raise Unavailable(f"{backend.name} cannot be used here: {there.reason}. {there.cure}".rstrip())
    reason = backend.supports(problem)
    if reason:
        raise TypeError(f"{backend.name} cannot compute this {dtype} {op}: {reason}")
    return problem


def _common_case(backend: Backend, A: Any, B: Any, alpha: Any, beta: Any, out: Any) -> np.ndarray | None:
    """Two contiguous matrices of one float type, with few checks; None sends the call the long way."""
    name = _plain_matrix(A)
    if not name or _plain_matrix(B) != name or type(alpha) is not float or type(beta) is not float:
        return None
    (m, k), (k_b, n) = A.shape, B.shape
    if k != k_b or m == 0 or n == 0:
        return None
    if out is None and beta == 0:
        out = np.empty((m, n), A.dtype)
    elif not _takes(out, name, (m, n)) or np.may_share_memory(A, out) or np.may_share_memory(B, out):
        return None
    problem = checked_problem(backend, "gemm", m, n, k, name, alpha, beta or 0.0)
    backend.compute(problem, Operands(A, B, out))
    return out


def _takes(out: Any, name: str, shape: tuple[int, int]) -> bool:
    return _plain_matrix(out) == name and out.shape == shape


def _plain_matrix(array: Any) -> str:
    """The dtype of a contiguous, aligned, writeable float32 or float64 matrix; empty for all else."""
    if type(array) is np.ndarray and array.ndim == 2 and array.flags.carray:
        if array.dtype is F32:
            return "float32"
        if array.dtype is F64:
            return "float64"
    return ""


class _Work:
    """One checked everyday call: copies to make before, parts to compute, copies to make after."""

    def __init__(self, op: str, backend: Backend, A: Any, B: Any, alpha: Any, beta: Any, out: Any) -> None:
        self.op, self.backend = op, backend
        self.alpha, self.beta = real_number("alpha", alpha), real_number("beta", beta)
        self.before: list[Callable[[], Any]] = []
        self.after: list[Callable[[], Any]] = []
        self.parts: list[tuple[Problem, Operands]] = []
        a, b = as_array("A", A), as_array("x" if op == "gemv" else "B", B)
        shape = gemv_shape(a.shape, b.shape) if op == "gemv" else matmul_shape(a.shape, b.shape)
        self.dtype = common_dtype(a, b)
        self.out = checked_out(out, shape, self.dtype, self.beta)
        if self.out.size:
            self._bind(a, b)

    def _bind(self, a: np.ndarray, b: np.ndarray) -> None:
        c = self.out
        if not self._usable(c) or may_overlap_itself(c) or any(np.may_share_memory(c, x) for x in (a, b)):
            c = self._buffered_out()
        if self.op == "gemv":
            a, trans_a = self._matrix(a, "trans_a")
            self._part(c.size, b.size, 1, Operands(a, self._array(b), c), trans_a)
            return
        c = _with_matrix_axes(c, a.ndim, b.ndim)
        a, b = a[None, :] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
        if c.ndim > 2:
            self._stack(a, b, c)
            return
        (a, trans_a), (b, trans_b) = self._matrix(a, "trans_a"), self._matrix(b, "trans_b")
        m, n = c.shape
        self._part(m, n, a.shape[0 if trans_a else 1], Operands(a, b, c), trans_a, trans_b)

    def _stack(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        """Stacks: one tall product where B is a single matrix, else one part per matrix."""
        lead, (m, n), k = c.shape[:-2], c.shape[-2:], a.shape[-1]
        if b.ndim == 2 and a.flags.c_contiguous and c.flags.c_contiguous:
            a, (b, trans_b) = self._array(a), self._matrix(b, "trans_b")
            tall = Operands(a.reshape(c.size // n, k), b, c.reshape(c.size // n, n))
            self._part(c.size // n, n, k, tall, False, trans_b)
            return
        a = np.broadcast_to(self._array(a), (*lead, m, k))
        b = np.broadcast_to(self._array(b), (*lead, k, n))
        for index in np.ndindex(lead):
            self._part(m, n, k, Operands(a[index], b[index], c[index]))

    def _part(
        self, m: int, n: int, k: int, operands: Operands, trans_a: bool = False, trans_b: bool = False
    ) -> None:
        sizes, scalars = (m, n, k, self.dtype.name), (self.alpha, self.beta)
        problem = checked_problem(self.backend, self.op, *sizes, *scalars, trans_a, trans_b)
        self.parts.append((problem, operands))

    def _usable(self, array: np.ndarray) -> bool:
        """Can the backend take it as it lies?"""
        right = array.dtype == self.dtype and array.flags.aligned
        return right and (array.flags.c_contiguous or self.backend.takes(array))

    def _array(self, array: np.ndarray) -> np.ndarray:
        return array if self._usable(array) else self._copied(array)

    def _matrix(self, array: np.ndarray, flag: str) -> tuple[np.ndarray, bool]:
        """(matrix as the backend takes it, is it the transpose of what was given?); `flag` as in Problem."""
        if not self._usable(array) and self._usable(array.T) and self._transposes(flag):
            return array.T, True
        return self._array(array), False

    def _transposes(self, flag: str) -> bool:
        """Does the backend take that operand transposed? One that does not is given a copy."""
        asked = Problem(op=self.op, dtype=self.dtype.name, **{flag: True})  # type: ignore[arg-type]
        return self.backend.supports(asked) is None

    def _copied(self, array: np.ndarray) -> np.ndarray:
        """A contiguous stand-in of the result's dtype, filled from `array` before each computation."""
        copy = np.empty(array.shape, self.dtype)
        self.before.append(functools.partial(np.copyto, copy, array))
        return copy

    def _buffered_out(self) -> np.ndarray:
        """A contiguous stand-in for `out`, written back after each computation."""
        buffer = np.empty(self.out.shape, self.dtype)
        if self.beta != 0:
            self.before.append(functools.partial(np.copyto, buffer, self.out))
        self.after.append(functools.partial(np.copyto, self.out, buffer))
        return buffer

    def compute(self) -> np.ndarray:
        """Everything once; returns the result (still to be made a scalar where NumPy would)."""
        for call in self.before:
            call()
        for problem, operands in self.parts:
            self.backend.compute(problem, operands)
        for call in self.after:
            call()
        return self.out


def _with_matrix_axes(c: np.ndarray, a_axes: int, b_axes: int) -> np.ndarray:
    """A view of the result with the row or column axis that a vector operand took away."""
    if a_axes == 1 and b_axes == 1:
        return c.reshape(1, 1)
    if a_axes == 1:
        return c[..., None, :]
    return c[..., None] if b_axes == 1 else c
