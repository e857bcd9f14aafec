"""Forks, concurrent callers and odd thread counts: right values, no hang."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from backends.base import Problem
from backends.operands import allocate, fill_random

from .support import exact, pair, python, same

FORK = """
    import os, signal
    import numpy as np
    import backends

    backend = backends.get({name!r})
    rng = np.random.default_rng(1)
    large, small = (rng.integers(-7, 8, (n, n)).astype("f4") for n in (512, 8))

    def right(x):
        return bool(np.array_equal(backend.gemm(x, x), np.einsum("ik,kj->ij", x, x, optimize=False)))

    assert right(large), "before the fork"
    for _ in range(3):
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            os._exit(0 if right(small) and right(large) else 1)
        status = os.waitpid(child, 0)[1]
        assert status == 0, f"the child ended with status {{status}}"
        assert right(large), "in the parent, after the fork"
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_c01_a_forked_child_computes(backend):
    """OpenMathLib/OpenBLAS#294, facebookresearch/faiss#5206, pytorch/pytorch#2517."""
    python(FORK.format(name=backend.name), seconds=120)


def in_threads(count: int, work) -> None:
    """Run work(i) in `count` threads at once; raises the first error of any."""
    start, errors = threading.Barrier(count), []

    def body(i: int) -> None:
        try:
            start.wait(30)
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def test_c02_eight_threads_call_at_once(gemm):
    """numpy/numpy#29391, OpenMathLib/OpenBLAS#1844, OpenMathLib/OpenBLAS#1755."""
    sizes = [(64 + 37 * i, 300 - 31 * i, 100 + 13 * i) for i in range(8)]
    jobs = [(*pair(*size, "float32"), size) for size in sizes]
    wants = [exact(a, b) for a, b, _ in jobs]

    def work(i: int) -> None:
        for _ in range(40):
            same(gemm(jobs[i][0], jobs[i][1]), wants[i])

    in_threads(8, work)


TOGETHER = """
    import threading
    import numpy as np
    import backends

    backend = backends.get({name!r})
    jobs = [np.random.default_rng(i).integers(-7, 8, (64 + 29 * i,) * 2).astype("f4") for i in range(8)]
    wants = [np.einsum("ik,kj->ij", x, x, optimize=False) for x in jobs]
    wrong = []

    def work(i):
        for _ in range(20):
            if not np.array_equal(backend.gemm(jobs[i], jobs[i]), wants[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong, wrong
"""


@pytest.mark.parametrize("count", ["1", "2", "8"])
def test_c02_with_other_thread_counts(backend, count):
    python(TOGETHER.format(name=backend.name), OMP_NUM_THREADS=count)


ENVIRONMENT = """
    import numpy as np
    import backends

    for name in ("native", "numpy"):
        backend = backends.get(name)
        if backend.probe().ok:
            for m, n, k in ((1, 64, 300), (300, 300, 300)):
                a, b = np.ones((m, k), "f4"), np.ones((k, n), "f4")
                assert (backend.gemm(a, b) == k).all(), (name, m, n, k)
            assert backend.probe().detail["threads"] >= 1
"""


@pytest.mark.parametrize("variable", ["OMP_NUM_THREADS", "GEMM_NUM_THREADS"])
@pytest.mark.parametrize("value", ["0", "-1", "abc", "4,2", "1000000", "", "2.5"])
def test_c04_odd_thread_counts_in_the_environment(variable, value):
    """kokkos/kokkos#4512, PointCloudLibrary/pcl#4863, tardis-sn/tardis#537."""
    python(ENVIRONMENT, **{variable: value})


@pytest.mark.parametrize("threads", [0, -1, 2.5, "2", True])
def test_c04_odd_thread_counts_are_refused(backend, threads):
    problem = Problem(m=8, n=8, k=8)
    with pytest.raises(ValueError, match=f"threads must be a whole number >= 1 or None, got {threads!r}"):
        backend.open(problem, allocate(problem), threads=threads)


def computed(backend, problem: Problem, threads: int | None) -> tuple[int | None, int | None]:
    """(thread count of the record, count observed) of a run whose result is right."""
    operands = allocate(problem)
    fill_random(operands, 1)
    session = backend.open(problem, operands, threads=threads)
    session.activate()
    try:
        session.run()
        np.testing.assert_allclose(operands.c, operands.a.astype("f8") @ operands.b.astype("f8"), atol=1e-4)
        return session.info.threads, session.observed_threads()
    finally:
        session.close()


def test_c04_one_row_on_eight_threads(backend):
    for threads in (None, 1, 8):
        computed(backend, Problem(m=1, n=300, k=300), threads)


@pytest.mark.parametrize("threads", [4 * (os.cpu_count() or 1), 65, 257])
def test_c05_more_threads_than_there_are(backend, threads):
    """OpenMathLib/OpenBLAS#2993, OpenMathLib/OpenBLAS#4216: capped, and the record says to what."""
    recorded, observed = computed(backend, Problem(m=300, n=300, k=300), threads)
    assert 1 <= observed <= recorded <= threads  # a worker that wakes up too late takes no part


def test_c05_sixty_four_callers_of_eight_threads_each(backend):
    problem = Problem(m=150, n=150, k=150)
    in_threads(64, lambda i: computed(backend, problem, 8))
