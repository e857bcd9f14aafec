"""What the GPU tests run on: every kernel with each of its types, and when one is skipped."""

from __future__ import annotations

import pytest

import backends
from backends import Unavailable
from backends.operands import numpy_dtype
from tests import cuda_cases as cases


def name(value: object) -> str:
    return str(getattr(value, "name", value))


KINDS = [(k, dtype) for k in cases.KERNELS.values() for dtype in k.header.dtypes]
GEMMS = [(k, dtype) for k, dtype in KINDS if k.header.op == "gemm"]
ONCE = [(k, k.header.dtypes[0]) for k in cases.KERNELS.values()]
"""Where the type makes no difference: addresses are the same arithmetic for all."""

each_kernel = pytest.mark.parametrize(("kernel", "dtype"), KINDS, ids=name)
each_gemm = pytest.mark.parametrize(("kernel", "dtype"), GEMMS, ids=name)
each_once = pytest.mark.parametrize(("kernel", "dtype"), ONCE, ids=name)
each_gemm_once = pytest.mark.parametrize(
    ("kernel", "dtype"), [pair for pair in ONCE if pair[0].header.op == "gemm"], ids=name
)


def usable(request: pytest.FixtureRequest) -> None:
    """Skip what this GPU or environment cannot run, with the reason: an autouse fixture of every GPU test."""
    values = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    kernel, dtype = values.get("kernel"), values.get("dtype")
    if kernel is not None:
        state = backends.get(kernel.name).probe()
        if not state.ok:
            pytest.skip(f"no GPU for {kernel.name}: {state.reason}")
    if dtype is not None:
        try:
            numpy_dtype(dtype)
        except Unavailable as error:
            pytest.skip(str(error))
