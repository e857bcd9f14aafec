"""NumPy's backend: which BLAS it is, its threads and no other's, and what alpha and beta cost."""

from __future__ import annotations

import ctypes
import shutil

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from backends import numpy_blas
from backends.base import Problem, Unavailable
from backends.operands import allocate


@pytest.fixture
def backend() -> numpy_blas.NumpyBackend:
    return numpy_blas.NumpyBackend()


def opened(backend, threads=None, **problem):
    p = Problem(**{"m": 9, "n": 8, "k": 7} | problem)
    return backend.open(p, allocate(p), threads=threads)


def needs_known_blas() -> None:
    if numpy_blas._library() is None:
        pytest.skip("NumPy's BLAS is none that threadpoolctl knows")


def test_probe_names_the_blas(backend):
    needs_known_blas()
    detail = backend.probe().detail
    assert detail["numpy"] == np.__version__
    assert {"blas", "version", "architecture", "threading_layer", "library", "threads"} <= set(detail)
    assert "/" not in detail["library"]


def test_an_unknown_blas_is_no_error(backend, monkeypatch):
    monkeypatch.setattr(numpy_blas, "_library", lambda: None)
    assert backend.probe().ok
    assert backend.probe().detail["blas"] == "unknown"
    assert backend.thread_counts(Problem(m=9, n=9, k=9)) == (1,)
    session = opened(backend)
    session.activate()
    assert session.observed_threads() is None
    session.close()
    with pytest.raises(Unavailable, match="thread count"):
        opened(backend, threads=2)


def test_threads_are_in_force_between_activate_and_quiesce(backend):
    needs_known_blas()
    library = numpy_blas._library()
    before = library.num_threads
    session = opened(backend, threads=1)
    assert library.num_threads == before
    for _ in range(2):
        session.activate()
        session.activate()
        assert session.observed_threads() == library.num_threads == 1
        session.quiesce()
        assert library.num_threads == before
    session.activate()
    session.close()
    assert library.num_threads == before


def test_another_blas_is_left_alone(backend, tmp_path):
    needs_known_blas()
    own = numpy_blas._library()
    if own.internal_api != "openblas":
        pytest.skip(f"NumPy's BLAS is {own.internal_api}: a copy of it cannot stand in for another")
    copy = tmp_path / "libopenblas_other.so"
    shutil.copy(own.filepath, copy)
    ctypes.CDLL(str(copy))
    other = next(c for c in ThreadpoolController().lib_controllers if c.filepath == str(copy))
    other.set_num_threads(1)
    numpy_blas._library.cache_clear()
    assert numpy_blas._library().filepath == own.filepath
    session = opened(backend, threads=2)
    session.activate()
    assert other.num_threads == 1
    session.close()


@pytest.mark.parametrize(
    ("alpha", "beta", "passes"),
    [(1, 0, 0), (2, 0, 1), (1, 1, 1), (2, 1, 2), (1, 0.5, 2), (2, 0.5, 3), (0, 0, 0), (0, 0.5, 0)],
)
def test_alpha_and_beta_and_what_they_cost(backend, alpha, beta, passes):
    session = opened(backend, alpha=alpha, beta=beta)
    assert session.info.config["passes_over_c"] == passes
    a, b, c = session.operands
    a[...] = np.arange(a.size).reshape(a.shape)
    b[...] = np.arange(b.size).reshape(b.shape)
    c.fill(4 if beta else np.nan)
    session.run()
    np.testing.assert_array_equal(c, alpha * (a @ b) + (beta * 4 if beta else 0))


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Problem(m=2, n=2, k=2, dtype="float16"), "no float16 BLAS"),
        (Problem(m=2, n=2, k=2, math="tf32"), "in fp32, not in tf32"),
        (Problem(op="gemv", m=2, n=2, math="bf16"), "in fp32, not in bf16"),
    ],
)
def test_what_numpy_does_not_compute(backend, problem, reason):
    assert reason in backend.supports(problem)
    with pytest.raises(Unavailable, match=reason):
        backend.open(problem, allocate(problem))


def test_run_is_the_bound_call_itself(backend):
    session = opened(backend)
    assert "run" in vars(session), "one Python frame less per call"
    assert session.run.func is np.matmul
