"""The null backend does what its script says, computes right, and is nobody's candidate."""

import numpy as np
import pytest

from backends import allocate, fill_random, registry
from backends.base import Backend, DeviceLost, Problem, Unavailable
from backends.null import NullBackend, multiply
from suite.clock import FakeClock


def test_the_registered_one_is_found_by_name_and_never_used():
    assert registry.get("null").probe().ok
    assert "null" not in {b.name for b in registry.usable()}
    a = np.arange(6.0).reshape(2, 3)
    assert (registry.get("null").gemm(a, a.T) == a @ a.T).all()


def test_time_passes_as_scripted():
    clock = FakeClock()
    seen = []

    def script(problem, transfer, reuse, index):
        seen.append((transfer, reuse, index))
        return 0.5 * reuse

    backend = NullBackend("n", "cuda", script, clock=clock, first_call_s=1.0)
    problem = Problem(m=2, n=2, k=2)
    session = backend.open(problem, allocate(problem))
    session.enqueue("once", 3)
    assert clock.now() == 2.5
    session.run()
    assert clock.now() == 2.5
    session.synchronize()
    assert clock.now() == 3.0
    assert seen == [("once", 3, 0), ("resident", 1, 1)]


def test_a_queue_returns_at_once_and_is_waited_for():
    clock = FakeClock()
    problem = Problem(m=2, n=2, k=2)
    backend = NullBackend("n", "cuda", lambda p, t, r, i: 0.05, clock=clock, queue=True)
    session = backend.open(problem, allocate(problem))
    session.enqueue("resident")
    assert clock.now() == 0.0
    session.synchronize()
    assert clock.now() == 0.05


@pytest.mark.parametrize(
    "problem",
    [
        Problem(m=3, n=4, k=5, alpha=2.0, beta=-1.0),
        Problem(m=3, n=4, k=5, trans_a=True, trans_b=True, dtype="float64"),
        Problem(m=3, n=4, k=5, batch=2),
        Problem(op="gemv", m=3, n=4, beta=1.0),
        Problem(op="vector_add", n=7),
        Problem(op="copy", n=7),
    ],
    ids=lambda p: f"{p.op}{p.batch}",
)
def test_it_computes_every_operation(problem):
    ops = allocate(problem)
    fill_random(ops, 1)
    ops.c.fill(3.0)
    if problem.op == "vector_add":
        expected = ops.a + ops.b
    elif problem.op == "copy":
        expected = ops.a
    else:
        a = ops.a.swapaxes(-1, -2) if problem.trans_a else ops.a
        b = ops.b.swapaxes(-1, -2) if problem.trans_b else ops.b
        expected = problem.alpha * (a @ b) + problem.beta * 3.0
    multiply(problem, ops)
    np.testing.assert_allclose(ops.c, expected, rtol=1e-6)


def test_refusals_have_reasons():
    backend = NullBackend("n", "cpu", lambda p, t, r, i: 0.0)
    tensor_core = Problem(m=2, n=2, k=2, math="tf32")
    assert "not in tf32" in backend.supports(tensor_core)
    with pytest.raises(Unavailable, match="tf32"):
        backend.open(tensor_core, allocate(tensor_core))
    session = backend.open(Problem(m=2, n=2, k=2), allocate(Problem(m=2, n=2, k=2)))
    with pytest.raises(ValueError, match="'unified' is not offered"):
        session.enqueue("unified")


def test_a_mode_apart_has_a_session_of_its_own():
    small = Problem(m=2, n=2, k=2)
    modes = frozenset({"resident", "once", "always", "overlap"})
    backend = NullBackend("n", "cuda", lambda p, mode, r, i: {"overlap": 1e-3 * r}[mode], transfers=modes)
    assert backend.refuses(small, "overlap", "pinned") is None
    assert backend.refuses(small, "unified", "pinned") == "n does not offer transfer mode unified"
    session = backend.open_for(small, allocate(small), "overlap")
    session.enqueue("overlap", 3)
    assert session.only == "overlap" and backend.clock.true_s == pytest.approx(3e-3)
    with pytest.raises(ValueError, match="'resident' is not offered"):
        session.enqueue("resident")
    for mode in ("unified", "once"):
        with pytest.raises(Unavailable, match=mode):
            backend.open_for(small, allocate(small), mode)


def test_a_backend_without_such_sessions_says_so():
    class Claims(NullBackend):
        open_for = Backend.open_for

    backend = Claims("n", "cuda", lambda p, t, r, i: 0.0, transfers=frozenset({"resident", "overlap"}))
    small = Problem(m=2, n=2, k=2)
    with pytest.raises(Unavailable, match="n has no session for transfer mode overlap alone"):
        backend.open_for(small, allocate(small), "overlap")


def test_a_lost_device_has_its_code():
    lost = DeviceLost(719, "cuStreamSynchronize")
    assert (lost.code, lost.what) == (719, "cuStreamSynchronize")
    assert str(lost) == "the device is lost (719): cuStreamSynchronize"
