"""The gate catches every planted fault, at sizes judged entry by entry and at sizes judged by sums."""

from __future__ import annotations

from typing import ClassVar

import gate_sessions as g
import numpy as np
import pytest

from backends.base import Problem
from suite import gate, trials

SMALL = Problem(m=67, n=83, k=129)
LARGE = Problem(m=600, n=520, k=640)
LONG = Problem(m=24, n=40, k=8192)
BOTH = pytest.mark.parametrize("problem", [SMALL, LARGE], ids=["small", "large"])


def caught(session, *parts: str, **options) -> gate.GateResult:
    """The outcome, which must be a failure of one of `parts` (any when none is named)."""
    outcome = gate.check(session, **options)
    assert not outcome.ok, f"{session.problem} passed"
    assert not parts or outcome.failed in parts, outcome
    assert "\n" not in outcome.detail
    assert len(outcome.detail) > 20
    return outcome


def test_large_problem_is_judged_by_sums():
    assert trials.Setting(LARGE).multiplications > trials.FULL > trials.Setting(LONG).multiplications


def without(k: int) -> g.Compute:
    return lambda a, b: np.matmul(np.delete(a, k, axis=2), np.delete(b, k, axis=1))


@pytest.mark.parametrize("k", [0, 1, 127, 4096, 8190, 8191])
@pytest.mark.parametrize("shape", [(24, 40), (1, 1), (132, 140)], ids=["entries", "one entry", "sums"])
def test_one_k_lost_at_8192(shape, k):
    caught(g.HostSession(Problem(m=shape[0], n=shape[1], k=8192), without(k)), "exact")


def test_one_k_lost_with_any_scalars():
    for alpha, beta in ((0.1, 0.0), (0.1, 0.3), (3.0, -0.5)):
        caught(g.HostSession(Problem(m=24, n=40, k=8192, alpha=alpha, beta=beta), without(77)), "exact")


def test_last_eight_of_k_lost():
    def compute(a, b):
        k = a.shape[2] - (8 if a.shape[2] % 16 == 8 else 0)
        return np.matmul(a[:, :, :k], b[:, :k])

    caught(g.HostSession(Problem(m=19, n=21, k=24), compute), "exact")
    assert gate.check(g.HostSession(Problem(m=19, n=21, k=32), compute)).ok


ARITHMETIC = {
    "tf32 for fp32": ("float32", "", g.reduced(11)),
    "tf32 cut off for fp32": ("float32", "", g.reduced(11, g.truncated)),
    "bf16 for fp32": ("float32", "", g.reduced(8)),
    "22 bits for fp32": ("float32", "", g.reduced(22)),
    "23 bits for fp32": ("float32", "", g.reduced(23)),
    "fp16 sums for fp32": ("float32", "", g.half_sums),
    "bf16 for tf32": ("float32", "tf32", g.reduced(8)),
    "10 bits for tf32": ("float32", "tf32", g.reduced(10)),
    "tf32 for 3xtf32": ("float32", "3xtf32", g.reduced(11)),
    "22 bits for 3xtf32": ("float32", "3xtf32", g.reduced(22)),
    "B not split for 3xtf32": ("float32", "3xtf32", g.tf32_products("bb sb")),
    "A not split for 3xtf32": ("float32", "3xtf32", g.tf32_products("bb bs")),
    "bf16 for fp16": ("float16", "", lambda a, b: g.reduced(8)(a.astype("f4"), b.astype("f4"))),
    "fp16 sums for fp16": ("float16", "", g.half_sums),
    "7 bits for bf16": ("float32", "bf16", g.reduced(7)),
    "float32 for float64": ("float64", "", lambda a, b: np.matmul(a.astype("f4"), b.astype("f4"))),
    "float32 operands": ("float64", "", lambda a, b: np.matmul(a.astype("f4").astype("f8"), b)),
}


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 5, 3), (67, 83, 129), (600, 520, 640)], ids=str)
@pytest.mark.parametrize("fault", ARITHMETIC)
def test_lesser_arithmetic(fault, shape):
    dtype, math, compute = ARITHMETIC[fault]
    if "sums" in fault and shape == (1, 1, 1):
        shape = (1, 1, 3)  # one product has no sum
    m, n, k = shape
    session = g.HostSession(Problem(m=m, n=n, k=k, dtype=dtype, math=math), compute)
    with np.errstate(all="ignore"):
        caught(session, "exact", "fingerprint")


def three_halves(x):
    """All 24 bits of float32 in three float16 pieces: in everything but its range as good."""
    rest, total = x, np.zeros_like(x)
    for scale in (1.0, 2.0**11, 2.0**22):
        piece = (rest * np.float32(scale)).astype(np.float16).astype(np.float32) / np.float32(scale)
        rest, total = rest - piece, total + piece
    return total


def three_singles(x):
    """The same for float64, in three float32 pieces."""
    rest, total = x, np.zeros_like(x)
    for _ in range(3):
        piece = rest.astype(np.float32).astype(np.float64)
        rest, total = rest - piece, total + piece
    return total


@BOTH
@pytest.mark.parametrize("operand", [0, 1], ids=["A", "B"])
@pytest.mark.parametrize(("dtype", "pieces"), [("float32", three_halves), ("float64", three_singles)])
def test_too_small_a_range(dtype, pieces, operand, problem):
    def compute(a, b):
        return np.matmul(*(pieces(x) if i == operand else x for i, x in enumerate((a, b))))

    p = Problem(m=problem.m, n=problem.n, k=problem.k, dtype=dtype)
    with np.errstate(all="ignore"):
        caught(g.HostSession(p, compute), "fingerprint", "bound")


@pytest.mark.parametrize("operand", [0, 1], ids=["A", "B"])
def test_one_operand_shortened_in_one_tile(operand):
    def compute(a, b):
        full = np.matmul(a, b)
        short = np.matmul(*(g.shortened(x, 11) if i == operand else x for i, x in enumerate((a, b))))
        full[:, 512:, 384:512] = short[:, 512:, 384:512]
        return full

    caught(g.HostSession(LARGE, compute), "fingerprint")


class Spoiled(g.HostSession):
    """The right result, then `spoil(c)`."""

    spoil: ClassVar = staticmethod(lambda c: None)

    def write(self, c, result):
        c[...] = result
        type(self).spoil(c)


def spoiled(spoil) -> type[Spoiled]:
    return type("SpoiledSession", (Spoiled,), {"spoil": staticmethod(spoil)})


def put(index, value):
    def spoil(c):
        c[(slice(None), *index)] = value

    return spoil


@BOTH
@pytest.mark.parametrize(
    "spoil",
    [
        lambda c: c.fill(0),
        lambda c: c.fill(np.nan),
        put((3, 7), np.nan),
        put((-1, -1), np.inf),
        put((66, slice(None)), 0),
        put((slice(None), 82), 0),
        put((slice(64, 67), slice(64, 80)), 0),
    ],
    ids=["zeros", "NaN", "one NaN", "one Inf", "a row", "a column", "part of a tile"],
)
def test_spoiled_results(problem, spoil):
    caught(spoiled(spoil)(problem), "exact")


@pytest.mark.parametrize("place", [(0, 0), (127, 128), (333, 17), (599, 519)])
def test_one_wrong_entry_of_many(place):
    def nudge(c):
        c[0, place[0], place[1]] += 1

    assert "row" in caught(spoiled(nudge)(LARGE), "exact").detail


def test_entry_is_named():
    outcome = caught(spoiled(put((3, 7), 1e6))(SMALL), "exact")
    assert "C[3, 7] is 1000000.0, must be " in outcome.detail
    assert "1 of 5561" in outcome.detail


@BOTH
@pytest.mark.parametrize("session", [g.HostSession, g.DeviceSession])
def test_stale_tile(problem, session):
    class Stale(session):
        def write(self, c, result):
            c[:, :32], c[:, 48:], c[:, 32:48, 16:] = result[:, :32], result[:, 48:], result[:, 32:48, 16:]

    caught(Stale(problem), "exact")


@pytest.mark.parametrize("lost", ["row", "column"])
@pytest.mark.parametrize("size", [(129, 129), (127, 126), (65, 520), (1, 1), (640, 641)], ids=str)
@pytest.mark.parametrize("session", [g.HostSession, g.DeviceSession])
def test_lost_edge(session, size, lost):
    class Lost(session):
        def write(self, c, result):
            part = (slice(None), slice(-1)) if lost == "row" else (slice(None), slice(None), slice(-1))
            c[part] = result[part]

    caught(Lost(Problem(m=size[0], n=size[1], k=330)), "exact")


@BOTH
@pytest.mark.parametrize("session", [g.HostSession, g.DeviceSession])
def test_beta_zero_reads_c(problem, session):
    class Reads(session):
        def result(self, a, b, c):
            return np.matmul(a, b) + np.float32(0) * c

    caught(Reads(problem), "exact")


@pytest.mark.parametrize("session", [g.HostSession, g.DeviceSession])
def test_runs_add_up(session):
    class Adds(session):
        def result(self, a, b, c):
            return np.matmul(a, b) + (c if self.runs > 1 else 0)

    caught(Adds(SMALL))


@BOTH
def test_transposed_result(problem):
    n = problem.m

    class Transposed(g.HostSession):
        def write(self, c, result):
            c[...] = result.swapaxes(1, 2)

    caught(Transposed(Problem(m=n, n=n, k=problem.k)), "exact")


@pytest.mark.parametrize("flag", ["trans_a", "trans_b"])
def test_transpose_flag_ignored(flag):
    class Ignores(g.HostSession):
        def result(self, a, b, c):
            return np.matmul(
                *(x.swapaxes(1, 2) if t else x for x, t in ((a, flag == "trans_a"), (b, flag == "trans_b")))
            )

    caught(Ignores(Problem(m=50, n=50, k=50, **{flag: True})), "exact")


@BOTH
@pytest.mark.parametrize("session", [g.HostSession, g.DeviceSession])
def test_result_of_the_run_before(problem, session):
    class Late(session):
        last = 1.0

        def write(self, c, result):
            c[...], self.last = self.last, result

    caught(Late(problem), "exact")


@pytest.mark.parametrize("what", ["upload", "run", "download"])
def test_step_left_out(what):
    session = g.DeviceSession(SMALL)
    setattr(session, what, lambda: None)
    caught(session, "exact")


def test_second_operand_never_uploaded_again():
    class OldB(g.DeviceSession):
        def upload(self):
            self.device.a[...] = self.v.a
            if not self.runs:
                self.device.b[...] = self.v.b

    caught(OldB(SMALL))
    caught(OldB(Problem(m=67, n=83, k=129, beta=1.0)))


@BOTH
@pytest.mark.parametrize("alpha", [2.0, 0.1])
def test_alpha_or_beta_ignored(problem, alpha):
    scaled = Problem(m=problem.m, n=problem.n, k=problem.k, alpha=alpha, beta=0.5)

    class NoAlpha(g.HostSession):
        def result(self, a, b, c):
            return np.matmul(a, b) + np.float32(0.5) * c

    class NoBeta(g.HostSession):
        def result(self, a, b, c):
            return np.float32(alpha) * np.matmul(a, b)

    for session in (NoAlpha, NoBeta):
        caught(session(scaled), "exact")


def test_alpha_zero_reads_a():
    class Reads(g.HostSession):
        def result(self, a, b, c):
            return 0 * np.matmul(a, b) + np.float32(0.5) * c

    caught(Reads(Problem(m=5, n=7, k=9, alpha=0.0, beta=0.5)), "exact")


def test_k_zero_leaves_c():
    class Leaves(g.HostSession):
        def write(self, c, result):
            pass

    for beta in (0.0, 0.5):
        caught(Leaves(Problem(m=5, n=7, k=0, beta=beta)), "exact")


def test_only_the_first_of_a_batch():
    class First(g.HostSession):
        def write(self, c, result):
            c[0] = result[0]

    class Same(g.HostSession):
        def write(self, c, result):
            c[...] = result[:1]

    for batch, n in ((2, 30), (3, 400)):
        for session in (First, Same):
            outcome = caught(session(Problem(m=n, n=n, k=n, batch=batch)), "exact")
            assert "[1, " in outcome.detail


@pytest.mark.parametrize("op", ["vector_add", "copy"])
def test_vector_faults(op):
    class Tail(g.HostSession):
        def write(self, c, result):
            c[..., :1000] = result[..., :1000]

    class Half(g.HostSession):
        def result(self, a, b, c):
            return super().result(a.astype("f2"), b.astype("f2"), c)

    caught(Tail(Problem(op=op, n=1001)), "exact")
    caught(Half(Problem(op=op, n=1001)), "fingerprint")


def test_gemv_faults():
    problem = Problem(op="gemv", m=130, n=77)
    caught(spoiled(lambda c: c[:, -1].fill(0))(problem), "exact")
    caught(g.HostSession(problem, without(76)), "exact")
    caught(g.HostSession(problem, g.reduced(11)), "fingerprint")


def test_an_error_is_an_outcome():
    class Raises(g.HostSession):
        def run(self):
            raise MemoryError("no room\nfor two lines")

    outcome = caught(Raises(SMALL), "error")
    assert outcome.detail == "integers: MemoryError: no room for two lines"


def test_an_interrupt_is_not():
    class Interrupted(g.HostSession):
        def run(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gate.check(Interrupted(SMALL))


def test_the_mode_asked_for_is_judged():
    class WrongOverlap(g.DeviceSession):
        def enqueue(self, transfer, reuse=1):
            super().enqueue("once" if transfer == "overlap" else transfer, reuse)
            if transfer == "overlap":
                self.v.c[:, 0] = 0

    assert gate.check(WrongOverlap(SMALL)).ok
    assert gate.check(WrongOverlap(SMALL), transfer="always").ok
    caught(WrongOverlap(SMALL), "exact", transfer="overlap")


def test_seeds_change_the_data():
    kept = []
    for seed in (1, 1, 2):
        session = g.HostSession(SMALL)
        assert gate.check(session, seed=seed).ok
        kept.append(session.v.a.copy())
    assert np.array_equal(kept[0], kept[1])
    assert not np.array_equal(kept[0], kept[2])


def test_references_are_shared(monkeypatch):
    cache, asked = gate.ReferenceCache(), []
    real = trials.Integers.checks
    monkeypatch.setattr(trials.Integers, "checks", lambda self, v: asked.append(self.name) or real(self, v))
    for _ in range(3):
        assert gate.check(g.HostSession(SMALL), cache=cache).ok
    assert asked == ["integers", "accumulator width"]
    caught(g.HostSession(SMALL, g.reduced(11)), "fingerprint", cache=cache)
    assert gate.check(g.HostSession(LONG), cache=cache).ok
    assert len(asked) == 4
