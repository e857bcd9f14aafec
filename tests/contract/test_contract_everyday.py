"""The everyday calls give the same results, and refuse the same mistakes, for every backend."""

from __future__ import annotations

import numpy as np
import pytest
from contract_problems import everyday_dtypes as dtypes_of

from backends.base import Backend


def whole(shape, dtype, seed=0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-5, 6, shape).astype(dtype)


def operands(op: str, dtype: str, m=33, n=17, k=24) -> tuple[np.ndarray, np.ndarray]:
    return whole((m, k), dtype, 1), whole((k, n) if op == "gemm" else (k,), dtype, 2)


def exact(a, b) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64)


def inside(array: np.ndarray) -> np.ndarray:
    """The same values as a view into a larger array full of NaN."""
    parent = np.full([n + 5 for n in array.shape], np.nan, array.dtype)
    view = parent[tuple(slice(2, 2 + n) for n in array.shape)]
    view[...] = array
    return view


def stepped(array: np.ndarray) -> np.ndarray:
    parent = np.full([2 * n for n in array.shape], np.nan, array.dtype)
    view = parent[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def off_by_a_byte(array: np.ndarray) -> np.ndarray:
    raw = np.empty(array.nbytes + 1, np.uint8)
    view = raw[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


LAYOUTS = {
    "plain": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "inside": inside,
    "stepped": stepped,
    "reversed": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "misaligned": off_by_a_byte,
    "byte-swapped": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(usable: Backend, op, layout):
    for dtype in dtypes_of(usable, op):
        a, b = operands(op, dtype)
        want = exact(a, b)
        call = getattr(usable, op)
        for left, right in ((LAYOUTS[layout](a), b), (a, LAYOUTS[layout](b)), (LAYOUTS[layout](a),) * 2):
            if left is right:
                right = LAYOUTS[layout](b)
            got = call(left, right)
            assert got.dtype == dtype
            np.testing.assert_array_equal(got.astype(np.float64), want)


@pytest.mark.parametrize("layout", ["plain", "Fortran", "inside", "stepped", "misaligned"])
def test_out_layouts(usable: Backend, op, layout):
    for dtype in dtypes_of(usable, op):
        a, b = operands(op, dtype)
        want = exact(a, b)
        for alpha, beta in ((1.0, 0.0), (2.0, 1.0), (0.0, 0.5)):
            out = LAYOUTS[layout](np.full(want.shape, np.nan if beta == 0 else 2.0, dtype))
            outside = None if out.base is None else out.base.copy()
            assert getattr(usable, op)(a, b, alpha=alpha, beta=beta, out=out) is out
            np.testing.assert_array_equal(out.astype(np.float64), alpha * want + beta * 2.0)
            if layout in ("inside", "stepped"):
                assert np.isnan(outside).sum() == np.isnan(out.base).sum() + (out.size if beta == 0 else 0)


def test_out_may_share_memory(usable: Backend):
    for dtype in dtypes_of(usable, "gemm"):
        a, b = whole((40, 40), dtype, 1), whole((40, 40), dtype, 2)
        want = exact(a, b)
        for target in ("a", "b", "a.T"):
            left, right = a.copy(), b.copy()
            out = {"a": left, "b": right, "a.T": left.T}[target]
            usable.gemm(left, right, out=out)
            np.testing.assert_array_equal(out.astype(np.float64), want)


def test_other_ranks(usable: Backend):
    for dtype in dtypes_of(usable, "gemm"):
        shapes = [((6,), (6,)), ((6,), (6, 5)), ((4, 6), (6,)), ((2, 4, 6), (6, 5)), ((2, 4, 6), (2, 6, 5))]
        shapes += [((3, 1, 4, 6), (2, 6, 5)), ((2, 4, 6), (6,)), ((6,), (2, 6, 5)), ((0, 4, 6), (6, 5))]
        for left, right in shapes:
            a, b = whole(left, dtype, 1), whole(right, dtype, 2)
            got, want = usable.gemm(a, b), np.asarray(exact(a, b))
            assert got.shape == want.shape
            np.testing.assert_array_equal(np.asarray(got, np.float64), want)


def test_empty(usable: Backend, op):
    for dtype in dtypes_of(usable, op):
        for m, n, k in ((3, 5, 0), (0, 5, 3), (5, 0, 3), (0, 0, 0)):
            a, b = operands(op, dtype, m, n, k)
            np.testing.assert_array_equal(getattr(usable, op)(a, b), exact(a, b))


def test_mistakes_are_named(usable: Backend, op):
    dtype = dtypes_of(usable, op)[0]
    a, b = operands(op, dtype)
    call = getattr(usable, op)
    with pytest.raises(ValueError, match=r"\(33, 23\).*24"):
        call(a[:, 1:], b)
    with pytest.raises(ValueError, match="out="):
        call(a, b, beta=1.0)
    with pytest.raises(ValueError, match="out has shape"):
        call(a, b, out=np.zeros((2, 2), dtype))
    with pytest.raises(TypeError, match="int64"):
        call(a.astype(np.int64), b)
    with pytest.raises(TypeError, match="complex64"):
        call(a, b.astype(np.complex64))
    out = np.full(exact(a, b).shape, 7.0, dtype)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        call(a, b, out=out)
    assert np.all(out == 7)


def test_plan_follows_its_arrays(usable: Backend):
    for dtype in dtypes_of(usable, "gemm"):
        for layout in ("plain", "Fortran", "inside", "misaligned"):
            a, b = operands("gemm", dtype)
            left, right = LAYOUTS[layout](a.copy()), LAYOUTS[layout](b)
            out = LAYOUTS[layout](np.full((33, 17), np.nan, dtype))
            with usable.plan(left, right, out) as call:
                for factor in (1, 2, -1):
                    left[...] = factor * a
                    assert call() is out
                    np.testing.assert_array_equal(out.astype(np.float64), factor * exact(a, b))
            with pytest.raises(RuntimeError, match="closed"):
                call()
