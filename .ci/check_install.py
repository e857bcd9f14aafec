"""Run with an installed wheel, from any folder: the native library is there and multiplies rightly."""

import _gemm_cpu
import numpy as np

import backends

native = backends.get("native")
state = native.probe()
assert state.ok, state.reason

rng = np.random.default_rng(1)
for dtype in (np.float32, np.float64):
    a = rng.integers(-8, 8, (67, 129)).astype(dtype)
    b = rng.integers(-8, 8, (129, 35)).astype(dtype)
    exact = a.astype(np.int64) @ b.astype(np.int64)
    assert np.array_equal(native.gemm(a, b), exact), f"wrong product in {dtype.__name__}"
print(f"native library {_gemm_cpu.__name__}: right in float32 and float64; {state.detail}")
