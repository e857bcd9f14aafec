"""What starting a kernel costs: from Python, with the wait for it, and as a node of a graph.

All three with an empty kernel, so that nothing but the starting is timed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import msgspec

from backends import cuda_kernels
from backends._cuda_graph import Replay
from backends._cuda_session import CudaSession
from backends.base import Problem
from backends.operands import allocate, fill_random

from .clock import Clock, PerfClock

QUEUED = 200
"""Launches in a row: fewer than the driver queues before it makes the host wait."""

REPEATS = 15
NODES = 1000


class LaunchCost(msgspec.Struct, frozen=True):
    """Seconds. launch: host time of one call of `Session.run`'s path. latency: launch and wait. node: device
    time of one empty kernel within a graph.

    queued_by: `graph`, or why there was none.
    """

    launch_s: float
    latency_s: float
    node_s: float
    queued_by: str = "graph"


def measure(clock: Clock | None = None) -> LaunchCost:
    """On the first device, with the smallest product of the first kernel that runs here."""
    session = _session()
    try:
        return cost(session, clock or PerfClock())
    finally:
        session.close()


def _session() -> CudaSession:
    problem = Problem(m=16, n=16, k=16)
    for backend in cuda_kernels.load():
        if backend.supports(problem) is None and backend.probe().ok:
            operands = allocate(problem)
            fill_random(operands, 0)
            session = backend.open(problem, operands)
            assert isinstance(session, CudaSession)
            return session
    raise LookupError("no kernel of ours computes a small float32 product here")


def cost(session: CudaSession, clock: Clock) -> LaunchCost:
    """Medians over a few repeats, after one that warms up."""
    session.activate()
    launches = _medians(lambda: _burst(session, clock))
    latencies = _medians(lambda: _waits(session, clock))
    replay = Replay(session.device.driver, session.stream, session._empty, session._bound.explain)
    try:
        node = _medians(lambda: replay.seconds(NODES) / NODES)
    finally:
        replay.close()
    return LaunchCost(launches, latencies, node, replay.queued or "graph")


def _medians(sample: Callable[[], float]) -> float:
    return statistics.median([sample() for _ in range(REPEATS + 1)][1:])


def _burst(session: CudaSession, clock: Clock) -> float:
    run = session.run_empty
    start = clock.now()
    for _ in range(QUEUED):
        run()
    seconds = clock.now() - start
    session.synchronize()
    return seconds / QUEUED


def _waits(session: CudaSession, clock: Clock) -> float:
    start = clock.now()
    for _ in range(QUEUED):
        session.run_empty()
        session.synchronize()
    return (clock.now() - start) / QUEUED
