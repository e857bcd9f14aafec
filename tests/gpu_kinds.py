"""What the GPU tests run on: every kernel with each of its types, and when one is skipped."""

from __future__ import annotations

import pytest

import backends
from backends import Unavailable
from backends._cuda_source import Kernel
from backends.arithmetic import ITEMSIZE
from backends.operands import numpy_dtype
from tests import cuda_cases as cases


def name(value: object) -> str:
    return str(getattr(value, "name", value))


KINDS = [(k, dtype) for k in cases.KERNELS.values() for dtype in k.header.dtypes]
GEMMS = [(k, dtype) for k, dtype in KINDS if k.header.op == "gemm"]


def _sizes() -> list[tuple[Kernel, str]]:
    """The first type of each size of entry; of a variant the first of all, its default has the others."""
    found: dict[tuple[str, int], tuple[Kernel, str]] = {}
    for kernel, dtype in KINDS:
        if not kernel.variant.name or dtype == kernel.header.dtypes[0]:
            found.setdefault((kernel.name, ITEMSIZE[dtype]), (kernel, dtype))
    return list(found.values())


SIZES = _sizes()
"""Addresses, and vectors of entries, depend on the size of an entry alone."""

each_kernel = pytest.mark.parametrize(("kernel", "dtype"), KINDS, ids=name)
each_gemm = pytest.mark.parametrize(("kernel", "dtype"), GEMMS, ids=name)


def each_size(*ops: str, variants: bool = True) -> pytest.MarkDecorator:
    """Every kernel of these ops with each size of entry. variants: or only the defaults."""
    pairs = [(k, d) for k, d in SIZES if k.header.op in ops and (variants or not k.variant.name)]
    return pytest.mark.parametrize(("kernel", "dtype"), pairs, ids=name)


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
