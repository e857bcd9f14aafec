"""Every kernel on a real GPU at every awkward size: exact, in any layout, with nothing touched around it."""

from __future__ import annotations

import pytest

from backends import Problem
from tests import cuda_cases as cases
from tests import cuda_shapes as shapes
from tests import gpu_kinds as gpu

pytestmark = pytest.mark.gpu
usable = pytest.fixture(autouse=True)(gpu.usable)


def run(kernel, dtype, found):
    for seed, (problem, layout) in enumerate(shapes.one_each(kernel, dtype, found)):
        cases.check(kernel, problem, layout, seed)


@gpu.each_kernel
def test_every_size_from_1_to_130(kernel, dtype):
    run(kernel, dtype, shapes.sweep())


@gpu.each_kernel
def test_primes(kernel, dtype):
    run(kernel, dtype, shapes.primes())


@gpu.each_kernel
def test_beside_the_tile_in_three_directions(kernel, dtype):
    run(kernel, dtype, shapes.beside_tile(kernel))


@gpu.each_gemm
def test_odd_numbers_of_k_tiles(kernel, dtype):
    run(kernel, dtype, shapes.odd_k_tiles(kernel))


@gpu.each_size("gemm")
@pytest.mark.parametrize("direction", ["tall", "wide"])
def test_more_than_65535_tiles_in_one_direction(kernel, dtype, direction):
    tile_m, tile_n, _ = kernel.variant.tile
    m, n = (65_600 * tile_m + 1, 1) if direction == "tall" else (1, 65_600 * tile_n + 1)
    p = Problem(m=m, n=n, k=1, dtype=dtype, math=shapes.math_of(kernel, dtype))
    cases.check(kernel, p, cases.Layout(1, 0))


@gpu.each_size("gemv")
def test_more_than_65535_tiles_of_rows(kernel, dtype):
    """Vectors have as many in `test_cuda_gpu_large.py`."""
    transposed = kernel.header.transposes == ("t",)
    m = 65_600 * kernel.variant.tile[0] + 1
    p = Problem(op="gemv", m=m, n=3, trans_a=transposed, dtype=dtype, math=shapes.math_of(kernel, dtype))
    cases.check(kernel, p, cases.Layout(1, 0))


PERSISTENT = [(k, dtype) for k, dtype in gpu.KINDS if k.header.launcher == "tma"]
each_persistent = pytest.mark.parametrize(("kernel", "dtype"), PERSISTENT, ids=gpu.name)


@each_persistent
def test_rounds_of_tiles_pieces_and_edges(kernel, dtype):
    for i, (m, n, k) in enumerate(shapes.rounds(kernel)):
        p = Problem(m=m, n=n, k=k, dtype=dtype, math=shapes.math_of(kernel, dtype), trans_b=i % 2 > 0)
        cases.check(kernel, p, cases.Layout(0, 0, 8))
        small = Problem(m=300, n=400, k=k, batch=5, dtype=dtype, math=p.math, beta=-2.0)
        cases.check(kernel, small, cases.Layout(0, 0, 8))


@each_persistent
def test_rows_that_end_within_16_bytes_of_aligned_lines(kernel, dtype):
    for n in range(296, 305):
        p = Problem(m=200, n=n, k=n - 170, dtype=dtype, math=shapes.math_of(kernel, dtype), trans_b=n % 2 > 0)
        cases.check(kernel, p, cases.Layout(0, 1, 8))
