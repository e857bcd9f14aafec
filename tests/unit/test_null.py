"""The null backend does what its script says, computes right, and is nobody's candidate."""

import numpy as np
import pytest

from backends import allocate, fill_random, registry
from backends.base import Problem, Unavailable
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
