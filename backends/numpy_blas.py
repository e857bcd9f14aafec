"""NumPy over the BLAS it was built with: the product most people on a CPU already use.

`np.matmul` knows no alpha and beta, so they cost passes over C on top of the product: none for alpha = 1 and
beta = 0, one for another alpha, two for beta = 1 and up to three (through a temporary of C's size) otherwise.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ._pinned import PinnedSession, in_force
from .base import Availability, Backend, HostMemory, Problem, Session, SessionInfo, Unavailable, require
from .cpus import check_threads, worth_trying
from .operands import Operands

BLAS_SYMBOLS = ("cblas_sgemm", "cblas_sgemm64_", "scipy_cblas_sgemm", "scipy_cblas_sgemm64_", "dgesv_")
"""What NumPy's extension modules import from a BLAS, under the names its builds use."""


class _DlInfo(ctypes.Structure):
    _fields_ = [
        ("dli_fname", ctypes.c_char_p),
        ("dli_fbase", ctypes.c_void_p),
        ("dli_sname", ctypes.c_char_p),
        ("dli_saddr", ctypes.c_void_p),
    ]


def library_path() -> Path | None:
    """The file NumPy's own BLAS lies in, asked of the dynamic linker (dladdr); None if unknown."""
    try:
        extension = ctypes.CDLL(np.linalg._umath_linalg.__file__)
        symbol = next(getattr(extension, name) for name in BLAS_SYMBOLS if hasattr(extension, name))
        info = _DlInfo()
        if ctypes.CDLL(None).dladdr(ctypes.cast(symbol, ctypes.c_void_p), ctypes.byref(info)):
            return Path(os.fsdecode(info.dli_fname)).resolve()
    except (OSError, AttributeError, StopIteration):
        pass
    return None


@functools.cache
def _library() -> Any | None:
    """threadpoolctl's controller of NumPy's own BLAS, and of no other that may be loaded; None if unknown."""
    from threadpoolctl import ThreadpoolController

    found = [c for c in ThreadpoolController().lib_controllers if c.user_api == "blas"]
    path = library_path()
    own = [c for c in found if path and Path(c.filepath).resolve() == path]
    if own or len(found) == 1:
        return (own or found)[0]
    return next((c for c in found if "numpy" in c.filepath), None)


class NumpyBackend(Backend):
    """gemm, gemv, vector_add and copy through NumPy, host arrays of any strides."""

    name = "numpy"
    device = "cpu"
    strided = True

    def probe(self) -> Availability:
        library = _library()
        detail: dict[str, Any] = {"numpy": np.__version__, "blas": "unknown"}
        if library is not None:
            info = library.info()
            detail |= {
                "blas": info["internal_api"],
                "version": info["version"],
                "architecture": info.get("architecture"),
                "threading_layer": info.get("threading_layer"),
                "threads": info["num_threads"],
                "library": Path(info["filepath"]).name,
            }
        return Availability(ok=True, detail=detail)

    def supports(self, problem: Problem) -> str | None:
        p = problem
        if p.op in ("vector_add", "copy"):
            return None if p.dtype != "bfloat16" else "NumPy itself has no bfloat16"
        if p.dtype not in ("float32", "float64"):
            return f"NumPy has no {p.dtype} BLAS: its product would be a plain loop; use float32 or float64"
        own = {"float32": "fp32", "float64": "fp64"}[p.dtype]
        return None if p.math == own else f"NumPy computes {p.dtype} in {own}, not in {p.math}"

    def thread_counts(self, problem: Problem) -> tuple[int, ...]:
        controllable = _library() is not None and problem.op in ("gemm", "gemv")
        return worth_trying() if controllable else (1,)

    def open(
        self,
        problem: Problem,
        operands: Operands,
        *,
        host_memory: HostMemory = "pageable",
        devices: tuple[int, ...] = (0,),
        threads: int | None = None,
    ) -> Session:
        """ValueError for a wrong thread count; Unavailable when the BLAS cannot be told how many to use.

        More threads than there can be are capped: `info.threads` says to how many.
        """
        require(self, problem)
        if check_threads(threads) not in (None, 1) and _library() is None:
            raise Unavailable("NumPy's BLAS is not one whose thread count can be set: leave threads out")
        return NumpySession(problem, operands, threads)

    def compute(self, problem: Problem, operands: Operands) -> None:
        _bind(problem, operands)()


class NumpySession(PinnedSession):
    """One prebound NumPy call."""

    def __init__(self, problem: Problem, operands: Operands, threads: int | None) -> None:
        library = _library()
        control = None if library is None else _Pool(library)
        count = in_force(control, threads)
        info = SessionInfo(
            kernel=_kernel_name(),
            threads=count or (None if control is None else control.get()),
            config={"passes_over_c": _passes(problem)},
        )
        super().__init__(problem, operands, info, control, count)
        nothing = np.empty((0, 0), operands.c.dtype)
        self._empty = functools.partial(np.matmul, nothing, nothing, out=nothing)
        self._bound = _bind(problem, operands)
        self.run = self._bound  # type: ignore[method-assign]  # one Python frame less per call

    def run(self) -> None:
        self._bound()

    def run_empty(self) -> None:
        self._empty()


class _Pool:
    """The threads of NumPy's BLAS by threadpoolctl's controller."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def get(self) -> int:
        return int(self._library.num_threads)

    def swap(self, count: int) -> int:
        before = self.get()
        self._library.set_num_threads(count)
        return before


def _kernel_name() -> str:
    library = _library()
    return "matmul" if library is None else f"matmul/{library.internal_api}-{library.version}"


def _passes(problem: Problem) -> int:
    """Passes over C beyond the product itself that alpha and beta cost here."""
    if problem.alpha == 0 or problem.op in ("vector_add", "copy"):
        return 0
    scaling = int(problem.alpha != 1)
    return scaling if problem.beta == 0 else scaling + int(problem.beta != 1) + 1


def _oriented(array: np.ndarray, transposed: bool) -> np.ndarray:
    return array.swapaxes(-1, -2) if transposed else array


def _bind(problem: Problem, operands: Operands) -> Callable[[], Any]:
    """The call that computes `problem`, everything looked up."""
    a, b, c = operands
    if problem.op == "copy":
        return functools.partial(np.copyto, c, a)
    assert b is not None
    if problem.op == "vector_add":
        return functools.partial(np.add, a, b, out=c)
    if problem.alpha == 0:
        return _scaling(c, problem.beta)
    target = c if problem.beta == 0 else np.empty(c.shape, c.dtype)
    product = functools.partial(
        np.matmul, _oriented(a, problem.trans_a), _oriented(b, problem.trans_b), out=target
    )
    steps: list[Callable[[], Any]] = [product]
    if problem.alpha != 1:
        steps.append(functools.partial(np.multiply, target, problem.alpha, out=target))
    if problem.beta != 0:
        if problem.beta != 1:
            steps.append(_scaling(c, problem.beta))
        steps.append(functools.partial(np.add, c, target, out=c))
    return product if len(steps) == 1 else functools.partial(_run_all, tuple(steps))


def _scaling(c: np.ndarray, beta: float) -> Callable[[], Any]:
    """c = beta * c; beta = 0 does not read c."""
    if beta == 0:
        return functools.partial(c.fill, 0)
    return functools.partial(np.multiply, c, beta, out=c)


def _run_all(steps: tuple[Callable[[], Any], ...]) -> None:
    for step in steps:
        step()


def load() -> list[Backend]:
    """Called by the registry."""
    return [NumpyBackend()]
