"""The gate lets every honest computation pass, whatever its order of summation, shape and scalars."""

from __future__ import annotations

import gate_sessions as g
import numpy as np
import pytest

from backends.base import Problem
from suite import gate

SHAPES = [
    (1, 1, 1), (1, 1, 2), (1, 1, 5000), (2, 3, 2), (7, 11, 13), (1, 64, 9), (64, 1, 9), (33, 17, 1),
    (127, 131, 137), (16, 16, 256), (3, 5, 0), (0, 3, 4), (3, 0, 4), (0, 0, 0), (129, 128, 127),
]  # fmt: skip
FEW = [(1, 1, 1), (1, 1, 5000), (7, 11, 13), (3, 5, 0), (0, 3, 4), (65, 33, 130)]
ORDERS = {"sequential": g.sequential, "backwards": g.backwards, "pairwise": g.pairwise, "blocked": g.blocked}
SCALARS = [(1.0, 1.0), (2.0, 0.0), (0.5, -0.25), (0.1, 0.3), (-1.5, 1.0), (0.0, 0.5), (0.0, 0.0), (3.0, 7.0)]


def passes(problem: Problem, compute=np.matmul, session=g.HostSession, **info) -> gate.GateResult:
    outcome = gate.check(session(problem, compute, **info))
    assert outcome.ok, f"{problem}: {outcome}"
    return outcome


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("order", ORDERS)
def test_orders_of_summation(order, dtype):
    for m, n, k in SHAPES:
        passes(Problem(m=m, n=n, k=k, dtype=dtype), ORDERS[order])


@pytest.mark.parametrize("order", ORDERS)
def test_long_sums(order):
    outcome = passes(Problem(m=24, n=40, k=8192), ORDERS[order])
    assert 0 < outcome.max_error < 16 * 2.0**-24


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("alpha", "beta"), SCALARS)
def test_scalars(alpha, beta, dtype):
    for m, n, k in FEW:
        for session in (g.HostSession, g.DeviceSession):
            passes(Problem(m=m, n=n, k=k, dtype=dtype, alpha=alpha, beta=beta), session=session)


def test_alpha_folded_into_an_operand():
    class Folded(g.HostSession):
        def result(self, a, b, c):
            p = self.problem
            return np.matmul(a, np.float32(p.alpha) * b) + np.float32(p.beta) * c

    for alpha in (0.1, 0.75, -3.0):
        passes(Problem(m=30, n=20, k=700, alpha=alpha, beta=0.5), session=Folded)


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_transposes_and_batches(trans_a, trans_b):
    for batch in (1, 2, 5):
        for dtype in ("float32", "float64"):
            problem = Problem(
                m=13, n=7, k=19, batch=batch, dtype=dtype, trans_a=trans_a, trans_b=trans_b, beta=0.5
            )
            passes(problem)
            passes(problem, session=g.DeviceSession)


@pytest.mark.parametrize(
    ("math", "compute"),
    [
        ("tf32", g.reduced(11)),
        ("tf32", g.reduced(11, g.truncated)),
        ("tf32", np.matmul),
        ("3xtf32", g.tf32_products("bb bs sb")),
        ("3xtf32", np.matmul),
        ("bf16", g.reduced(8)),
        ("fp16", g.reduced(11)),
    ],
    ids=[
        "tf32 rounded",
        "tf32 truncated",
        "tf32 in full fp32",
        "3xtf32",
        "3xtf32 in full fp32",
        "bf16",
        "fp16",
    ],
)
def test_reduced_math_in_its_own_name(math, compute):
    for m, n, k in SHAPES:
        passes(Problem(m=m, n=n, k=k, math=math), compute)
    passes(Problem(m=24, n=40, k=8192, math=math, alpha=0.5, beta=2.0), compute)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_storage(dtype):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed: no bfloat16 arrays")

    def compute(a, b):
        return np.matmul(a.astype(np.float32), b.astype(np.float32))

    for m, n, k in SHAPES:
        passes(Problem(m=m, n=n, k=k, dtype=dtype), compute)
    for m, n, k in FEW:
        for alpha, beta in SCALARS:
            passes(Problem(m=m, n=n, k=k, dtype=dtype, alpha=alpha, beta=beta), compute)
    passes(Problem(m=24, n=40, k=8192, dtype=dtype), compute)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("session", [g.HostSession, g.DeviceSession])
def test_large_problems(session, dtype):
    passes(Problem(m=640, n=520, k=700, dtype=dtype), session=session, tile=(96, 48))
    passes(Problem(m=300, n=600, k=800, dtype=dtype, alpha=0.3, beta=1.5, trans_b=True), session=session)
    passes(Problem(m=70, n=80, k=2000, batch=13, dtype=dtype, beta=1.0), session=session)


def test_large_but_too_narrow_for_marks():
    passes(Problem(m=8, n=2048, k=8400, beta=0.5), session=g.DeviceSession)


def test_large_reduced_math():
    passes(Problem(m=640, n=520, k=700, math="tf32"), g.reduced(11, g.truncated))
    passes(Problem(m=640, n=520, k=700, math="bf16"), g.reduced(8), g.DeviceSession)


@pytest.mark.parametrize("session", [g.HostSession, g.DeviceSession])
def test_vectors_and_gemv(session):
    for n in (0, 1, 2, 1001):
        for dtype in ("float16", "float32", "float64"):
            passes(Problem(op="vector_add", n=n, dtype=dtype), session=session)
            passes(Problem(op="copy", n=n, dtype=dtype), session=session)
    for m, n in ((1, 1), (5, 0), (0, 5), (129, 7), (8, 1000), (1000, 8)):
        for trans_a in (False, True):
            passes(Problem(op="gemv", m=m, n=n, trans_a=trans_a, alpha=2.0, beta=0.5), session=session)
            passes(Problem(op="gemv", m=m, n=n, trans_a=trans_a, dtype="float64"), session=session)


def test_declared_flushing_is_allowed_for():
    def flushing(a, b):
        with np.errstate(under="ignore"):
            product = np.matmul(a, b)
        return np.where(np.abs(product) < np.finfo(np.float32).tiny, 0, product)

    passes(Problem(m=50, n=60, k=70), flushing, flushes_denormals=True)
