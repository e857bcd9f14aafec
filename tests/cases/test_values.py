"""Sizes, K tails, empty operands, alpha and beta, NaN and Inf."""

from __future__ import annotations

import numpy as np
import pytest

from .support import Fenced, exact, pair, real, same, within_rounding

ODD = [
    (1, 1, 1), (2, 3, 4), (5, 2, 1), (13, 17, 8), (31, 33, 32), (33, 32, 32), (35, 79, 19), (65, 63, 127),
    (96, 8, 6), (100, 100, 100), (129, 130, 131), (256, 128, 256), (200, 3, 257), (3, 200, 257),
]  # fmt: skip
TAILS = [*range(1, 49), 56, 63, 64, 65, 72, 120, *range(127, 137), *range(255, 265)]


@pytest.mark.parametrize("size", ODD, ids=str)
def test_n01_sizes_that_no_tile_divides(gemm, dtype, size):
    """Cjkkkk/CUDA_gemm#6, yzhaiustc/Optimizing-SGEMM-on-NVIDIA-Turing-GPUs#2, xlite-dev/LeetCUDA#294."""
    a, b = pair(*size, dtype)
    kept = a.tobytes(), b.tobytes()
    same(gemm(a, b), exact(a, b), dtype)
    assert (a.tobytes(), b.tobytes()) == kept
    a, b = real(a.shape, dtype, 3), real(b.shape, dtype, 4)
    within_rounding(gemm(a, b), a, b)


def test_n02_every_tail_of_k(gemm, dtype):
    """tile-ai/tilelang#2381."""
    for k in TAILS:
        for m, n in ((64, 64), (19, 21)):
            a, b = pair(m, n, k, dtype)
            same(gemm(a, b), exact(a, b), dtype)


@pytest.mark.parametrize(("m", "n"), [(3, 5), (64, 64), (1, 1), (33, 17)])
def test_n04_k_zero(gemm, dtype, m, n):
    """OpenMathLib/OpenBLAS#2914, numba/numba#5779, JuliaGPU/oneAPI.jl#628, flame/blis#706."""
    a, b = pair(m, n, 0, dtype)
    same(gemm(a, b), np.zeros((m, n)), dtype)
    for beta, fill, want in ((0.0, np.nan, 0.0), (1.0, 3.0, 3.0), (0.5, 3.0, 1.5)):
        fenced = Fenced((m, n), dtype, fill)
        assert gemm(a, b, beta=beta, out=fenced.out) is fenced.out
        same(fenced.out, np.full((m, n), want))
        assert fenced.intact()


@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 4), (3, 0, 4), (0, 0, 3), (0, 3, 0), (0, 0, 0)])
def test_n05_no_rows_or_no_columns(gemm, dtype, m, n, k):
    """numpy/numpy#2777, cupy/cupy#1231."""
    a, b = pair(m, n, k, dtype)
    same(gemm(a, b), np.zeros((m, n)), dtype)
    for beta in (0.0, 1.0):
        fenced = Fenced((m, n), dtype, np.nan)
        assert gemm(a, b, beta=beta, out=fenced.out).shape == (m, n)
        assert fenced.intact()


@pytest.mark.parametrize("fill", [np.nan, np.inf])
@pytest.mark.parametrize("size", [(1, 1, 1), (4, 4, 4), (17, 33, 9), (64, 64, 64), (65, 31, 130)], ids=str)
def test_n07_beta_zero_never_reads_out(gemm, dtype, size, fill):
    """ROCm/Tensile#102, flame/blis#552, OpenMathLib/OpenBLAS#929, clMathLibraries/clBLAS#201."""
    a, b = pair(*size, dtype)
    for scalars in ({}, {"beta": 0.0}, {"beta": -0.0}, {"alpha": 2.0, "beta": 0.0}):
        fenced = Fenced(size[:2], dtype, fill)
        gemm(a, b, out=fenced.out, **scalars)
        same(fenced.out, scalars.get("alpha", 1) * exact(a, b))
        assert fenced.intact()


@pytest.mark.parametrize("size", [(3, 5, 4), (33, 17, 65), (130, 140, 150)], ids=str)
def test_n08_alpha_zero_never_reads_the_operands(gemm, dtype, size):
    """Reference-LAPACK/lapack#1077: the convention here is that of BLAS."""
    a, b = pair(*size, dtype)
    a[0, 0], b[-1, -1] = np.nan, np.inf
    for beta, fill, want in ((0.0, np.nan, 0.0), (1.0, 3.0, 3.0), (0.5, 3.0, 1.5)):
        fenced = Fenced(size[:2], dtype, fill)
        gemm(a, b, alpha=0.0, beta=beta, out=fenced.out)
        same(fenced.out, np.full(size[:2], want))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("size", [(2, 2, 2), (9, 10, 11), (33, 65, 17), (64, 64, 64)], ids=str)
def test_n10_inf_times_zero_is_nan_and_stays_in_its_row(gemm, dtype, size):
    """Reference-LAPACK/lapack#179, OpenMathLib/OpenBLAS#4728."""
    m, n, k = size
    a, b = pair(m, n, k, dtype)
    a[m // 2, k // 2], b[k // 2] = np.inf, 0
    b[k // 2, n // 2] = 2
    finite = a.copy()
    finite[m // 2] = 0
    want = exact(finite, b).astype(np.float64)
    want[m // 2] = np.nan
    want[m // 2, n // 2] = np.inf
    same(gemm(a, b), want)

    a, b = pair(m, n, k, dtype)
    want = exact(a, b).astype(np.float64)
    column = np.where(a[:, 0] == 0, np.nan, -np.inf * a[:, 0])
    want[:, -1], want[-1] = column, np.nan
    a[-1, -1], b[0, -1] = np.nan, -np.inf
    same(gemm(a, b), want)


def test_n22_float16_is_right_or_refused_by_name(backend, gemm):
    """JuliaLang/julia#50580, pytorch/pytorch#2391."""
    ones = np.ones((16, 5000), "f2"), np.ones((5000, 16), "f2")
    cancelling = np.full((16, 32), 256, "f2"), np.full((32, 16), 256, "f2")
    cancelling[1][1::2] = -256
    for (a, b), want in ((ones, 5000), (cancelling, 0)):
        try:
            got = gemm(a, b)
        except TypeError as error:
            assert "float16" in str(error)  # noqa: PT017 - a value is right as well
        else:
            same(got, np.full((16, 16), want))
