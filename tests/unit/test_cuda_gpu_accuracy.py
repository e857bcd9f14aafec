"""Kernels that compute fp32 from other arithmetic, against cuBLAS in fp32 on the same data."""

from __future__ import annotations

import numpy as np
import pytest

import backends
from backends import Problem
from tests import gpu_kinds as gpu

pytestmark = pytest.mark.gpu

usable = pytest.fixture(autouse=True)(gpu.usable)

SPLIT = [(k, dtype) for k, dtype in gpu.KINDS if "3xtf32" in k.header.math]
each_split = pytest.mark.parametrize(("kernel", "dtype"), SPLIT, ids=gpu.name)

ROWS, COLUMNS = 384, 256
DATA = {
    "positive": lambda rng, shape: rng.uniform(0.0, 1.0, shape),
    "centred": lambda rng, shape: rng.standard_normal(shape),
}


def largest_error(backend, p, operands):
    """Largest |error| of C in units of the sum of |a| |b|, which is what rounding is proportional to."""
    a, b = (x.astype(np.float64) for x in operands[:2])
    operands.c.fill(np.nan)
    session = backend.open(p, operands)
    session.enqueue("once")
    session.close()
    return float(np.max(np.abs(operands.c - a @ b) / (np.abs(a) @ np.abs(b))))


@pytest.mark.parametrize("k", [64, 512, 4096, 16384])
@pytest.mark.parametrize("data", DATA)
@each_split
def test_no_more_than_four_times_the_error_of_fp32(kernel, dtype, data, k):
    state = backends.get("cublas").probe()
    if not state.ok:
        pytest.skip(f"no GPU for cublas: {state.reason}")
    p = Problem(m=ROWS, n=COLUMNS, k=k, dtype=dtype, math="3xtf32")
    fp32 = Problem(m=ROWS, n=COLUMNS, k=k, dtype=dtype, math="fp32")
    operands, rng = backends.allocate(p), np.random.default_rng(k)
    for x in operands[:2]:
        x[...] = DATA[data](rng, x.shape)
    found = largest_error(backends.get(kernel.name), p, operands)
    reference = largest_error(backends.get("cublas"), fp32, operands)
    assert 0 < found <= 4 * reference, f"{found:.2e}, cuBLAS in fp32 {reference:.2e}"
