"""cuBLAS, with the compute type stated: float32 is computed in float32, never in TF32 unless asked for.

Library calls go through ctypes with their arguments converted once; handle and stream are set at open.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from ctypes import byref, c_double, c_float, c_int, c_int64, c_longlong, c_void_p
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from . import _cuda_compile as compiling
from . import _cuda_probe as probing
from ._cuda_launch import extents, places
from ._cuda_session import Bound, CudaSession
from .base import Availability, Backend, HostMemory, Problem, SessionInfo, Unavailable, require
from .cuda_kernels import open_device
from .operands import Operands

_LARGEST_INT = 2**31 - 1
_DEFAULT_MATH, _NO_REDUCED_SUMS = 0, 16
_GEMM_DEFAULT = -1
_STATUS = {
    1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH", 11: "MAPPING_ERROR",
    13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED", 16: "LICENSE_ERROR",
}  # fmt: skip


class Compute(NamedTuple):
    """How cuBLAS is asked for an arithmetic: enumerators of library_types.h and cublas_api.h."""

    data: int
    """cudaDataType_t of A, B and C."""
    name: str
    compute: int
    """cublasComputeType_t."""
    scale: int
    """cudaDataType_t of alpha and beta."""
    scalar: type[c_float] | type[c_double]


COMPUTE = {
    ("float64", "fp64"): Compute(1, "CUBLAS_COMPUTE_64F", 70, 1, c_double),
    ("float32", "fp32"): Compute(0, "CUBLAS_COMPUTE_32F", 68, 0, c_float),
    ("float32", "tf32"): Compute(0, "CUBLAS_COMPUTE_32F_FAST_TF32", 77, 0, c_float),
    ("float16", "fp16"): Compute(2, "CUBLAS_COMPUTE_32F", 68, 0, c_float),
    ("bfloat16", "bf16"): Compute(14, "CUBLAS_COMPUTE_32F", 68, 0, c_float),
}
"""(dtype, math) -> compute type. Half precision sums in float32, also across the parts of a split K."""

_SWITCHES = {
    ("NVIDIA_TF32_OVERRIDE", "0"): ("tf32", "turns TF32 off"),
    ("NVIDIA_TF32_OVERRIDE", "1"): ("fp32", "puts TF32 in place of float32"),
    ("CUBLAS_EMULATE_SINGLE_PRECISION", "1"): ("fp32", "lets cuBLAS emulate float32"),
    ("CUBLAS_EMULATE_DOUBLE_PRECISION", "1"): ("fp64", "lets cuBLAS emulate float64"),
}


class CublasError(RuntimeError):
    """A cuBLAS call that failed."""


def library_paths() -> list[str]:
    """Where libcublas may be, in CuPy's order: NVIDIA's wheels, as the loader finds it, the toolkit."""
    major = compiling.version()[0]
    name = f"libcublas.so.{major}"
    wheel = "nvidia/cublas/lib" if major == 12 else f"nvidia/cu{major}/lib"
    bases = {folder.parents[2] for folder in compiling.wheel_dirs(major)}
    wheels = [base / wheel / name for base in sorted(bases)]
    toolkit = [compiling.toolkit() / folder / name for folder in ("lib64", "lib")]
    return [*_existing(wheels), name, *_existing(toolkit)]


def _existing(paths: list[Path]) -> list[str]:
    return [str(path) for path in paths if path.is_file()]


@functools.cache
def library() -> ctypes.CDLL:
    """libcublas, loaded once. Unavailable with the remedy if it is nowhere."""
    for path in library_paths():
        try:
            blas_lt = Path(path).with_name(Path(path).name.replace("cublas", "cublasLt"))
            if blas_lt.is_file():  # the loader does not look beside a library named by its path
                ctypes.CDLL(str(blas_lt), mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(path)
        except OSError:
            continue
    major = compiling.version()[0]
    raise Unavailable(f"libcublas.so.{major} not found: pip install 'gemm-crossover[cuda{major}]'")


def check(call: str, status: int) -> None:
    """Raise for any status but success."""
    if status:
        raise explain(call, status)


def explain(call: str, status: int) -> CublasError:
    """The error a status stands for."""
    return CublasError(f"{call}: CUBLAS_STATUS_{_STATUS.get(status, 'UNKNOWN')} ({status})")


class Handle:
    """A cuBLAS context on one device. Costs milliseconds, so a closed session leaves its own for the next."""

    _idle: dict[int, list[Handle]] = {}

    def __init__(self) -> None:
        self.lib, value = library(), c_void_p()
        check("cublasCreate", self.lib.cublasCreate_v2(byref(value)))
        self.value = c_void_p(value.value)

    @classmethod
    def take(cls, ordinal: int) -> Handle:
        """A handle for the current device `ordinal`."""
        idle = cls._idle.setdefault(ordinal, [])
        return idle.pop() if idle else cls()

    def give_back(self, ordinal: int) -> None:
        """Keep it for the next session."""
        self._idle.setdefault(ordinal, []).append(self)

    def prepare(self, stream: int, math: str) -> None:
        """Use `stream`, and an arithmetic that is never less than the compute type says."""
        mode = _DEFAULT_MATH | (_NO_REDUCED_SUMS if math in ("fp16", "bf16") else 0)
        check("cublasSetMathMode", self.lib.cublasSetMathMode(self.value, c_int(mode)))
        check("cublasSetStream", self.lib.cublasSetStream_v2(self.value, c_void_p(stream)))

    def version(self) -> str:
        """Library version, "13.1.0"."""
        number = c_int()
        check("cublasGetVersion", self.lib.cublasGetVersion_v2(self.value, byref(number)))
        return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"


class Call(NamedTuple):
    """A cuBLAS function and its arguments after the handle, already in C's types."""

    name: str
    arguments: tuple[Any, ...]


def _wide(p: Problem) -> bool:
    """True if a size, leading dimension or batch needs the 64-bit interface."""
    return max(p.m, p.n, p.k, p.batch) > _LARGEST_INT


def gemm_call(p: Problem, addresses: tuple[int, int, int], alpha: c_void_p, beta: c_void_p) -> Call:
    """C = alpha A B + beta C, row-major, as cublasGemmEx (or its batched and 64-bit forms).

    cuBLAS is column-major, where a row-major matrix reads as its transpose. This is the one place that
    says so: it computes C' = B' A', which means B goes first, A second, m and n change places, and nothing
    is moved. gemv is a product with one column.
    """
    how, integer = COMPUTE[p.dtype, p.math], (c_int64 if _wide(p) else c_int)
    m, n, k = extents(p)
    a, b, c = places(p, addresses)
    sizes = (integer(n), integer(m), integer(k))
    operands: list[Any] = []
    for place in (b, a, c):
        operands += [c_void_p(place.address), c_int(how.data), integer(max(1, place.ld))]
        operands += [c_longlong(place.batch_stride)] if p.batch > 1 else []
    per = len(operands) // 3
    inputs, output = operands[: 2 * per], operands[2 * per :]
    batch = [integer(p.batch)] if p.batch > 1 else []
    name = ("cublasGemmStridedBatchedEx" if p.batch > 1 else "cublasGemmEx") + ("_64" if _wide(p) else "")
    transposes = (c_int(p.trans_b), c_int(p.trans_a))
    kinds = (*batch, c_int(how.compute), c_int(_GEMM_DEFAULT))
    return Call(name, (*transposes, *sizes, alpha, *inputs, beta, *output, *kinds))


def gemv_call(p: Problem, addresses: tuple[int, int, int], alpha: c_void_p, beta: c_void_p) -> Call:
    """y = alpha A x + beta y by cublas<S,D>gemv, which reads the stored A as its transpose: `gemm_call`."""
    integer, letter = (c_int64 if _wide(p) else c_int), {"float64": "D", "float32": "S"}[p.dtype]
    rows, columns = (p.m, p.n) if p.trans_a else (p.n, p.m)
    a, x, y = map(c_void_p, addresses)
    shape = (c_int(not p.trans_a), integer(rows), integer(columns))
    name = f"cublas{letter}gemv" + ("_v2_64" if _wide(p) else "_v2")
    one = integer(1)
    return Call(name, (*shape, alpha, a, integer(max(1, rows)), x, one, beta, y, one))


def scale_call(p: Problem, c: int, beta: c_void_p) -> Call:
    """C = beta C, what is left of a product with k = 0 or alpha = 0."""
    how, count = COMPUTE[p.dtype, p.math], p.batch * p.c_entries
    wide = count > _LARGEST_INT
    integer = c_int64 if wide else c_int
    kinds = (c_int(how.scale), c_void_p(c), c_int(how.data), integer(1), c_int(how.scale))
    return Call("cublasScalEx" + ("_64" if wide else ""), (integer(count), beta, *kinds))


class Cublas(Backend):
    """NVIDIA's library, the GPU's usual best."""

    name = "cublas"
    device: Literal["cpu", "cuda"] = "cuda"
    strided = False

    def probe(self) -> Availability:
        found = probing.probe()
        if not found.ok:
            return found
        try:
            library()
        except Exception as error:  # a broken library is a reason, never a crash
            reason, _, cure = str(error).partition(": ")
            return Availability(ok=False, reason=reason, cure=cure, detail=found.detail)
        return found

    def supports(self, problem: Problem) -> str | None:
        if problem.op not in ("gemm", "gemv"):
            return f"cuBLAS has no {problem.op}"
        if (problem.dtype, problem.math) not in COMPUTE:
            offered = ", ".join(f"{dtype} in {math}" for dtype, math in COMPUTE)
            return f"cublas computes {offered}, not {problem.dtype} in {problem.math}"
        for (variable, value), (math, effect) in _SWITCHES.items():
            if problem.math == math and os.environ.get(variable) == value:
                return f"{variable}={value} {effect}: unset it to get {math}"
        return None

    def open(
        self,
        problem: Problem,
        operands: Operands,
        *,
        host_memory: HostMemory = "pageable",
        devices: tuple[int, ...] = (0,),
        threads: int | None = None,
    ) -> CudaSession:
        require(self, problem)
        info = SessionInfo(kernel="cublas", config={"host_memory": host_memory})
        return CudaSession(problem, operands, info, open_device(devices), _bind)


def _bind(session: CudaSession) -> Bound:
    p, ordinal = session.problem, session.device.ordinal
    handle = Handle.take(ordinal)
    handle.prepare(session.stream, p.math)
    how = COMPUTE[p.dtype, p.math]
    scalars = how.scalar(p.alpha), how.scalar(p.beta)
    alpha, beta = (c_void_p(ctypes.addressof(s)) for s in scalars)
    call = _product(p, session.addresses, alpha, beta)
    run = _work(session, handle, call, beta)
    empty = _prepared(handle, _empty(p, session.addresses, alpha, beta))
    version = handle.version()
    session.info.kernel, session.info.kernel_hash = call.name, f"cublas-{version}"
    session.info.config.update(library=f"cuBLAS {version}", compute=how.name)
    keep = (scalars, handle)
    return Bound(run, empty, functools.partial(explain, call.name), lambda: handle.give_back(ordinal), keep)


def _product(p: Problem, addresses: tuple[int, int, int], alpha: c_void_p, beta: c_void_p) -> Call:
    own = p.op == "gemv" and p.math in ("fp32", "fp64")
    return (gemv_call if own else gemm_call)(p, addresses, alpha, beta)


def _empty(p: Problem, addresses: tuple[int, int, int], alpha: c_void_p, beta: c_void_p) -> Call:
    """The same call for a product of no rows: it parses its arguments and returns."""
    return _product(msgspec.structs.replace(p, m=0), addresses, alpha, beta)


def _work(session: CudaSession, handle: Handle, call: Call, beta: c_void_p) -> Callable[[], Any]:
    """What a run does: the product, or what BLAS leaves of it when nothing is to be multiplied."""
    p, c = session.problem, session.operands.c
    _, _, k = extents(p)
    if c.nbytes == 0 or (k == 0 and p.beta == 1):
        return _nothing
    if k:
        return _prepared(handle, call)
    if p.beta == 0:
        return session.device.driver.zero(session.addresses[2], c.nbytes, session.stream)
    return _prepared(handle, scale_call(p, session.addresses[2], beta))


def _nothing() -> int:
    return 0


def _prepared(handle: Handle, call: Call) -> Callable[[], int]:
    try:
        function = handle.lib[call.name]
    except AttributeError as error:
        raise Unavailable(f"this cuBLAS has no {call.name}, which sizes beyond 2^31 need") from error
    return functools.partial(function, handle.value, *call.arguments)


def load() -> list[Backend]:
    """One backend; the library is looked for only when it is probed or opened."""
    return [Cublas()]
