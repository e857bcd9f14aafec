"""What a comparison was asked to do: checked once, recorded with the run, turned into sweeps and backends."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

import backends
from backends.arithmetic import DEFAULT_MATH, MATHS
from backends.base import Backend, HostMemory, Problem

from . import harness_memory, plan
from .exits import Exit, Stop
from .search import Grid, expected_sizes, expected_visits

DEFAULT_SIZES = {"gemm": "16:4096:x2", "gemv": "64:8192:x2"}


class Sweep(msgspec.Struct, frozen=True):
    """One search over sizes: every transfer mode is measured at each of them."""

    dtype: str
    math: str
    host_memory: HostMemory


class Asked(NamedTuple):
    """One row asked of every size. threads: the count the CPU side is held to; None is its best."""

    transfer: str
    reuse: int
    threads: int | None = None

    @property
    def text(self) -> str:
        """`once x10`, `always, 8 threads`: numbers only where they have a meaning."""
        runs = f" x{self.reuse}" if self.transfer == "once" else ""
        count = f", {self.threads} thread{'s' if self.threads > 1 else ''}" if self.threads else ""
        return f"{self.transfer}{runs}{count}"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The question of one `crossover` call. `maths` empty: the arithmetic of each dtype itself.

    resolution: the search ends at a band this narrow (0.02: 2 %). batches: counts of products, where they
    are what is searched over; else `batch` holds. map_over: the two free dimensions of a map. thread_axis:
    thread counts, `half` or `all`, each of which is a row of its own; else `threads` holds.
    """

    op: str = "gemm"
    shape: str = "square"
    sizes: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ("float32",)
    maths: tuple[str, ...] = ()
    batch: int = 1
    transfers: tuple[str, ...] = ("resident", "once", "always")
    reuse: tuple[int, ...] = (10,)
    host_memory: tuple[HostMemory, ...] = ("pageable",)
    backends: tuple[str, ...] = ()
    threads: int | None = None
    time_budget_s: float = 60.0
    seed: int = 0
    resolution: float = 0.02
    batches: tuple[int, ...] = ()
    map_over: tuple[str, ...] = ()
    thread_axis: tuple[int | str, ...] = ()

    @property
    def questions(self) -> list[Asked]:
        """The rows asked of every size, in the order in which verdicts are given."""
        return [Asked(transfer, reuse) for transfer, reuse in self.modes]

    @property
    def modes(self) -> list[tuple[str, int]]:
        """(transfer, reuse), each once, of all rows: what is measured; reuse counts belong to `once`."""
        return [
            (transfer, runs)
            for transfer in self.transfers
            for runs in (self.reuse if transfer == "once" else (1,))
        ]

    @property
    def sweeps(self) -> list[Sweep]:
        """One for each arithmetic and kind of host memory."""
        pairs = [(dtype, math) for dtype in self.dtypes for math in self._maths_of(dtype)]
        return [Sweep(dtype, math, memory) for memory in self.host_memory for dtype, math in pairs]

    @property
    def grid(self) -> Grid:
        """The sizes: a coarse sweep that the search refines."""
        return Grid(coarse=self.sizes, resolution=self.resolution, limit=max(64, 2 * len(self.sizes)))

    @property
    def groups_expected(self) -> int:
        """How many comparison groups a run will about measure."""
        return len(self.sweeps) * expected_sizes(self.grid, min(3, len(self.modes)))

    @property
    def visits_expected(self) -> int:
        """How many visits to groups one sweep will about make: near a crossover each gets several."""
        return expected_visits(self.grid, min(3, len(self.modes)))

    def _maths_of(self, dtype: str) -> list[str]:
        return (
            [math for math in self.maths if dtype in MATHS[math].storage]
            if self.maths
            else [DEFAULT_MATH[dtype]]
        )

    def problem(self, sweep: Sweep, size: int) -> Problem:
        """The problem of this request at `size`."""
        shape = plan.family(self.shape, self.op)
        return plan.problem_at(self.op, shape, size, sweep.dtype, sweep.math, batch=self.batch)

    def options(self) -> dict[str, Any]:
        """The request as it stands in the record, after a round through JSON so that it compares equal."""
        return dict(msgspec.json.decode(msgspec.json.encode(self)))

    def key(self) -> str:
        """Names the question, whatever time it may take: the same request has the same journal."""
        text = msgspec.json.encode(msgspec.structs.replace(self, time_budget_s=0.0))
        return hashlib.sha256(text).hexdigest()[:12]


def checked(request: Request, point: Sequence[int | None] = (None, None, None)) -> Request:
    """The request with its shape and sizes settled. Stop (usage) names what does not go together."""
    try:
        settled = _sized(request, point)
        for dtype in settled.dtypes:
            _check_math(settled, dtype)
        for sweep in settled.sweeps:
            settled.problem(sweep, settled.sizes[0])
            _check_memory(settled.problem(sweep, settled.sizes[-1]))
    except ValueError as error:
        raise Stop(str(error), Exit.USAGE) from None
    return settled


def _sized(request: Request, point: Sequence[int | None]) -> Request:
    m, n, k = point
    needed = {"gemm": {"-m": m, "-n": n, "-k": k}, "gemv": {"-m": m, "-n": n}}[request.op]
    given = [value for value in point if value is not None]
    if request.op == "gemv" and k is not None:
        raise ValueError(f"-k {k}: gemv multiplies an M by N matrix with a vector; give -m and -n only")
    if given:
        missing = [name for name, value in needed.items() if value is None]
        if missing:
            raise ValueError(
                f"{', '.join(missing)} missing for a point: or fix one dimension by --shape 'M=N,K=32'"
            )
        if request.sizes:
            raise ValueError("a point (-m, -n, -k) has no --sizes: give one or the other")
        if request.shape != Request().shape:
            raise ValueError(f"a point (-m, -n, -k) has no --shape {request.shape!r}: give one or the other")
        text = ",".join(f"{name[1:].upper()}={value}" for name, value in needed.items())
        return msgspec.structs.replace(request, shape=text, sizes=(max(given),))
    return _ranged(request)


def _ranged(request: Request) -> Request:
    from .shapes import parse_sizes

    shape = plan.family(request.shape, request.op)
    dims = (shape.m, shape.n, shape.k) if request.op == "gemm" else (shape.m, shape.n)
    if all(dim.fixed for dim in dims):
        if request.sizes:
            raise ValueError(f"shape {request.shape!r} is one point, which has no --sizes")
        return msgspec.structs.replace(request, sizes=(max(dim.fixed for dim in dims),))
    return msgspec.structs.replace(request, sizes=request.sizes or parse_sizes(DEFAULT_SIZES[request.op]))


def _check_math(request: Request, dtype: str) -> None:
    if not request._maths_of(dtype):
        fitting = [math for math, known in MATHS.items() if dtype in known.storage]
        raise ValueError(
            f"math {', '.join(request.maths)} does not compute {dtype}: "
            f"use {', '.join(fitting)}, or another --dtype"
        )
    for math in request.maths:
        if not set(MATHS[math].storage) & set(request.dtypes):
            raise ValueError(f"math {math!r} takes {' or '.join(MATHS[math].storage)}: add that to --dtype")


def _check_memory(problem: Problem) -> None:
    free = harness_memory.available_bytes()
    reason = harness_memory.too_large(problem, True, free, plan.cpu_problem(problem))
    if reason:
        sizes = (
            f"{problem.m} x {problem.n} x {problem.k}"
            if problem.op == "gemm"
            else f"{problem.m} x {problem.n}"
        )
        raise ValueError(
            f"{problem.op} {problem.dtype} {sizes} does not fit: {reason}; ask for smaller sizes"
        )


def gpu_reason(found: Sequence[Backend] | None = None) -> str:
    """Empty when some GPU backend can run here, else why none can."""
    states = [b.probe() for b in (backends.all_backends() if found is None else found) if b.device == "cuda"]
    if any(state.ok for state in states):
        return ""
    return states[0].reason if states else "no GPU backend is installed"


def named(names: Sequence[str]) -> list[Backend]:
    """The backends of these names; `cuda` means every `cuda:...`.

    Stop: usage for an unknown name, NO_GPU for a GPU backend that cannot run, ERROR for a CPU one.
    """
    return [backend for name in names for backend in _named(name)]


def _named(name: str) -> list[Backend]:
    known = backends.all_backends()
    found = [b for b in known if b.name == name or b.name.startswith(f"{name}:")] or _made(name)
    if not found:
        raise Stop(f"backend {name!r} is unknown: `list` names the {len(known)} there are", Exit.USAGE)
    states = {b.name: b.probe() for b in found}
    ready = [b for b in found if states[b.name].ok]
    if not ready:
        state = states[found[0].name]
        code = Exit.NO_GPU if found[0].device == "cuda" else Exit.ERROR
        raise Stop(
            f"backend {name!r} cannot run here: {state.reason}{'; ' if state.cure else ''}{state.cure}", code
        )
    return ready


def _made(name: str) -> list[Backend]:
    """A backend that is not listed: a library named by its path."""
    try:
        return [backends.get(name)]
    except KeyError:
        return []
    except ValueError as error:
        raise Stop(str(error), Exit.USAGE) from None


def candidates(problem: Problem, chosen: Sequence[Backend]) -> list[Backend]:
    """Who is measured: on each side those chosen, or, where none is, every usable one for its problem."""
    found: list[Backend] = []
    for device, its in (("cpu", plan.cpu_problem(problem)), ("cuda", problem)):
        side = [backend for backend in chosen if backend.device == device]
        found += side or backends.usable(its, device)
    return found
