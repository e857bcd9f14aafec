"""The project's own C library in `cpu/`: gemm and gemv in float32 and float64, host arrays of any strides."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ._native_arrays import quick_product
from ._native_library import Library, library
from .base import Availability, Backend, HostMemory, Problem, Session, SessionInfo, Unavailable, require
from .cpus import check_threads, worth_trying
from .operands import Operands

MATH = {"float32": "fp32", "float64": "fp64"}
C_TYPE = {"float32": "float *", "float64": "double *"}
NO_MEMORY, NOT_PLAIN = 1, 3
ONE, ZERO = 1.0, 0.0  # the very objects that stand for "not given"


def threads_set(threads: int) -> int:
    """Set the thread count of the whole process; returns the count in force, capped at what is allowed.

    ValueError for zero, negative and fractional counts; Unavailable without the library.
    """
    count = check_threads(threads)
    if count is None:
        raise ValueError("threads must be a whole number >= 1, got None")
    return library().lib.gemm_threads_set(min(count, 2**31 - 1))


def threads_used() -> int:
    """Threads that the last product computed by this Python thread really ran on."""
    return library().lib.gemm_threads_used()


class NativeBackend(Backend):
    """gemm and gemv through `gemm.h`; takes views of any strides as they lie."""

    name = "native"
    device = "cpu"
    strided = True

    def __init__(self) -> None:
        self._quick: Callable[[int, int, int], int] = _not_loaded

    def probe(self) -> Availability:
        try:
            return Availability(ok=True, detail=_detail(library()))
        except Unavailable as error:
            return Availability(ok=False, reason=str(error), cure=getattr(error, "cure", ""))

    def supports(self, problem: Problem) -> str | None:
        if problem.op not in ("gemm", "gemv"):
            return f"the C library has gemm and gemv, not {problem.op}"
        if problem.dtype not in MATH:
            return f"the C library has float32 and float64, not {problem.dtype}"
        own = MATH[problem.dtype]
        return None if problem.math == own else f"{problem.dtype} is computed in {own}, not in {problem.math}"

    def thread_counts(self, problem: Problem) -> tuple[int, ...]:
        return worth_trying(library().lib.gemm_threads_max())

    def open(
        self,
        problem: Problem,
        operands: Operands,
        *,
        host_memory: HostMemory = "pageable",
        devices: tuple[int, ...] = (0,),
        threads: int | None = None,
    ) -> Session:
        """ValueError for a wrong thread count; more threads than allowed are capped, see `info.threads`."""
        require(self, problem)
        return NativeSession(problem, operands, check_threads(threads))

    def gemm(self, A: Any, B: Any, *, alpha: float = ONE, beta: float = ZERO, out: Any = None) -> np.ndarray:
        """`everyday.gemm`; C = A B on plain arrays needs no more than one call into the library."""
        if alpha is ONE and beta is ZERO:
            room: Any = _room(A, B) if out is None else out
            status = self._quick(id(A), id(B), id(room))
            if not status:
                return room
            if status != NOT_PLAIN:
                _check(status)
        return super().gemm(A, B, alpha=alpha, beta=beta, out=out)

    def compute(self, problem: Problem, operands: Operands) -> None:
        a, b, c = operands
        assert b is not None
        bound = library()
        if self._quick is _not_loaded:
            self._quick = quick_product(bound.ffi, bound.lib) or _not_plain
        pointer = functools.partial(_pointer, bound.ffi, C_TYPE[problem.dtype])
        p = problem
        if p.op == "gemm":
            gemm = bound.lib.gemm_f32 if p.dtype == "float32" else bound.lib.gemm_f64
            status = gemm(
                *(p.m, p.n, p.k, p.alpha, pointer(a), *_steps(a, p.trans_a)),
                *(pointer(b), *_steps(b, p.trans_b), p.beta, pointer(c), *_steps(c)),
            )
        else:
            gemv = bound.lib.gemv_f32 if p.dtype == "float32" else bound.lib.gemv_f64
            status = gemv(
                *(p.m, p.n, p.alpha, pointer(a), *_steps(a, p.trans_a)),
                *(pointer(b), *_steps(b), p.beta, pointer(c), *_steps(c)),
            )
        _check(status)


class NativeSession(Session):
    """One prepared `gemm_call`: a run is one C call with one pointer."""

    def __init__(self, problem: Problem, operands: Operands, threads: int | None) -> None:
        self._bound = library()
        lib = self._bound.lib
        in_force = min(threads, lib.gemm_threads_max()) if threads else lib.gemm_threads_get()
        super().__init__(problem, operands, _info(self._bound, problem, in_force))
        self._threads = in_force if threads else None
        self._before: int | None = None
        self._call = _prepare(self._bound, problem, operands)
        self._run, self._run_empty = lib.gemm_run, lib.gemm_run_empty

    def run(self) -> None:
        if self._run(self._call):
            _check(NO_MEMORY)

    def run_empty(self) -> None:
        self._run_empty(self._call)

    def run_from_c(self, calls: int) -> float:
        seconds = self._bound.ffi.new("double *")
        _check(self._bound.lib.gemm_run_timed(self._call, calls, seconds))
        return seconds[0]

    def activate(self) -> None:
        if self._threads is not None:
            self._before = self._before or self._bound.lib.gemm_threads_get()
            self._bound.lib.gemm_threads_set(self._threads)

    def quiesce(self) -> None:
        if self._before is not None:
            self._bound.lib.gemm_threads_set(self._before)
            self._before = None
        self._bound.lib.gemm_threads_park()

    def observed_threads(self) -> int:
        """Threads of the last run; 1 for a product too small to share."""
        return self._bound.lib.gemm_threads_used()

    def close(self) -> None:
        self.quiesce()


def _not_loaded(*_: int) -> int:
    return NOT_PLAIN


def _not_plain(*_: int) -> int:
    return NOT_PLAIN


def _room(A: Any, B: Any) -> np.ndarray | None:
    """A new array for the product of two matrices; None where the arguments are, or fit, anything else."""
    if type(A) is not np.ndarray or type(B) is not np.ndarray or A.ndim != 2 or B.ndim != 2:
        return None
    fit = A.shape[1] == B.shape[0] and A.dtype is B.dtype
    return np.empty((A.shape[0], B.shape[1]), A.dtype) if fit else None


def _check(status: int) -> None:
    if status == NO_MEMORY:
        raise MemoryError("no memory for the packed panels of this product")
    if status:
        raise ValueError(f"the C library refused the call (status {status})")


def _pointer(ffi: Any, ctype: str, array: np.ndarray) -> Any:
    """The address of element (0, 0); `from_buffer` is the quick way but takes contiguous arrays only."""
    if array.flags.c_contiguous:
        return ffi.from_buffer(ctype, array)
    return ffi.cast(ctype, array.__array_interface__["data"][0])


def _steps(array: np.ndarray, transposed: bool = False) -> tuple[int, ...]:
    """Strides of the last two axes in elements, in the order of the transposed view if asked."""
    steps = tuple(step // array.itemsize for step in array.strides[-2:])
    return steps[::-1] if transposed else steps


def _prepare(bound: Library, problem: Problem, operands: Operands) -> Any:
    """The filled `gemm_call`; a gemv is the product of A with a matrix of one column."""
    p, ffi = problem, bound.ffi
    a, b, c = operands
    assert b is not None
    if p.op == "gemv":
        sizes, b, c = (p.m, 1, p.n), b[:, None], c[:, None]
    else:
        sizes = (p.m, p.n, p.k)
    fields: dict[str, Any] = {"type": bound.lib.GEMM_F32 if p.dtype == "float32" else bound.lib.GEMM_F64}
    fields |= dict(zip("mnk", sizes, strict=True), batch=p.batch, alpha=p.alpha, beta=p.beta)
    for name, array, transposed in (("a", a, p.trans_a), ("b", b, p.trans_b), ("c", c, False)):
        fields[name] = ffi.cast("void *", array.__array_interface__["data"][0])
        fields[f"rs_{name}"], fields[f"cs_{name}"] = _steps(array, transposed)
        fields[f"bs_{name}"] = array.strides[0] // array.itemsize if p.batch > 1 else 0
    return ffi.new("gemm_call *", fields)


def _info(bound: Library, problem: Problem, threads: int) -> SessionInfo:
    kind = bound.lib.GEMM_F32 if problem.dtype == "float32" else bound.lib.GEMM_F64
    config = {"isa": bound.text(bound.lib.gemm_isa()), "call": bound.mode, **_blocks(bound, kind)}
    return SessionInfo(
        kernel=bound.text(bound.lib.gemm_kernel(kind)),
        kernel_hash=bound.text(bound.lib.gemm_source_hash()),
        config=config,
        threads=threads,
    )


def _blocks(bound: Library, kind: int) -> dict[str, int]:
    blocks = bound.ffi.new("ptrdiff_t[3]")
    bound.lib.gemm_blocks(kind, blocks)
    return dict(zip(("mc", "kc", "nc"), blocks, strict=True))


def _detail(bound: Library) -> dict[str, Any]:
    lib, text = bound.lib, bound.text
    return {
        "isa": text(lib.gemm_isa()),
        "isa_usable": text(lib.gemm_isa_usable()).split(),
        "isa_compiled": text(lib.gemm_isa_compiled()).split(),
        "kernels": [text(lib.gemm_kernel(kind)) for kind in (lib.GEMM_F32, lib.GEMM_F64)],
        "blocks_float32": _blocks(bound, lib.GEMM_F32),
        "blocks_float64": _blocks(bound, lib.GEMM_F64),
        "threads": lib.gemm_threads_get(),
        "threads_max": lib.gemm_threads_max(),
        "binding": bound.mode,
        "source_hash": text(lib.gemm_source_hash()),
        "warnings": text(lib.gemm_warnings()).strip(),
    }


def load() -> list[Backend]:
    """Called by the registry."""
    return [NativeBackend()]
