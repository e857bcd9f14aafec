"""Operands of more than 2^31 entries on a real GPU: exact integers, by sampled rows and Freivalds' check.

C is far too large to be compared on the host in good time. Its rows on both sides of 2^31 are; all the others
by C v = A (B v), worked out by cuBLAS through CuPy in numbers small enough to be exact in float32.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest

import backends
from backends import Problem, _cuda_driver, _cuda_launch
from backends.operands import numpy_dtype
from tests import cuda_shapes as shapes
from tests import gpu_kinds as gpu

pytestmark = [pytest.mark.gpu, pytest.mark.large]
usable = pytest.fixture(autouse=True)(gpu.usable)

LIMIT = 1 << 31
ROWS, COLUMNS = 49_999, 43_003
"""More than LIMIT entries, in no multiple of any tile."""

SPARE = 2 << 30
CHUNK = 5_000
"""Rows converted at a time."""

LENGTH = LIMIT + 4_099
PERIOD = 1_000_003
"""Vectors repeat a random piece of this length, a prime."""


@pytest.fixture
def cupy():
    found = pytest.importorskip("cupy", reason="no GPU: CuPy is not installed")
    yield found
    gc.collect()
    found.get_default_memory_pool().free_all_blocks()


def room(entries, dtype):
    device = _cuda_driver.device(0)
    device.activate()
    size = entries * np.dtype(numpy_dtype(dtype)).itemsize
    if device.driver.free_memory() < size + SPARE:
        pytest.skip(f"no GPU memory for {size} bytes")


def small(rng, *shape):
    return rng.integers(-2, 3, shape)


def placed(cupy, values, dtype):
    """An array of integers on the device in the stored type; bfloat16 as the upper half of float32."""
    values = np.asarray(values, np.float32).astype(numpy_dtype(dtype))
    return cupy.asarray(values.view(np.uint16) if dtype == "bfloat16" else values)


def floats(cupy, array, dtype):
    """Entries as float32 (float64 for float64)."""
    if dtype == "bfloat16":
        return (array.astype(cupy.uint32) << 16).view(cupy.float32)
    return array.astype(cupy.float64 if dtype == "float64" else cupy.float32)


def blank(cupy, count, dtype):
    """Entries that are NaN until something is written."""
    found = cupy.empty(count, cupy.uint16 if dtype == "bfloat16" else numpy_dtype(dtype))
    found.data.memset(0xFF, found.nbytes)
    return found


def launch(kernel, p, a, b, c):
    device = _cuda_driver.device(0)
    device.activate()
    d, stream = device.driver, device.driver.stream()
    a.device.synchronize()
    try:
        places = _cuda_launch.places(p, tuple(0 if x is None else x.data.ptr for x in (a, b, c)))
        prepared = _cuda_launch.prepare(kernel, p, device, places, stream)
        assert not prepared.run(), "launch failed"
        d.check("run", d.synchronize(stream)())
        prepared.release()
    finally:
        d.call("cuStreamDestroy_v2", stream)


@gpu.each_size("gemm")
def test_a_result_of_more_than_2_to_31_entries(kernel, dtype, cupy):
    room(ROWS * COLUMNS, dtype)
    rng, k = np.random.default_rng(0), 3
    a, b = small(rng, ROWS, k), small(rng, k, COLUMNS)
    p = Problem(m=ROWS, n=COLUMNS, k=k, dtype=dtype, math=shapes.math_of(kernel, dtype))
    c = blank(cupy, ROWS * COLUMNS, dtype).reshape(ROWS, COLUMNS)
    launch(kernel, p, placed(cupy, a, dtype), placed(cupy, b, dtype), c)
    edge = LIMIT // COLUMNS
    for row in (0, ROWS // 2, edge - 1, edge, edge + 1, ROWS - 1):
        got = cupy.asnumpy(floats(cupy, c[row], dtype))
        assert (got == a[row] @ b).all(), f"row {row}"
    v = small(rng, COLUMNS) * 2 + 1  # odd: a single wrong entry of a row always shows
    want, on_device = a @ (b @ v), floats(cupy, placed(cupy, v, "float32"), "float32")
    for start in range(0, ROWS, CHUNK):
        part = floats(cupy, c[start : start + CHUNK], dtype)
        got = cupy.asnumpy(part @ on_device.astype(part.dtype))
        wrong = np.flatnonzero(got != want[start : start + CHUNK])
        assert wrong.size == 0, f"{wrong.size} rows are wrong, the first is {start + wrong[0]}"


@gpu.each_size("gemm", variants=False)
def test_products_of_more_than_2_to_31_entries_together(kernel, dtype, cupy):
    m, n, k = 67, 61, 3
    batch = LIMIT // (m * n) + 2
    room(batch * (m * n + m * k + k * n), dtype)
    p = Problem(m=m, n=n, k=k, batch=batch, dtype=dtype, math=shapes.math_of(kernel, dtype))
    rng = np.random.default_rng(3)
    a, b = (repeated(cupy, small(rng, PERIOD), dtype, batch * size) for size in (m * k, k * n))
    c = blank(cupy, batch * m * n, dtype)
    launch(kernel, p, a, b, c)
    for start in range(0, batch, 20_011):
        some = slice(start, min(batch, start + 20_011))
        left, right, got = (
            floats(cupy, x.reshape(batch, *shape)[some], dtype)
            for x, shape in ((a, (m, k)), (b, (k, n)), (c, (m, n)))
        )
        wrong = (got != cupy.matmul(left, right)).any(axis=(1, 2))
        assert not bool(wrong.any()), f"product {start + int(wrong.argmax())} is wrong"


@gpu.each_size("gemm", "gemv")
def test_an_operand_of_more_than_2_to_31_entries(kernel, dtype, cupy):
    """A is zero but for a few rows, those around 2^31 entries among them: so is C, or it is made of them."""
    op = kernel.header.op
    room(ROWS * COLUMNS, dtype)
    rng = np.random.default_rng(1)
    transposed = op == "gemv" and kernel.header.transposes == ("t",)
    edge = LIMIT // COLUMNS
    rows = [0, 1, edge - 1, edge, edge + 1, ROWS - 1]
    a = cupy.zeros((ROWS, COLUMNS), blank(cupy, 1, dtype).dtype)
    values = small(rng, len(rows), COLUMNS)
    for row, value in zip(rows, values, strict=True):
        a[row] = placed(cupy, value, dtype)
    how = {"dtype": dtype, "math": shapes.math_of(kernel, dtype)}
    if op == "gemm":
        b = small(rng, COLUMNS, 2)
        p = Problem(m=ROWS, n=2, k=COLUMNS, **how)
        want = np.zeros((ROWS, 2))
        want[rows] = values @ b
    elif transposed:
        b = small(rng, ROWS)
        p = Problem(op="gemv", m=COLUMNS, n=ROWS, trans_a=True, **how)
        want = values.T @ b[rows]
    else:
        b = small(rng, COLUMNS)
        p = Problem(op="gemv", m=ROWS, n=COLUMNS, **how)
        want = np.zeros(ROWS)
        want[rows] = values @ b
    c = blank(cupy, want.size, dtype).reshape(want.shape)
    launch(kernel, p, a, placed(cupy, b, dtype), c)
    wrong = np.argwhere(cupy.asnumpy(floats(cupy, c, dtype)) != rounded(want, dtype))
    assert wrong.size == 0, f"{len(wrong)} entries are wrong, the first is {wrong[0]}"


def rounded(values, dtype):
    """As stored in the type: sums of thousands of small integers are not exact in half precision."""
    return np.asarray(values, np.float32).astype(numpy_dtype(dtype)).astype(np.float64)


@gpu.each_size("vector_add", "copy")
def test_vectors_of_more_than_2_to_31_entries(kernel, dtype, cupy):
    op = kernel.header.op
    room((2 if op == "copy" else 3) * LENGTH, dtype)
    rng = np.random.default_rng(2)
    pieces = [small(rng, PERIOD) for _ in range(2)]
    a, b = (repeated(cupy, piece, dtype) for piece in pieces) if op == "vector_add" else (None, None)
    a = repeated(cupy, pieces[0], dtype) if a is None else a
    c = blank(cupy, LENGTH, dtype)
    p = Problem(op=op, n=LENGTH, dtype=dtype, math=shapes.math_of(kernel, dtype))
    launch(kernel, p, a, b, c)
    repeats(cupy, c, pieces[0] + pieces[1] if op == "vector_add" else pieces[0], dtype)


@gpu.each_size("gemv")
def test_a_gemv_of_more_than_2_to_31_rows(kernel, dtype, cupy):
    transposed = kernel.header.transposes == ("t",)
    how = {"dtype": dtype, "math": shapes.math_of(kernel, dtype)}
    p = Problem(op="gemv", m=LENGTH, n=1, trans_a=transposed, **how)
    if reason := backends.get(kernel.name).supports(p):
        pytest.skip(f"no GPU has such a grid: {reason}")
    room(2 * LENGTH, dtype)
    piece = small(np.random.default_rng(4), PERIOD)
    a, x, y = repeated(cupy, piece, dtype), placed(cupy, [3], dtype), blank(cupy, LENGTH, dtype)
    launch(kernel, p, a, x, y)
    repeats(cupy, y, 3 * piece, dtype)


def repeats(cupy, c, piece, dtype):
    """Is the vector that piece again and again?"""
    whole, expected = len(c) // PERIOD * PERIOD, placed(cupy, piece, dtype)
    for start in range(0, whole, 256 * PERIOD):
        part = c[start : min(whole, start + 256 * PERIOD)].reshape(-1, PERIOD)
        assert bool((part == expected).all()), f"wrong between {start} and {start + part.size}"
    assert bool((c[whole:] == expected[: len(c) - whole]).all())


def repeated(cupy, piece, dtype, length=LENGTH):
    """A vector that repeats the piece."""
    one = placed(cupy, piece, dtype)
    whole = length // PERIOD
    found = cupy.empty(length, one.dtype)
    for start in range(0, whole * PERIOD, 256 * PERIOD):
        found[start : min(whole * PERIOD, start + 256 * PERIOD)].reshape(-1, PERIOD)[...] = one
    found[whole * PERIOD :] = one[: length - whole * PERIOD]
    return found
