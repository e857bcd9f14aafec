"""Any CBLAS on the machine: MKL, BLIS, AOCL, OpenBLAS, oneDNN's sgemm, or a library named by its path.

`cblas:mkl`, `cblas:blis`, `cblas:openblas`, ... for what is found (see `_blas_find`); `cblas:/path/lib.so`
for any other. A second file of one family carries where it came from: `cblas:openblas-system`. The library
that NumPy itself computes with is found again here: it may be named, but `numpy` stands for it when compared.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import _blas_find, numpy_blas
from ._cblas import Cblas, gemm_arguments, gemv_arguments, leading
from ._pinned import PinnedSession, in_force
from .base import Availability, Backend, HostMemory, Problem, Session, SessionInfo, Unavailable, require
from .cpus import check_threads, worth_trying
from .operands import Operands

PREFIX = "cblas:"

LISTED = {
    "mkl": "pip install 'gemm-crossover[peers]'",
    "blis": "install the system package, such as libblis4-openmp (Debian, Ubuntu)",
    "openblas": "pip install 'gemm-crossover[peers]'",
    "onednn": "install the system package, such as libdnnl3 (on Debian 12 libdnnl2)",
}
"""Families that are listed where they are absent too, with the cure."""

OWN_MATH = {"float32": "fp32", "float64": "fp64"}


class BlasLibrary(Backend):
    """gemm and gemv of one CBLAS library, host arrays with unit stride along one axis."""

    device = "cpu"

    def __init__(self, name: str, path: Path | None, *, origin: str = "", same_as: str = "") -> None:
        self.name, self.path, self.origin = name, path, origin
        self.stands_beside = same_as

    @functools.cached_property
    def _bound(self) -> Cblas | Unavailable:
        try:
            if self.path is None:
                raise Unavailable(
                    "no such library among installed packages, in LD_LIBRARY_PATH or known to the loader"
                )
            if not self.path.is_file():
                raise Unavailable(f"there is no file {self.path.name} in the folder named")
            return Cblas(self.path)
        except Unavailable as error:
            return error

    def library(self) -> Cblas:
        """The bound library. Unavailable says why there is none."""
        if isinstance(self._bound, Unavailable):
            raise Unavailable(str(self._bound))
        return self._bound

    def probe(self) -> Availability:
        if isinstance(self._bound, Unavailable):
            return Availability(ok=False, reason=str(self._bound), cure=self._cure())
        return Availability(ok=True, detail=self._detail(self._bound))

    def _cure(self) -> str:
        if self.path is None:
            return LISTED.get(self.name.removeprefix(PREFIX), "")
        return f"name another library: --backend {PREFIX}PATH"

    def _detail(self, found: Cblas) -> dict[str, Any]:
        control = found.control
        detail = {
            "library": found.name,
            "from": self.origin,
            "version": control.version(),
            "integer_bits": found.int_bits,
            "symbols": f"{found.prefix}cblas_sgemm{found.suffix}" if not found.onednn else "dnnl_sgemm",
            "kernels": control.kernels(),
            "threading": control.threading(),
            "threads": control.get(),
        }
        return detail | ({"same_library_as": self.stands_beside} if self.stands_beside else {})

    def supports(self, problem: Problem) -> str | None:
        p = problem
        if p.op not in ("gemm", "gemv"):
            return f"a CBLAS has gemm and gemv, not {p.op}"
        if p.dtype not in OWN_MATH:
            return f"a CBLAS has float32 and float64, not {p.dtype}"
        if p.math != OWN_MATH[p.dtype]:
            return f"a CBLAS computes {p.dtype} in {OWN_MATH[p.dtype]}, not in {p.math}"
        return None if isinstance(self._bound, Unavailable) else _lacks(self._bound, p)

    def takes(self, array: np.ndarray) -> bool:
        """Rows of unit stride at least as far apart as they are long; vectors of any positive step."""
        steps = [step / array.itemsize for step in array.strides]
        if not array.size or any(step != int(step) or step > 2**31 - 1 for step in steps):
            return False
        if array.ndim == 1:
            return steps[0] >= 1
        return array.ndim == 2 and steps[1] == 1 and (array.shape[0] == 1 or steps[0] >= array.shape[1])

    def thread_counts(self, problem: Problem) -> tuple[int, ...]:
        found = self._bound
        return worth_trying() if isinstance(found, Cblas) and found.control.controllable else (1,)

    def open(
        self,
        problem: Problem,
        operands: Operands,
        *,
        host_memory: HostMemory = "pageable",
        devices: tuple[int, ...] = (0,),
        threads: int | None = None,
    ) -> Session:
        """ValueError for a wrong thread count; Unavailable where the library cannot be told how many to use.

        More threads than there can be are capped: `info.threads` says to how many.
        """
        require(self, problem)
        found = self.library()
        if check_threads(threads) not in (None, 1) and not found.control.controllable:
            raise Unavailable(f"{found.name} has no function that sets its thread count: leave threads out")
        return BlasSession(found, problem, operands, threads)

    def compute(self, problem: Problem, operands: Operands) -> None:
        for call in calls_of(self.library(), problem, operands):
            call()


class BlasSession(PinnedSession):
    """Prebound calls of one library."""

    def __init__(self, found: Cblas, problem: Problem, operands: Operands, threads: int | None) -> None:
        control = found.control
        count = in_force(control if control.controllable else None, threads)
        config = {
            "kernels": control.kernels(),
            "threading": control.threading(),
            "integer_bits": found.int_bits,
        }
        info = SessionInfo(
            kernel=f"{found.name} {control.version()}".strip(),
            threads=count or control.get(),
            config={"library": found.name, **config},
        )
        super().__init__(problem, operands, info, control, count)
        self._calls = calls_of(found, problem, operands)
        if len(self._calls) == 1:
            self.run = self._calls[0]  # type: ignore[method-assign]  # one Python frame less per call
        self._empty = control.get
        self._from_c = _peer(found, problem, operands)

    def run(self) -> None:
        for call in self._calls:
            call()

    def run_empty(self) -> None:
        self._empty()

    def run_from_c(self, calls: int) -> float | None:
        return None if self._from_c is None else self._from_c(calls)


def _lacks(found: Cblas, p: Problem) -> str | None:
    """Why the library itself cannot compute `p`; None if it can."""
    table = found.gemm if p.op == "gemm" else found.gemv
    if p.dtype not in table:
        return f"{found.name} has no {p.op} of {p.dtype}"
    if found.int_bits == 32 and max(p.m, p.n, p.k) >= 2**31:
        return f"{found.name} has 32-bit sizes: {max(p.m, p.n, p.k)} is too large"
    return None


def calls_of(found: Cblas, problem: Problem, operands: Operands) -> list[Callable[[], Any]]:
    """What computes `problem`, everything looked up: a call for each product of a batch.

    Without anything to multiply C is scaled here: BLAS's gemv leaves y alone for a matrix without columns.
    """
    p = problem
    a, b, c = operands
    assert b is not None
    inner = p.n if p.op == "gemv" else p.k
    if c.size == 0:
        return [_nothing]
    if inner == 0 or p.alpha == 0:
        return [
            functools.partial(c.fill, 0) if p.beta == 0 else functools.partial(np.multiply, c, p.beta, out=c)
        ]
    scalars = (p.alpha, p.beta)
    if p.op == "gemv":
        return [functools.partial(found.gemv[p.dtype], *gemv_arguments(found, a, b, c, p.trans_a, *scalars))]
    singles = zip(a, b, c, strict=True) if c.ndim == 3 else [(a, b, c)]
    gemm, trans = found.gemm[p.dtype], (p.trans_a, p.trans_b)
    return [functools.partial(gemm, *gemm_arguments(found, single, trans, *scalars)) for single in singles]


def _nothing() -> None:
    """There is no element to compute."""


def _peer(found: Cblas, problem: Problem, operands: Operands) -> Callable[[int], float] | None:
    """Calls timed in C by the project's own library; None where that is absent or nothing is multiplied."""
    from ._native_library import library

    p = problem
    inner = p.n if p.op == "gemv" else p.k
    if operands.c.size == 0 or inner == 0 or p.alpha == 0:
        return None
    try:
        bound = library()
    except Unavailable:
        return None
    call = bound.ffi.new("gemm_peer *", _peer_fields(bound, found, problem, operands))
    seconds = bound.ffi.new("double *")

    def timed(calls: int) -> float:
        if bound.lib.gemm_peer_timed(call, calls, seconds):
            raise ValueError(f"the C library refused to time {found.name} on {p}")
        return seconds[0]

    return timed


def _peer_fields(bound: Any, found: Cblas, p: Problem, operands: Operands) -> dict[str, Any]:
    """The members of `gemm_peer`, cpu/include/gemm.h."""
    lib, ffi = bound.lib, bound.ffi
    op = lib.GEMM_PEER_GEMV if p.op == "gemv" else lib.GEMM_PEER_GEMM
    fields: dict[str, Any] = {
        "function": ffi.cast("void *", found.address(p.op, p.dtype)),
        "op": lib.GEMM_PEER_ONEDNN if found.onednn else op,
        "type": lib.GEMM_F32 if p.dtype == "float32" else lib.GEMM_F64,
        "int_bits": found.int_bits,
        **{"trans_a": p.trans_a, "trans_b": p.trans_b, "alpha": p.alpha, "beta": p.beta, "batch": p.batch},
    }
    m, n = operands.a.shape if p.op == "gemv" else (p.m, p.n)
    fields |= {"m": m, "n": n, "k": p.k}
    for name, array in zip("abc", operands, strict=True):
        assert array is not None
        fields[name] = ffi.cast("void *", array.__array_interface__["data"][0])
        fields[f"ld_{name}"] = leading_dimension(array)
        fields[f"bs_{name}"] = array.strides[0] // array.itemsize if array.ndim == 3 else 0
    return fields


def leading_dimension(array: np.ndarray) -> int:
    """Elements from row to row, or from entry to entry of a gemv's vector."""
    if array.ndim == 1:
        return max(1, array.strides[0] // array.itemsize)
    return leading(array[0] if array.ndim == 3 else array)


@functools.cache
def _numpy_file() -> Path | None:
    """The file of NumPy's own BLAS, links followed."""
    return numpy_blas.library_path()


def _same_as(path: Path) -> str:
    return "numpy" if path.resolve() == _numpy_file() else ""


def load() -> list[Backend]:
    """Called by the registry: what is found, and the families that are missing."""
    found: dict[str, Backend] = {}
    for family, path, origin in _blas_find.find():
        name = PREFIX + family
        for choice in (name, f"{name}-{origin}", *(f"{name}-{origin}-{i}" for i in range(2, 100))):
            if choice not in found:
                found[choice] = BlasLibrary(choice, path, origin=origin, same_as=_same_as(path))
                break
    for family in LISTED:
        found.setdefault(PREFIX + family, BlasLibrary(PREFIX + family, None))
    return list(found.values())


_files: dict[str, Path] = {}
"""Name of a backend made for a path -> its file."""


def _name_of(path: Path) -> str:
    """Its file's name; where another file has that, with as many folders as tell the two apart."""
    for depth in range(1, len(path.parts)):
        name = PREFIX + "/".join(path.parts[-depth:])
        if _files.setdefault(name, path.resolve()) == path.resolve():
            break
    return name


@functools.cache
def by_name(name: str) -> Backend | None:
    """The backend of `cblas:/path/lib.so`, named after its file, a second of that name `cblas:path/lib.so`.

    None for other names.

    ValueError for a path that is not absolute or has no file.
    """
    text = name.removeprefix(PREFIX)
    if text == name or "/" not in text:
        return None
    path = Path(text).expanduser()
    if not path.is_file():
        raise ValueError(f"backend {name!r}: there is no file {text}")
    return BlasLibrary(_name_of(path), path, origin="named", same_as=_same_as(path))
