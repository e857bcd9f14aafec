"""Speed of GEMM and GEMV in every usable backend, each result judged right before it is timed.

`python -m pytest tests/bench --benchmark-autosave`, then `pytest-benchmark compare --group-by=group`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import backends
from backends.base import Problem, Session
from backends.cpus import wait_until_quiet
from suite import gate

SIZES = {"gemm": (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192), "gemv": (128, 1024, 4096)}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One case for every op, dtype, size and backend that is usable for it."""
    largest = metafunc.config.getoption("--largest")
    problems = [
        Problem(op=op, m=size, n=size, k=size if op == "gemm" else 1, dtype=dtype)
        for op, sizes in SIZES.items()
        for dtype in ("float32", "float64")
        for size in sizes
        if op == "gemv" or size <= largest
    ]
    cases = [(backend, problem) for problem in problems for backend in backends.usable(problem)]
    ids = [f"{problem.op}-{problem.dtype}-{problem.m}-{backend.name}" for backend, problem in cases]
    metafunc.parametrize(("backend", "problem"), cases, ids=ids)


@pytest.fixture
def session(backend: backends.Backend, problem: Problem) -> Iterator[Session]:
    """An open session whose result has been judged right, with random data on its device."""
    operands = backends.allocate(problem)
    opened = backend.open(problem, operands)
    try:
        judged = gate.check(opened)
        assert judged.ok, f"{backend.name}: {judged.failed}: {judged.detail}"
        backends.fill_random(operands, seed=1)
        opened.upload()
        opened.activate()
        wait_until_quiet()  # the threads of the backend before may still spin
        yield opened
    finally:
        opened.close()


def test_product(benchmark, backend: backends.Backend, problem: Problem, session: Session) -> None:
    """One resident call with its synchronisation; rates go to the JSON as `extra_info`."""
    benchmark.group = f"{problem.op} {problem.dtype} {problem.m}"
    benchmark(session.enqueue, "resident")
    benchmark.extra_info |= {"backend": backend.name, "threads": session.observed_threads()}
    if benchmark.stats:  # absent under --benchmark-disable
        median_s = benchmark.stats.stats.median
        benchmark.extra_info |= {
            "gflops": problem.flops / median_s / 1e9,
            "bandwidth_gb_s": problem.bytes_min / median_s / 1e9,
        }
