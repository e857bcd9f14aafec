"""What a process of `peers` does in a round of a group: check its libraries, visit each, measure the roof.

Each round opens the group anew and checks every result again: a call beside the 70 ms of a visit.
"""

from __future__ import annotations

import functools
import mmap
import os
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

import backends
from backends.base import Backend, Problem, Session
from backends.cpus import allowed_cpus, wait_until_quiet
from backends.operands import Operands, shapes

from .peers_check import Reference
from .peers_plan import Group, Turn, class_of, operand_elements
from .peers_timing import LONG_S, TimedCalls, python_calls, visit
from .record import Cell, GateResult

OURS, NUMPY = "native", "numpy"
BLOCK = 1_000_003
"""Random numbers that fill the operands again and again; a prime, so that no row repeats another."""

WARM_SIZE = 384
CPU_TOLERANCE = 0.2
"""CPUs that a library may use beyond its threads: clocks are read a moment apart. The kernel counts time in
ticks of up to 4 ms a thread: 16 threads seem to keep 16 to 19 CPUs busy."""

FMA_S, READ_S, LARGE_READ_S = 0.003, 0.005, 0.08
"""The roof is measured after every visit, and the best of a round counts: a disturbance can only lower it."""

LARGE_BYTES = 1 << 28


class Setup(msgspec.Struct, frozen=True):
    """What the worker is told first. Elements: of the largest A, B and C."""

    dtype: str
    libraries: tuple[str, ...]
    elements: tuple[int, int, int]
    seed: int = 0


def arena(elements: int, dtype: str) -> np.ndarray:
    """Memory of its own, page-aligned, in large pages where the system gives them."""
    size = max(1, elements) * np.dtype(dtype).itemsize
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=dtype)


def fill(array: np.ndarray, seed: int) -> None:
    """Uniform in [-0.5, 0.5) with full mantissas."""
    block = (np.random.default_rng(seed).random(min(BLOCK, array.size)) - 0.5).astype(array.dtype)
    for start in range(0, array.size, BLOCK):
        part = array[start : start + BLOCK]
        part[...] = block[: part.size]


class Bench:
    """One child: the libraries it holds, and the operands."""

    def __init__(
        self, setup: Setup, memory: Sequence[np.ndarray], names: Sequence[str], together: bool
    ) -> None:
        self.setup, self.names, self.together = setup, names, together
        self.memory = [*memory, arena(setup.elements[2], setup.dtype)]
        self.known: dict[Problem, tuple[Operands, Reference]] = {}
        self.awake: set[tuple[str, int]] = set()
        states = [(backend, backend.probe()) for backend in map(backends.get, names)]
        self.usable = [backend for backend, state in states if state.ok]
        self.absent = [f"{b.name} cannot run so: {state.reason}" for b, state in states if not state.ok]

    def measure(self, turn: Turn) -> list[Cell]:
        """Check and visit the libraries asked for; the cells of this round, the roof's too."""
        group, (operands, reference) = turn.group, self._bound(turn.group.problem)
        entries = rotated(self._entries(turn, operands), turn.round_)
        try:
            wait_until_quiet()  # told its number of threads after a fork, OpenBLAS starts some, which spin
            check_all(entries, reference, operands, group.expected_s >= LONG_S, turn.round_)
            rate = self._visit(entries, turn, operands)
            cells = [entry.cell(group, "interleaved" if self.together else "alone") for entry in entries]
        finally:
            for entry in entries:
                entry.session.close()
        return cells + ([roof_cell(group, turn.round_, rate)] if rate else [])

    def _visit(self, entries: Sequence[Entry], turn: Turn, operands: Operands) -> float:
        """In turn, and in company the roof after each: the best of them."""
        rates = [0.0]
        for entry in entries:
            entry.visit(turn.round_)
            if self.together:
                rates.append(roof_rate(turn.group, operands))
        return max(rates)

    def _bound(self, problem: Problem) -> tuple[Operands, Reference]:
        if problem not in self.known:
            operands = bound_to(self.memory, problem)
            self.known[problem] = (operands, Reference(problem, operands))
        return self.known[problem]

    def _entries(self, turn: Turn, operands: Operands) -> list[Entry]:
        """Of those asked for, what this process holds and what can compute the problem."""
        group = turn.group
        if group.calls_from == "python":
            held = (OURS, NUMPY) if self.together else self.names
            return python_entries(group, operands, [name for name in held if turn.asks(name)])
        able = [b for b in self.usable if turn.asks(b.name) and b.supports(group.problem) is None]
        return [self._entry(backend, group, operands) for backend in able]

    def _entry(self, backend: Backend, group: Group, operands: Operands) -> Entry:
        smaller = functools.partial(self._smaller, backend, group)
        if (backend.name, group.threads) not in self.awake:  # a first call loads kernels and starts threads
            self.awake.add((backend.name, group.threads))
            first = smaller()
            first.activate()
            from_c(first)(3)
            first.quiesce()
            first.close()
        session = backend.open(group.problem, operands, threads=group.threads)
        return Entry(backend.name, session, from_c(session), smaller)

    def _smaller(self, backend: Backend, group: Group) -> Session:
        """A smaller product of the same library, on the same memory but for C."""
        m, n, k = (min(size, WARM_SIZE) for size in (group.problem.m, group.problem.n, group.problem.k))
        small = msgspec.structs.replace(group.problem, m=m, n=n, k=k, batch=1)
        scratch = np.zeros(operand_elements(small)[2], small.dtype)
        return backend.open(small, bound_to([*self.memory[:2], scratch], small), threads=group.threads)


def rotated(entries: Sequence[Entry], round_: int) -> list[Entry]:
    """Each round begins with another one; the first with ours, beside whose C all others are checked."""
    first = round_ % max(1, len(entries))
    return [*entries[first:], *entries[:first]]


def bound_to(memory: Sequence[np.ndarray], problem: Problem) -> Operands:
    """Operands at the beginning of each piece of memory."""
    parts = zip(memory, operand_elements(problem), shapes(problem), strict=True)
    a, b, c = (flat[:count].reshape(form or ()) for flat, count, form in parts)
    return Operands(a, b, c)


def check_all(
    entries: Sequence[Entry], reference: Reference, operands: Operands, long: bool, round_: int
) -> None:
    """Judge every entry; the first right result of ours is what the others must agree with."""
    ours: np.ndarray | None = None
    for entry in entries:
        entry.check(reference, operands.c, ours, round_ if long else None)
        if entry.name == OURS and ours is None and entry.gate.ok and len(entries) > 1:
            ours = operands.c.copy()


def from_c(session: Session) -> TimedCalls:
    """Calls timed in C."""

    def timed(calls: int) -> float:
        seconds = session.run_from_c(calls)
        if seconds is None:
            raise RuntimeError(f"{type(session).__name__} cannot be timed from C")
        return seconds

    return timed


class Entry:
    """One way of computing a group's problem, with what was measured of it."""

    def __init__(
        self,
        name: str,
        session: Session,
        timed: TimedCalls,
        warm: Callable[[], Session] | None = None,
        call: str = "",
    ) -> None:
        self.name, self.session, self.timed, self.call = name, session, timed, call
        self.make_warm = warm
        self.gate = GateResult(ok=False, failed="error", detail="not run")
        self.expected_s = 0.0
        self.samples: list[tuple[int, int, float]] = []
        self.cpus = 0.0

    def check(
        self, reference: Reference, c: np.ndarray, ours: np.ndarray | None, long_in: int | None
    ) -> None:
        """One call into a C of NaN, judged. A long one is warmed and is the visit of the round `long_in`."""
        c.fill(np.nan)
        if long_in is not None:
            self.expected_s = LONG_S
            self._visit(long_in)
            self.expected_s = self.samples[0][2]
        else:
            self.session.activate()
            self.expected_s = self.timed(1)
            self.session.quiesce()
        self.gate = reference.judge(c, ours)
        if not self.gate.ok:
            self.samples = []

    def visit(self, round_: int) -> None:
        """Warm up, take samples, leave quietly; nothing where the result was wrong or the check was it."""
        if self.gate.ok and not self.samples:
            self._visit(round_)

    def _visit(self, round_: int) -> None:
        warm = self.make_warm() if self.make_warm and self.expected_s >= LONG_S else None
        self.session.activate()
        seen = visit(self.timed, self.expected_s, from_c(warm) if warm else None)
        self.session.quiesce()
        if warm is not None:
            warm.close()
        self.samples += [(round_, seen.inner, sample) for sample in seen.samples_s]
        self.cpus = max(self.cpus, seen.cpus)

    def fault(self, threads: int) -> str:
        """Why its times do not count; empty where they do."""
        if not self.gate.ok:
            return f"its result is wrong: {self.gate.detail}"
        if threads < allowed_cpus() and self.cpus > threads + CPU_TOLERANCE:
            return f"it kept {self.cpus:.2f} CPUs busy where threads = {threads} were asked for"
        return ""

    def cell(self, group: Group, visits: str) -> Cell:
        """What goes into the record."""
        info, fault = self.session.info, self.fault(group.threads)
        rounds, inner, samples = (
            zip(*self.samples, strict=True) if self.samples and not fault else ((), (), ())
        )
        return Cell(
            problem=group.problem,
            backend=self.name,
            device="cpu",
            timing="throughput",
            calls_from=group.calls_from,  # type: ignore[arg-type]
            threads=group.threads,
            samples_s=samples,
            round_of=rounds,
            inner=inner,
            gate=self.gate,
            kernel=info.kernel,
            config={"visits": visits, **kept(info.config), **({"call": self.call} if self.call else {})},
            cpu_per_wall=round(self.cpus, 3),
            skip_reason=fault,
            process_id=os.getpid(),
            group=group.key,
        )


def kept(config: dict[str, Any]) -> dict[str, Any]:
    """What of a session's configuration tells libraries and instruction sets apart."""
    return {
        name: config[name] for name in ("isa", "kernels", "threading", "integer_bits") if config.get(name)
    }


def python_entries(group: Group, operands: Operands, names: Sequence[str]) -> list[Entry]:
    """`gemm(A, B, out=C)` and the prepared call of ours, and `np.matmul(A, B, out=C)`; those in `names`."""
    a, b, c = operands
    assert b is not None
    ours = backends.get(OURS)
    calls: list[tuple[str, str, Callable[[], object]]] = [
        (OURS, "gemm", functools.partial(ours.gemm, a, b, out=c)),
        (OURS, "prepared", ours.plan(a, b, c)),
        (NUMPY, "matmul", functools.partial(np.matmul, a, b, out=c)),
    ]
    return [
        Entry(name, _opened(name, group, operands), python_calls(call), None, word)
        for name, word, call in calls
        if name in names
    ]


def _opened(name: str, group: Group, operands: Operands) -> Session:
    return backends.get(name).open(group.problem, operands, threads=group.threads)


def roof_rate(group: Group, operands: Operands) -> float:
    """FLOP/s, or bytes/s of reading the matrix again and again, on as many threads as the group has."""
    from backends._native_library import library

    bound, p = library(), group.problem
    lib, result = bound.lib, bound.ffi.new("double *")
    before = lib.gemm_threads_get()
    lib.gemm_threads_set(group.threads)
    if class_of(p) == "gemv":
        matrix = operands.a if operands.b is None else max(operands.a, operands.b, key=lambda x: x.nbytes)
        address = bound.ffi.cast("void *", matrix.__array_interface__["data"][0])
        seconds = LARGE_READ_S if matrix.nbytes >= LARGE_BYTES else READ_S
        measure = functools.partial(lib.gemm_roof_read, address, matrix.nbytes, group.threads, seconds)
    else:
        kind = lib.GEMM_F32 if p.dtype == "float32" else lib.GEMM_F64
        measure = functools.partial(lib.gemm_roof_flops, kind, group.threads, FMA_S)
    measure(result)  # wakes the threads
    measure(result)
    lib.gemm_threads_set(before)
    lib.gemm_threads_park()
    return result[0]


def roof_cell(group: Group, round_: int, rate: float) -> Cell:
    """The time of the problem at the roof of this round: its FMAs, or one reading of its matrix."""
    p = group.problem
    reads = class_of(p) == "gemv"
    work = max(operand_elements(p)[:2]) * np.dtype(p.dtype).itemsize if reads else p.flops
    return Cell(
        problem=p,
        backend="roof",
        device="cpu",
        timing="throughput",
        calls_from=group.calls_from,  # type: ignore[arg-type]
        threads=group.threads,
        provenance="modelled",
        samples_s=(work / rate,),
        round_of=(round_,),
        inner=(1,),
        config={"roof": "read" if reads else "fma", "rate_per_s": rate},
        process_id=os.getpid(),
        group=group.key,
    )
