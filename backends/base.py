"""The contract every way of computing a matrix product fulfils: Problem, Availability, Backend, Session.

To add a backend, write one module in this folder with a function `load() -> list[Backend]` (or name such
a function in the entry-point group `gemm_crossover.backends`), subclass `Backend` and `Session`, and the
contract tests, the command line and every experiment pick it up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from .arithmetic import DEFAULT_MATH, ITEMSIZE, MATHS

if TYPE_CHECKING:
    import numpy as np

    from .operands import Operands

Op = Literal["gemm", "gemv", "vector_add", "copy"]
Transfer = Literal["resident", "once", "always", "overlap", "unified"]
HostMemory = Literal["pageable", "pinned"]

APART: frozenset[Transfer] = frozenset({"overlap", "unified"})
"""Transfer modes that need a session of their own, with its data held elsewhere: see `Backend.open_for`."""


class Unavailable(RuntimeError):
    """A backend, memory kind or device that cannot be used here; the text is the reason."""


class DeviceLost(RuntimeError):
    """The device can do nothing more in this process; `what` says what it was doing, `code` is its error.

    Any call of a session but `close` may raise it. No other session on that device is of use afterwards;
    closing one neither raises nor waits. It ends a run: nobody takes it for the fault of one candidate.
    """

    def __init__(self, code: int, what: str) -> None:
        super().__init__(f"the device is lost ({code}): {what}")
        self.code, self.what = code, what


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to compute, row-major: C = alpha * op(A) @ op(B) + beta * C.

    gemm: op(A) is M x K, op(B) K x N, C M x N (each with a leading `batch` axis when batch > 1).
    gemv: y = alpha * A @ x + beta * y as in BLAS: A is M x N, x has N, y has M entries; k is 1.
    vector_add: c = a + b, and copy: c = a, over n entries; m and k are 1.
    """

    op: Op = "gemm"
    m: int = 1
    n: int = 1
    k: int = 1
    batch: int = 1
    dtype: str = "float32"
    math: str = ""
    alpha: float = 1.0
    beta: float = 0.0
    trans_a: bool = False
    trans_b: bool = False

    def __post_init__(self) -> None:
        if not self.math:
            msgspec.structs.force_setattr(self, "math", DEFAULT_MATH.get(self.dtype, ""))
        check_problem(self)

    @property
    def flops(self) -> int:
        """Floating-point operations: 2MNK per product, N for a vector addition, 0 for a copy."""
        per_entry = {"gemm": 2, "gemv": 2, "vector_add": 1, "copy": 0}[self.op]
        return per_entry * self.batch * self.m * self.n * self.k

    @property
    def bytes_in(self) -> int:
        """Bytes a device must be given: each input once, C only when beta is not 0."""
        sizes = {
            "gemm": self.m * self.k + self.k * self.n,
            "gemv": self.m * self.n + self.n,
            "vector_add": 2 * self.n,
            "copy": self.n,
        }
        reads_c = self.c_entries if self.beta != 0 else 0
        return ITEMSIZE[self.dtype] * self.batch * (sizes[self.op] + reads_c)

    @property
    def c_entries(self) -> int:
        """Entries of one result."""
        return {"gemm": self.m * self.n, "gemv": self.m}.get(self.op, self.n)

    @property
    def bytes_out(self) -> int:
        """Bytes of the result."""
        return ITEMSIZE[self.dtype] * self.batch * self.c_entries

    @property
    def bytes_min(self) -> int:
        """Fewest bytes any implementation moves: each input once, each output once."""
        return self.bytes_in + self.bytes_out

    @property
    def intensity(self) -> float:
        """Arithmetic intensity, FLOP per byte of `bytes_min` (0 for an empty problem)."""
        return self.flops / self.bytes_min if self.bytes_min else 0.0


def check_problem(p: Problem) -> None:
    """ValueError, naming the wrong value and the right kind, unless `p` makes sense."""
    if p.dtype not in ITEMSIZE:
        raise ValueError(f"dtype {p.dtype!r} is unknown: use one of {', '.join(ITEMSIZE)}")
    if p.math not in MATHS:
        raise ValueError(f"math {p.math!r} is unknown: use one of {', '.join(MATHS)}")
    if p.dtype not in MATHS[p.math].storage:
        raise ValueError(f"math {p.math!r} takes {' or '.join(MATHS[p.math].storage)}, not {p.dtype}")
    if min(p.m, p.n, p.k) < 0 or p.batch < 1:
        raise ValueError(f"sizes must be >= 0 and batch >= 1, got {p.m}, {p.n}, {p.k}, batch {p.batch}")
    if p.op != "gemm" and (p.k != 1 or p.batch != 1 or p.trans_b):
        got = f"k = {p.k}, batch = {p.batch}{', trans_b' if p.trans_b else ''}"
        raise ValueError(f"{p.op} has k = 1, batch = 1 and no second transpose, got {got}")
    if p.op in ("vector_add", "copy") and (p.m != 1 or p.beta != 0 or p.alpha != 1 or p.trans_a):
        raise ValueError(f"{p.op} has m = 1, alpha = 1 and beta = 0")


class Availability(msgspec.Struct, frozen=True):
    """Whether a backend can run here; if not, the reason and what the user can do about it."""

    ok: bool
    reason: str = ""
    cure: str = ""
    detail: dict[str, Any] = {}


class SessionInfo(msgspec.Struct, kw_only=True):
    """What a session really runs, for the record. Times in seconds; outside every measured time."""

    kernel: str = ""
    kernel_hash: str = ""
    config: dict[str, Any] = {}
    threads: int | None = None
    compile_s: float | None = None
    alloc_s: float | None = None
    pin_s: float | None = None
    """To pin host memory of its own, such as the stages of `overlap`; None where it pins none."""
    tile: tuple[int, int] | None = None
    flushes_denormals: bool = False


class Backend(ABC):
    """One way of computing. Never prints; every heavy import lives inside `probe` or `open`."""

    name: str
    device: Literal["cpu", "cuda"]
    verified: bool = True
    """False: shown as UNVERIFIED everywhere and no default candidate."""
    stands_beside: str = ""
    """The backend that computes with the very same library: this one is measured only when it is named."""
    transfers: frozenset[str] = frozenset({"resident", "once", "always"})
    """Modes offered at all; `refuses` says which of them it declines for a certain problem."""

    @abstractmethod
    def probe(self) -> Availability:
        """Can it run here? Cheap after the first call; never raises."""

    @abstractmethod
    def supports(self, problem: Problem) -> str | None:
        """None if it computes `problem` in exactly the stated arithmetic, else the reason why not."""

    @abstractmethod
    def open(
        self,
        problem: Problem,
        operands: Operands,
        *,
        host_memory: HostMemory = "pageable",
        devices: tuple[int, ...] = (0,),
        threads: int | None = None,
    ) -> Session:
        """Allocate, compile and bind everything for repeated runs on these very host arrays.

        Unavailable, with the reason of `supports`, for what it does not compute: `require` raises it.
        """

    def refuses(self, problem: Problem, transfer: Transfer, host_memory: HostMemory) -> str | None:
        """None if it offers this mode for `problem`, else the reason why not, with figures where it has any.

        Whoever measures asks this, not `transfers`. Asked for any problem, also where `probe` says no or
        `supports` gives a reason; it opens nothing and never raises.
        """
        offered = transfer in self.transfers
        return None if offered else f"{self.name} does not offer transfer mode {transfer}"

    def open_for(
        self,
        problem: Problem,
        operands: Operands,
        transfer: Transfer,
        *,
        host_memory: HostMemory = "pageable",
        devices: tuple[int, ...] = (0,),
    ) -> Session:
        """As `open`, for one mode of `APART`: a session whose `only` is that mode.

        To be overridden by a backend that names such a mode in `transfers`. Unavailable, with the reason, for
        a mode it refuses or opens by `open`.
        """
        reason = self.refuses(problem, transfer, host_memory)
        raise Unavailable(reason or f"{self.name} has no session for transfer mode {transfer} alone")

    def thread_counts(self, problem: Problem) -> tuple[int, ...]:
        """Thread counts worth trying for `problem`; (1,) where the question has no meaning."""
        return (1,)

    def takes(self, array: np.ndarray) -> bool:
        """Can `compute` and `open` use this 1-d or 2-d array as it lies, if it is not contiguous?"""
        return bool(getattr(self, "strided", False))

    def gemm(self, A: Any, B: Any, *, alpha: float = 1.0, beta: float = 0.0, out: Any = None) -> np.ndarray:
        """alpha * A @ B + beta * out for host arrays of any strides: see `everyday.gemm`."""
        from . import everyday

        return everyday.gemm(self, A, B, alpha=alpha, beta=beta, out=out)

    def gemv(self, A: Any, x: Any, *, alpha: float = 1.0, beta: float = 0.0, out: Any = None) -> np.ndarray:
        """alpha * A @ x + beta * out: see `everyday.gemv`."""
        from . import everyday

        return everyday.gemv(self, A, x, alpha=alpha, beta=beta, out=out)

    def plan(self, A: Any, B: Any, out: Any, *, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """A prepared call: checks once, returns a callable of no arguments that writes `out`."""
        from . import everyday

        return everyday.plan(self, A, B, out, alpha=alpha, beta=beta)

    def compute(self, problem: Problem, operands: Operands) -> None:
        """One whole call on checked 2-d (gemm) or 1-d operands: the hook below the everyday calls."""
        session = self.open(problem, operands)
        try:
            session.enqueue("always")
        finally:
            session.close()


def require(backend: Backend, problem: Problem) -> None:
    """Unavailable, with the backend's own reason, unless it takes `problem` and can run here."""
    reason = backend.supports(problem)
    if reason is not None:
        raise Unavailable(reason)
    there = backend.probe()
    if not there.ok:
        raise Unavailable(there.reason)


class Session(ABC):
    """A problem bound to one backend, ready to be timed. `run` is prebound: no allocation, no parsing."""

    only: Transfer | None = None
    """The one mode that it takes, where `Backend.open_for` made it; its `operands` may then be its own."""
    rearms: frozenset[str] = frozenset()
    """Modes that need `rearm` before every single `enqueue`, also before the first."""

    def __init__(self, problem: Problem, operands: Operands, info: SessionInfo) -> None:
        self.problem, self.operands, self.info = problem, operands, info

    @abstractmethod
    def run(self) -> None:
        """Start one computation; may return before it has ended."""

    def upload(self) -> None:  # noqa: B027 - nothing to do where host memory is device memory
        """Copy A and B (and C when beta is not 0) to the device."""

    def download(self) -> None:  # noqa: B027
        """Copy C to the host."""

    def synchronize(self) -> None:  # noqa: B027
        """Return when everything started has ended."""

    def enqueue(self, transfer: Transfer, reuse: int = 1) -> None:
        """What is timed: the whole of one transfer mode with `reuse` runs, ended by one synchronisation."""
        if transfer == "resident":
            for _ in range(reuse):
                self.run()
        elif transfer == "once":
            self.upload()
            for _ in range(reuse):
                self.run()
            self.download()
        elif transfer == "always":
            for _ in range(reuse):
                self.upload()
                self.run()
                self.download()
        else:
            raise ValueError(f"transfer mode {transfer!r} is not offered by {type(self).__name__}")
        self.synchronize()

    def rearm(self, transfer: Transfer) -> None:  # noqa: B027
        """Untimed, before every call of a mode in `rearms`: put the data back where such a call finds it.

        It is done when it returns: it waits for what it starts. A sample of such a mode is a sum of calls
        timed one by one.
        """

    def run_empty(self) -> None:  # noqa: B027
        """The same call path as `run` with no work in it (an empty kernel, a zero-size call)."""

    def activate(self) -> None:  # noqa: B027
        """Untimed, at each switch of side: put process-wide state (thread limits, device) in force."""

    def quiesce(self) -> None:  # noqa: B027
        """Untimed, when another side's turn comes: park threads, leave nothing running."""

    def observed_threads(self) -> int | None:
        """The thread count really in force, asked of the library; None where it cannot be asked."""
        return self.info.threads

    def parts(self) -> dict[str, float] | None:
        """Diagnostic split in seconds: h2d, launch, kernel, d2h; never summed into a verdict."""
        return None

    def run_from_c(self, calls: int) -> float | None:
        """Seconds for `calls` runs timed inside C, where the backend can; else None."""
        return None

    def run_on_device(self, calls: int) -> float | None:
        """Seconds for `calls` runs one straight after the other, by the device's own clock, where it has one.

        What launching them costs the host is no part of it: throughput, where `enqueue` gives latency.
        """
        return None

    def close(self) -> None:  # noqa: B027
        """Free everything. Called once; the session is not used after it. On a lost device: forget it all."""
