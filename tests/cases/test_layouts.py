"""Strides, order, sub-views, alignment, overlap: never refused, always right."""

from __future__ import annotations

import numpy as np
import pytest

from .support import at_offset, exact, in_nan, pair, same, spread, whole

STEPS = [(-1, 1), (1, -1), (-1, -1), (2, 1), (1, 2), (2, 3), (-2, -3)]


@pytest.mark.parametrize("size", [(4, 3, 5), (33, 17, 24), (150, 140, 130)], ids=str)
def test_n11_reversed_stepped_and_broadcast_views(gemm, dtype, size):
    """JuliaLang/julia#39836, numpy/numpy#28909, rust-ndarray/ndarray#173, numpy/numpy#12494."""
    m, n, k = size
    a, b = pair(m, n, k, dtype)
    want = exact(a, b)
    for steps in STEPS:
        same(gemm(spread(a, steps), b), want, dtype)
        same(gemm(a, spread(b, steps)), want, dtype)
        same(gemm(spread(a, steps), spread(b, steps[::-1])), want, dtype)
    for row in (
        np.broadcast_to(a[0], (m, k)),
        np.broadcast_to(a[0, 0], (m, k)),
        np.broadcast_to(a[:, :1], (m, k)),
    ):
        same(gemm(row, b), exact(row, b))
    for column in (np.broadcast_to(b[:, :1], (k, n)), np.broadcast_to(b[0], (k, n))):
        same(gemm(a, column), exact(a, column))


@pytest.mark.parametrize("size", [(3, 4, 5), (33, 65, 17), (128, 48, 96)], ids=str)
def test_n13_column_major_and_transposed(gemm, dtype, size):
    """python-cffi/cffi#20, numpy/numpy#14306, tpoisonooo/how-to-optimize-gemm#19."""
    a, b = pair(*size, dtype)
    for left in (a, np.asfortranarray(a)):
        for right in (b, np.asfortranarray(b)):
            same(gemm(left, right), exact(a, b), dtype)
            out = np.full(size[:2], np.nan, dtype, order="F")
            assert gemm(left, right, out=out) is out
            same(out, exact(a, b))
    same(gemm(a.T, a), exact(a.T, a))
    same(gemm(a, a.T), exact(a, a.T))


@pytest.mark.parametrize(
    "size", [(1, 1, 1), (2, 2, 2), (7, 9, 3), (33, 17, 24), (64, 64, 63), (130, 129, 131)], ids=str
)
def test_n14_views_inside_nan(gemm, dtype, size):
    """OpenMathLib/OpenBLAS#171, OpenMathLib/OpenBLAS#746."""
    a, b = pair(*size, dtype)
    want = exact(a, b)
    for left, right in ((in_nan(a), b), (a, in_nan(b)), (in_nan(a), in_nan(b))):
        same(gemm(left, right), want, dtype)
    for beta, fill in ((0.0, np.nan), (1.0, 2.0)):
        out = in_nan(np.full(size[:2], fill, dtype))
        gemm(a, b, beta=beta, out=out)
        same(out, want + beta * 2)
        assert np.isnan(out.base).sum() == out.base.size - out.size


@pytest.mark.parametrize("size", [(8, 16, 8), (17, 33, 9), (64, 64, 64), (129, 131, 130)], ids=str)
def test_n16_pointers_between_vectors_and_between_elements(gemm, dtype, size):
    """numpy/numpy#5223, OpenMathLib/OpenBLAS#1137, NVIDIA/cutlass#49."""
    a, b = pair(*size, dtype)
    item = np.dtype(dtype).itemsize
    for past in (item, 2 * item, 3 * item, 1, 3):
        out = at_offset(np.full(size[:2], np.nan, dtype), past)
        gemm(at_offset(a, past), at_offset(b, 4 * item - past), out=out)
        same(out, exact(a, b))


@pytest.mark.parametrize("n", [2, 8, 65, 128, 200])
def test_n17_out_overlaps_an_input(gemm, dtype, n):
    """numpy/numpy#8440, numpy/numpy#3357, cupy/cupy#6214, numpy/numpy#31208."""
    a, b = pair(n, n, n, dtype)
    for choose in (lambda x, y: x, lambda x, y: y, lambda x, y: x.T, lambda x, y: y[::-1]):
        for beta in (0.0, 1.0):
            left, right = a.copy(), b.copy()
            out = choose(left, right)
            want = exact(a, b) + beta * out
            gemm(left, right, beta=beta, out=out)
            same(out, want)
    buffer = np.zeros(n * n + n, dtype)
    left = buffer[: n * n].reshape(n, n)
    left[...] = a
    same(gemm(left, b, out=buffer[n:].reshape(n, n)), exact(a, b))
    square = a.copy()
    same(gemm(square, square, out=square), exact(a, a))


@pytest.mark.parametrize(
    "size", [(1, 1), (2, 2), (3, 1), (1, 300), (300, 1), (33, 17), (8, 1000), (1000, 8), (130, 65)]
)
def test_n23_gemv_of_any_layout(gemv, dtype, size):
    """OpenMathLib/OpenBLAS#340, OpenMathLib/OpenBLAS#171, numpy/numpy#31208."""
    a, x = whole(size, dtype, 1), whole(size[1:], dtype, 2)
    want = exact(a, x)
    for matrix in (a, in_nan(a), np.asfortranarray(a), spread(a, (2, 3)), spread(a, (-1, -1))):
        same(gemv(matrix, x), want, dtype)
    for vector in (in_nan(x), spread(x, (2,)), spread(x, (-1,)), spread(x, (-3,))):
        same(gemv(a, vector), want, dtype)
    one = np.broadcast_to(x[:1], x.shape)
    same(gemv(a, one), exact(a, one))
    out = spread(np.full(size[0], 3.0, dtype), (2,))
    gemv(a, x, alpha=2.0, beta=1.0, out=out)
    same(out, 2 * want + 3)
    assert np.isnan(out.base[1::2]).all()


def test_n23_gemv_narrow_and_empty(gemv, dtype):
    for n in range(1, 10):
        a, x = whole((129, n), dtype, 1), whole((n,), dtype, 2)
        same(gemv(a, x), exact(a, x), dtype)
    same(gemv(np.empty((5, 0), dtype), np.empty(0, dtype)), np.zeros(5), dtype)
    same(gemv(np.empty((0, 5), dtype), np.ones(5, dtype)), np.zeros(0), dtype)


def test_n23_gemv_of_more_than_two_to_the_23_rows(gemv):
    a = np.ones((2**23 + 1, 4), np.float32)
    a[-1] = 3
    got = gemv(a, np.ones(4, np.float32))
    assert got[-1] == 12
    assert np.all(got[:-1] == 4)
