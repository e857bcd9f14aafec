"""The everyday calls above a backend that takes C-contiguous arrays only, and notes what it was given."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends import checks, everyday
from backends.base import Availability, Backend, Problem, Session, SessionInfo, Unavailable
from backends.numpy_blas import _bind
from backends.operands import Operands


class Plain(Backend):
    """Contiguous, aligned, native operands of the problem's own shapes, or it complains."""

    name, device = "plain", "cpu"
    strided = False

    def __init__(self, unsupported: str | None = None, there: bool = True, transposes: bool = True) -> None:
        self.unsupported, self.there = unsupported, there
        self.seen: list[tuple[Problem, Operands]] = []

    def probe(self):
        return Availability(
            ok=self.there, reason="" if self.there else "it is not installed", cure="Install it."
        )

    def supports(self, problem):
        return self.unsupported

    def open(self, problem, operands, **_):
        self.look(problem, operands)
        return PlainSession(problem, operands, SessionInfo())

    def compute(self, problem, operands):
        self.look(problem, operands)
        _bind(problem, operands)()

    def look(self, problem: Problem, operands: Operands) -> None:
        self.seen.append((problem, operands))
        for x in operands:
            assert x.dtype == problem.dtype
            assert x.dtype.isnative
            if not self.strided:
                assert x.flags.c_contiguous
            assert x.flags.aligned


class PlainSession(Session):
    closed = 0

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self._call = _bind(self.problem, self.operands)

    def run(self):
        self._call()

    def close(self):
        self.closed += 1


class Strided(Plain):
    strided = True


@pytest.fixture(params=[Plain, Strided])
def backend(request) -> Plain:
    return request.param()


def whole(shape, dtype="float32", seed=0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


def test_common_case_passes_the_arrays_themselves(backend):
    a, b, out = whole((5, 4)), whole((4, 3)), np.empty((5, 3), "f4")
    assert backend.gemm(a, b, out=out) is out
    problem, seen = backend.seen[0]
    assert (seen.a is a, seen.b is b, seen.c is out) == (True, True, True)
    assert problem == Problem(m=5, n=3, k=4)


def test_a_transposed_view_is_a_flag_not_a_copy():
    plain = Plain()
    a, b = whole((4, 5)), whole((3, 4))
    np.testing.assert_array_equal(plain.gemm(a.T, b.T), a.T @ b.T)
    problem, seen = plain.seen[0]
    assert problem.trans_a
    assert problem.trans_b
    assert np.shares_memory(seen.a, a)
    assert np.shares_memory(seen.b, b)


def test_strided_views_pass_through_where_they_may():
    a, b, out = whole((10, 12))[::2, ::-3], whole((4, 6))[:, ::2], np.zeros((5, 6), "f4")[:, ::2]
    for kind, shared in ((Strided, True), (Plain, False)):
        backend = kind()
        backend.gemm(a, b, out=out)
        np.testing.assert_array_equal(out, a @ b)
        seen = backend.seen[0][1]
        assert [np.shares_memory(x, y) for x, y in zip(seen, (a, b, out), strict=True)] == [shared] * 3


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("f4", "f4", "f4"), ("f4", "f8", "f8"), ("f8", "f4", "f8"), (">f4", "f4", "f4"), (">f8", ">f8", "f8"),
        ("f4", "?", "f4"), ("?", "f8", "f8"), ("f2", "f4", "f4"), ("f2", "f2", "f2"), (">f4", "f8", "f8"),
    ],
)  # fmt: skip
def test_dtypes(backend, left, right, result):
    a, b = whole((7, 5), left), whole((5, 6), right)
    got = backend.gemm(a, b)
    assert got.dtype == np.dtype(result)
    np.testing.assert_array_equal(got, a.astype("f8") @ b.astype("f8"))


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", "u2", "c8", "c16", "O", "U3", "M8[s]", "g"])
def test_other_dtypes_are_refused_by_name(backend, dtype):
    if dtype == "g" and np.dtype("g").itemsize == 8:
        assert backend.gemm(np.ones((2, 2), "g"), np.ones((2, 2))).dtype == np.float64
        return
    odd, plain = np.zeros((2, 2), dtype), np.ones((2, 2), "f4")
    for call in (lambda: backend.gemm(odd, plain), lambda: backend.gemm(plain, odd)):
        with pytest.raises(TypeError, match=re.escape(str(np.dtype(dtype)))):
            call()
    assert backend.seen == []


def test_two_bools_and_masked_arrays_are_refused(backend):
    ones = np.ones((2, 2), "f4")
    with pytest.raises(TypeError, match="both bool"):
        backend.gemm(ones > 0, ones > 0)
    with pytest.raises(TypeError, match=r"masked.*filled"):
        backend.gemm(np.ma.masked_equal(ones, 0), ones)
    with pytest.raises(TypeError, match="NumPy array"):
        backend.gemm(ones, ones, out=np.ma.masked_equal(ones, 0))


def test_lists_of_floats_are_float64(backend):
    got = backend.gemm([[1.0, 2.0]], [[3.0], [4.0]])
    assert got.dtype == np.float64
    assert got == [[11.0]]


@pytest.mark.parametrize(
    ("left", "right"), [((), (3, 3)), ((3, 3), ()), ((3, 4), (5, 6)), ((4, 1), (3, 4)), ((3, 4), (1, 4)),
                        ((3,), (4,)), ((2, 3, 4), (3, 4, 5)), ((3, 4), (3,))]
)  # fmt: skip
def test_shapes_that_do_not_fit(backend, left, right):
    a, b = whole(left), whole(right)
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the text is checked in full below
        backend.gemm(a, b)
    assert str(left) in str(raised.value)
    assert str(right) in str(raised.value)
    assert backend.seen == []


def test_gemv_takes_a_matrix_and_a_vector(backend):
    a, x = whole((4, 3)), whole((3,))
    for left, right in ((a, a), (x, x), (a[None], x), (a, x[:, None])):
        with pytest.raises(ValueError, match="matrix and a vector"):
            backend.gemv(left, right)
    with pytest.raises(ValueError, match=r"3 columns.*4 entries"):
        backend.gemv(a, whole((4,)))


@pytest.mark.parametrize("scalar", ["2", 1j, None, [1.0], np.ones(1)])
def test_scalars_that_are_none(backend, scalar):
    ones = np.ones((2, 2), "f4")
    for name in ("alpha", "beta"):
        with pytest.raises(TypeError, match=f"{name} must be one real number"):
            backend.gemm(ones, ones, out=ones.copy(), **{name: scalar})


def test_scalars_of_other_kinds(backend):
    ones = np.ones((2, 2), "f4")
    for two in (2, np.float32(2), np.int64(2), np.array(2.0), True + 1):
        out = np.ones((2, 2), "f4")
        backend.gemm(ones, ones, alpha=two, beta=two, out=out)
        np.testing.assert_array_equal(out, np.full((2, 2), 6))


def test_negative_zero_beta_does_not_read_out(backend):
    a, out = whole((3, 3)), np.full((3, 3), np.nan, "f4")
    backend.gemm(a, a, beta=-0.0, out=out)
    np.testing.assert_array_equal(out, a @ a)


def test_out_that_does_not_fit(backend):
    a = whole((3, 3))
    with pytest.raises(ValueError, match=r"out has shape \(3, 4\), the product has \(3, 3\)"):
        backend.gemm(a, a, out=np.zeros((3, 4), "f4"))
    with pytest.raises(TypeError, match="out has dtype <f8, the product is float32"):
        backend.gemm(a, a, out=np.zeros((3, 3)))
    with pytest.raises(TypeError, match="out has dtype >f4"):
        backend.gemm(a, a, out=np.zeros((3, 3), ">f4"))
    with pytest.raises(TypeError, match="got list"):
        backend.gemm(a, a, out=[[0.0] * 3] * 3)
    with pytest.raises(ValueError, match="share one place"):
        backend.gemm(a, a, out=np.lib.stride_tricks.as_strided(np.zeros(3, "f4"), (3, 3), (0, 4)))
    with pytest.raises(ValueError, match=r"beta = 0\.5"):
        backend.gemm(a, a, beta=0.5)
    frozen = np.full((3, 3), 7, "f4")
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        backend.gemm(a, a, out=frozen)
    assert np.all(frozen == 7)
    assert backend.seen == []


def test_interleaved_rows_of_out(backend):
    """Rows that lie between one another's entries are legal, and not to be written as one block."""
    buffer = np.zeros(40, "f4")
    out = np.lib.stride_tricks.as_strided(buffer, (4, 3), (4, 32))
    a, b = whole((4, 5)), whole((5, 3))
    backend.gemm(a, b, out=out)
    np.testing.assert_array_equal(out, a @ b)


def test_results_of_vectors_are_scalars(backend):
    x = whole((5,))
    got = backend.gemm(x, x)
    assert isinstance(got, np.float32)
    out = np.zeros((), "f4")
    assert backend.gemm(x, x, out=out) is out
    assert out == got == x @ x


def test_a_stack_on_one_matrix_is_one_product(backend):
    a, b = whole((6, 7, 4)), whole((4, 5))
    np.testing.assert_array_equal(backend.gemm(a, b), a @ b)
    assert [p for p, _ in backend.seen] == [Problem(m=42, n=5, k=4)]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_stacks_broadcast_as_in_numpy(data):
    backend = data.draw(st.sampled_from([Plain, Strided]))()
    size, axis = st.integers(1, 3), st.sampled_from([0, 1, 2, 3])
    lead = data.draw(st.lists(axis, max_size=2))
    leads = [
        [1 if data.draw(st.booleans()) else n for n in lead][data.draw(st.integers(0, len(lead))) :]
        for _ in range(2)
    ]
    m, n, k = (data.draw(size) for _ in range(3))
    a, b = whole((*leads[0], m, k), seed=1), whole((*leads[1], k, n), seed=2)
    a = np.asfortranarray(a) if data.draw(st.booleans()) else a
    b = b[..., ::-1] if data.draw(st.booleans()) else b
    want = np.matmul(a, b)
    np.testing.assert_array_equal(backend.gemm(a, b), want)
    beta = data.draw(st.sampled_from([0.0, 1.0, 0.5]))
    room = np.full((*want.shape[:-1], 2 * n), 4 if beta else np.nan, "f4")
    out = room[..., ::2]
    backend.gemm(a, b, alpha=2, beta=beta, out=out)
    np.testing.assert_array_equal(out, 2 * want + (beta * 4 if beta else 0))
    np.testing.assert_array_equal(room[..., 1::2], np.full(want.shape, 4 if beta else np.nan))


@given(st.integers(1, 6), st.integers(-3, 3), st.integers(-3, 3), st.booleans(), st.sampled_from([0.0, 2.0]))
@settings(max_examples=150, deadline=None)
def test_any_overlap_is_as_if_the_inputs_were_copied(n, down, right, transpose, beta):
    parent = whole((n + 6, n + 6), seed=n)
    a = parent[3 : 3 + n, 3 : 3 + n]
    out = parent[3 + down : 3 + down + n, 3 + right : 3 + right + n]
    out = out.T if transpose else out
    want = a.copy() @ a.copy() + beta * out.copy()
    Strided().gemm(a, a, beta=beta, out=out)
    np.testing.assert_array_equal(out, want)


def test_an_absent_backend_says_why():
    with pytest.raises(Unavailable, match=r"plain cannot be used here: it is not installed. Install it\."):
        Plain(there=False).gemm(whole((2, 2)), whole((2, 2)))


def test_what_a_backend_refuses_is_a_type_error():
    with pytest.raises(TypeError, match=r"plain cannot compute this float16 gemm: no half floats"):
        Plain(unsupported="no half floats").gemm(whole((2, 2), "f2"), whole((2, 2), "f2"))


def test_plan_reads_its_arrays_at_each_call(backend):
    a, b, out = whole((4, 6))[:, ::2], whole((3, 5), ">f4"), np.full((4, 5), 1, "f4")
    call = backend.plan(a, b, out, alpha=2, beta=1)
    total = out.copy()
    for factor in (1, 3):
        a *= factor
        total += 2 * (a @ b)
        assert call() is out
        np.testing.assert_array_equal(out, total)
    call.close()
    with pytest.raises(RuntimeError, match="closed"):
        call()


def test_plan_of_a_vector_is_a_gemv(backend):
    a, x, out = whole((4, 3)), whole((3,)), np.empty(4, "f4")
    with backend.plan(a, x, out) as call:
        call()
    assert backend.seen[0][0].op == "gemv"
    np.testing.assert_array_equal(out, a @ x)


def test_plan_refuses_what_it_cannot_follow(backend):
    with pytest.raises(TypeError, match="B is"):
        backend.plan(whole((2, 2)), [[1.0, 2.0], [3.0, 4.0]], np.zeros((2, 2)))
    with pytest.raises(TypeError, match="out is"):
        backend.plan(whole((2, 2)), whole((2, 2)), None)


def test_plan_closes_each_session_once(backend):
    call = everyday.plan(backend, whole((2, 3, 4)), whole((2, 4, 5)), np.empty((2, 3, 5), "f4"))
    sessions = list(call._sessions)
    assert len(sessions) == 2
    call.close()
    call.close()
    assert [s.closed for s in sessions] == [1, 1]


def test_self_overlap():
    base = np.zeros(100, "f4")
    view = np.lib.stride_tricks.as_strided
    assert not checks.may_overlap_itself(view(base, (3, 4), (16, 4)))
    assert not checks.may_overlap_itself(view(base, (3, 4), (4, 12)))
    assert not checks.may_overlap_itself(base[::-2])
    assert checks.may_overlap_itself(view(base, (3, 4), (12, 4)))
    assert checks.may_overlap_itself(view(base, (3, 4), (4, 4)))
