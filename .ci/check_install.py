"""Run with an installed wheel, from any folder: the native library is there and multiplies rightly.

Use: `check_install.py [ISA]`; with ISA, the dispatch must have chosen that instruction set.
"""

import sys

import numpy as np

import backends

native = backends.get("native")
state = native.probe()
assert state.ok, f"{state.reason}; {state.cure}"
assert sys.argv[1:] in ([], [state.detail["isa"]]), f"dispatch chose {state.detail['isa']}"

rng = np.random.default_rng(1)
for dtype in (np.float32, np.float64):
    a = rng.integers(-8, 8, (67, 129)).astype(dtype)
    b = rng.integers(-8, 8, (129, 35)).astype(dtype)
    exact = a.astype(np.int64) @ b.astype(np.int64)
    assert np.array_equal(native.gemm(a, b), exact), f"wrong product in {dtype.__name__}"
print(f"native, {state.detail['isa']}, {state.detail['binding']} binding: right in float32 and float64")
