"""Scripted times and no hardware: what stands above the backends can be tested exactly.

`NullBackend` takes its times from a function and moves a `FakeClock`; by default it also computes, with
NumPy, so that it passes the gate. The one registered as `null` takes no time and is nobody's candidate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from .base import (
    APART,
    Availability,
    Backend,
    HostMemory,
    Problem,
    Session,
    SessionInfo,
    Transfer,
    Unavailable,
    require,
)
from .operands import Operands

TimeFn = Callable[[Problem, str, int, int], float]
"""time_fn(problem, transfer, reuse, call_index) -> seconds of one enqueue; call_index counts from 0."""

Compute = bool | Callable[[Problem, Operands], None]


class FakeTime:
    """Time that only `advance` moves: the least that a null backend needs of a clock."""

    true_s = 0.0

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self.true_s += seconds


class NullSession(Session):
    """Lets scripted time pass; see `NullBackend`."""

    def __init__(self, backend: NullBackend, problem: Problem, operands: Operands, info: SessionInfo) -> None:
        super().__init__(problem, operands, info)
        self.backend, self.calls, self.pending_s = backend, 0, 0.0
        self.factor = backend.thread_factor.get(info.threads or 1, 1.0)
        self.log: list[str] = []

    def run(self) -> None:
        self._work("resident", 1)

    def enqueue(self, transfer: Transfer, reuse: int = 1) -> None:
        if transfer not in self.backend.transfers or self.only not in (None, transfer):
            raise ValueError(f"transfer mode {transfer!r} is not offered by {self.backend.name}")
        self._work(transfer, reuse)
        if not self.backend.queue:
            self.synchronize()

    def _work(self, transfer: str, reuse: int) -> None:
        b = self.backend
        self.pending_s += self.factor * b.time_fn(self.problem, transfer, reuse, self.calls)
        self.pending_s += 0.0 if self.calls else b.first_call_s
        self.calls += 1
        if b.action is not None:
            for _ in range(reuse if self.problem.beta else 1):
                b.action(self.problem, self.operands)

    def synchronize(self) -> None:
        pending, self.pending_s = self.pending_s, 0.0
        self.backend.clock.advance(pending)

    def run_empty(self) -> None:
        self.pending_s += self.backend.empty_s

    def activate(self) -> None:
        self.log.append("activate")

    def quiesce(self) -> None:
        self.log.append("quiesce")

    def parts(self) -> dict[str, float] | None:
        return self.backend.parts_s

    def close(self) -> None:
        self.log.append("close")


class NullBackend(Backend):
    """A backend whose times are a script.

    compute: True computes with NumPy, False does nothing, a function takes its place (a planted fault).
    queue: `enqueue` returns at once and only `synchronize` waits, as an asynchronous launch does.
    thread_factor: how many times longer the script takes at each thread count; its keys are the counts.
    first_call_s: added to the first call of every session. open_error: raised by `open`. unsupported: the
    reason that `supports` gives for every problem.
    """

    def __init__(
        self,
        name: str,
        device: Literal["cpu", "cuda"],
        time_fn: TimeFn,
        *,
        clock: Any = None,
        compute: Compute = True,
        queue: bool = False,
        transfers: frozenset[str] = frozenset({"resident", "once", "always"}),
        thread_factor: Mapping[int, float] | None = None,
        first_call_s: float = 0.0,
        compile_s: float | None = None,
        empty_s: float = 1e-7,
        parts_s: dict[str, float] | None = None,
        open_error: BaseException | None = None,
        unsupported: str | None = None,
    ) -> None:
        self.name, self.device, self.time_fn = name, device, time_fn
        self.clock = FakeTime() if clock is None else clock
        self.action = compute if callable(compute) else multiply if compute else None
        self.queue, self.transfers = queue, transfers
        self.thread_factor = dict(thread_factor or {1: 1.0})
        self.first_call_s, self.compile_s, self.empty_s = first_call_s, compile_s, empty_s
        self.parts_s, self.open_error, self.unsupported = parts_s, open_error, unsupported
        self.sessions: deque[NullSession] = deque(maxlen=64)

    def probe(self) -> Availability:
        return Availability(ok=True, reason="", detail={"scripted": True})

    def supports(self, problem: Problem) -> str | None:
        if self.unsupported:
            return self.unsupported
        if self.action is multiply and problem.math not in ("fp32", "fp64"):
            return f"computes in fp32 and fp64, not in {problem.math}"
        return None

    def thread_counts(self, problem: Problem) -> tuple[int, ...]:
        return tuple(self.thread_factor)

    def open(
        self,
        problem: Problem,
        operands: Operands,
        *,
        host_memory: HostMemory = "pageable",
        devices: tuple[int, ...] = (0,),
        threads: int | None = None,
    ) -> Session:
        if self.open_error is not None:
            raise self.open_error
        require(self, problem)
        info = SessionInfo(
            kernel=self.name, compile_s=self.compile_s, threads=threads if self.device == "cpu" else None
        )
        session = NullSession(self, problem, operands, info)
        self.sessions.append(session)
        return session

    def open_for(
        self,
        problem: Problem,
        operands: Operands,
        transfer: Transfer,
        *,
        host_memory: HostMemory = "pageable",
        devices: tuple[int, ...] = (0,),
    ) -> Session:
        reason = self.refuses(problem, transfer, host_memory)
        if reason or transfer not in APART:
            raise Unavailable(reason or f"{self.name} opens transfer mode {transfer} with the others")
        session = self.open(problem, operands, host_memory=host_memory, devices=devices)
        session.only = transfer
        return session


def multiply(p: Problem, operands: Operands) -> None:
    """The product itself, by NumPy, in place in C; BLAS rules for alpha and beta."""
    a, b, c = operands
    if p.op in ("vector_add", "copy"):
        c[...] = a if b is None else a + b
        return
    assert b is not None
    left = np.swapaxes(a, -1, -2) if p.trans_a else a
    right = np.swapaxes(b, -1, -2) if p.trans_b else b
    product = (left @ right) * np.asarray(p.alpha, a.dtype) if p.alpha else np.zeros_like(c)
    c[...] = product if p.beta == 0 else product + np.asarray(p.beta, a.dtype) * c


def load() -> list[Backend]:
    """The registered one: computes, and takes no time by its own false clock."""
    return [NullBackend("null", "cpu", lambda problem, transfer, reuse, index: 0.0)]
