"""Dtypes, ranks, shapes and read-only arrays: a right value or an error that names what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from .support import exact, pair, same, whole


def test_n19_floats_of_other_kinds(gemm):
    """cupy/cupy#2744, pydata/bottleneck#104, cupy/cupy#3186, cupy/cupy#3941."""
    a, b = pair(9, 5, 7, "float64")
    a[0, 0], b[0, 0] = 2.0**30 + 1, 1
    for left, right in (("f4", "f8"), ("f8", "f4")):
        x, y = a.astype(left), b.astype(right)
        same(gemm(x, y), exact(x, y), "f8")
    for dtype in (">f4", ">f8"):
        x, y = whole((9, 7), dtype, 1), whole((7, 5), dtype, 2)
        native = np.dtype(dtype).newbyteorder("=")
        same(gemm(x, y), exact(x, y), native)
        same(gemm(x, y.astype(native)), exact(x, y), native)
    x, y = whole((9, 7), "f4", 1), whole((7, 5), "f4", 2) > 0
    same(gemm(x, y), exact(x, y), "f4")


@pytest.mark.parametrize("dtype", ["int32", "int64", "complex64"])
def test_n19_other_types_are_named(gemm, dtype):
    a, b = whole((4, 3), dtype), whole((3, 5), dtype)
    with pytest.raises(TypeError, match=f"A has dtype {dtype}"):
        gemm(a, b)
    with pytest.raises(TypeError, match=f"B has dtype {dtype}"):
        gemm(a.real.astype("f4"), b)


def test_n20_other_ranks(gemm, dtype):
    """cupy/cupy#6715, mcfletch/pyopengl#22."""
    shapes = [((6,), (6,)), ((6,), (6, 5)), ((5, 6), (6,)), ((2, 4, 6), (6, 5)), ((2, 4, 6), (2, 6, 5))]
    for left, right in [*shapes, ((2, 1, 4, 6), (3, 6, 5)), ((4, 6), (3, 6, 5))]:
        a, b = whole(left, dtype, 1), whole(right, dtype, 2)
        same(np.asarray(gemm(a, b)), np.asarray(exact(a, b)))


UNFIT = [((), (6, 5)), ((6, 5), ()), ((3, 4), (5, 6)), ((4, 3), (4, 3)), ((4, 1), (3, 4)), ((3, 4), (1, 4))]


@pytest.mark.parametrize(("left", "right"), UNFIT)
def test_n20_shapes_that_do_not_fit(gemm, dtype, left, right):
    with pytest.raises(ValueError, match="A has shape"):
        gemm(np.ones(left, dtype), np.ones(right, dtype))


def test_n20_read_only(gemm, dtype):
    a, b = pair(17, 33, 9, dtype)
    a.flags.writeable = False
    from_bytes = np.frombuffer(b.tobytes(), dtype).reshape(b.shape)
    same(gemm(a, b), exact(a, b), dtype)
    same(gemm(a, from_bytes), exact(a, b), dtype)
    out = np.full((17, 33), 7, dtype)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        gemm(a, b, out=out)
    assert np.all(out == 7)
