"""Kernels and cuBLAS on a real GPU: exact results in every layout, long sums, batches, sessions.

Test names carry the backend's name: `python -m suite verify` reads from them which kernel passed what.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest

import backends
from backends import Problem, Unavailable, _cuda_driver, _cuda_launch
from backends._cuda_session import Buffers
from backends.cublas import COMPUTE
from tests import cuda_cases as cases
from tests import gpu_kinds as gpu

pytestmark = pytest.mark.gpu

each_kernel, each_gemm, KINDS = gpu.each_kernel, gpu.each_gemm, gpu.KINDS
usable = pytest.fixture(autouse=True)(gpu.usable)


def run(kernel, problems):
    for i, p in enumerate(problems):
        cases.check(kernel, p, cases.LAYOUTS[i % len(cases.LAYOUTS)], seed=i)


@each_kernel
def test_exact_at_and_beside_the_tile(kernel, dtype):
    run(kernel, cases.problems(kernel, dtype, cases.tile_shapes(kernel)))


@each_kernel
def test_exact_for_a_long_sum(kernel, dtype):
    op = kernel.header.op
    shape = {"gemm": (65, 33, 8192 + 5), "gemv": (65, 100_003, 1)}.get(op, (1, 3_000_017, 1))
    run(kernel, cases.problems(kernel, dtype, [shape]))


@each_gemm
def test_batches(kernel, dtype):
    math = dict(zip(kernel.header.dtypes, kernel.header.math, strict=True))[dtype]
    for count, k in ((2, 18), (70_000, 2)):
        p = Problem(m=5, n=35, k=k, batch=count, dtype=dtype, math=math, trans_b=True, beta=-2.0)
        cases.check(kernel, p, cases.Layout(1, 3))


def random_session(backend, p, host_memory="pageable"):
    operands = backends.allocate(p, host_memory)
    backends.fill_random(operands, 3)
    operands.c.fill(np.nan)
    return backend.open(p, operands, host_memory=host_memory), operands


@each_kernel
def test_random_data_twice_gives_the_same_bits(kernel, dtype):
    math = dict(zip(kernel.header.dtypes, kernel.header.math, strict=True))[dtype]
    dims = {"gemm": {"m": 257, "n": 129, "k": 333}, "gemv": {"m": 257, "n": 3333}}.get(
        kernel.header.op, {"n": 123_457}
    )
    transposed = kernel.header.transposes == ("t",)
    p = Problem(op=kernel.header.op, dtype=dtype, math=math, trans_a=transposed, **dims)
    session, operands = random_session(backends.get(kernel.name), p)
    session.enqueue("once")
    first = operands.c.tobytes()
    operands.c.fill(np.nan)
    session.enqueue("once", 3)
    assert operands.c.tobytes() == first
    assert not np.isnan(operands.c.astype(np.float32)).any()
    session.close()


@pytest.mark.parametrize("name", ["cublas", "cuda:02_shared_tile"])
@pytest.mark.parametrize("host_memory", ["pageable", "pinned"])
@pytest.mark.parametrize("mode", ["resident", "once", "always"])
def test_transfer_modes(name, host_memory, mode):
    p = Problem(m=300, n=200, k=100)
    session, operands = random_session(backends.get(name), p, host_memory)
    if mode == "resident":
        session.upload()
    session.enqueue(mode, 3)
    if mode == "resident":
        session.download()
        session.synchronize()
    want = operands.a.astype(np.float64) @ operands.b.astype(np.float64)
    np.testing.assert_allclose(operands.c, want, atol=1e-4)
    session.run_empty()
    parts = session.parts()
    assert set(parts) == {"h2d", "launch", "kernel", "d2h"} and min(parts.values()) > 0
    session.close()


@pytest.mark.parametrize(("dtype", "math"), COMPUTE)
@pytest.mark.parametrize("op", ["gemm", "gemv"])
def test_cublas_in_every_arithmetic_layout_and_scale(op, dtype, math):
    backend = backends.get("cublas")
    state = backend.probe()
    if not state.ok:
        pytest.skip(f"no GPU for cublas: {state.reason}")
    tolerance = {"fp64": 1e-12, "fp32": 1e-4, "tf32": 5e-2, "fp16": 5e-2, "bf16": 3e-1}[math]
    for ta, tb, (alpha, beta), batch in (
        (ta, tb, scale, batch)
        for ta in (False, True)
        for tb in ((False, True) if op == "gemm" else (False,))
        for scale in (*cases.SCALES, (0.0, 1.0))
        for batch in ((1, 3) if op == "gemm" else (1,))
    ):
        dims = {"m": 65, "n": 33, "k": 127} if op == "gemm" else {"m": 65, "n": 333}
        p = Problem(
            op=op, dtype=dtype, math=math, trans_a=ta, trans_b=tb, alpha=alpha, beta=beta, batch=batch, **dims
        )
        operands = backends.allocate(p)
        backends.fill_random(operands, 1)
        operands.c.fill(1.0 if beta else np.nan)
        a, b = (x.astype(np.float64) for x in operands[:2])
        want = alpha * (a.swapaxes(-1, -2) if ta else a) @ (b.swapaxes(-1, -2) if tb else b) + beta
        if alpha == 0:
            operands.a.fill(np.nan)
        session = backend.open(p, operands)
        session.enqueue("once")
        session.run_empty()
        session.close()
        np.testing.assert_allclose(operands.c.astype(np.float64), want, atol=tolerance, err_msg=str(p))


@pytest.mark.parametrize("shape", [(0, 4, 4), (4, 0, 4), (4, 4, 0)])
@pytest.mark.parametrize("name", ["cublas", "cuda:01_naive"])
def test_empty_products(name, shape):
    m, n, k = shape
    p = Problem(m=m, n=n, k=k, beta=3.0)
    operands = backends.allocate(p)
    operands.c.fill(2.0)
    session = backends.get(name).open(p, operands)
    session.enqueue("once")
    session.run_empty()
    session.close()
    assert (operands.c == 6.0).all()


@pytest.mark.alone
def test_out_of_memory_is_a_reason_and_leaves_nothing_behind():
    device = _cuda_driver.device(0)
    device.activate()
    p = Problem(m=4, n=4, k=4)
    session, _ = random_session(backends.get("cuda:01_naive"), p)
    session.close()
    gc.collect()
    before = device.driver.free_memory()
    huge = _cuda_driver.device(0).driver.total_memory(0)
    with pytest.raises(Unavailable, match=f"{huge + 4096} bytes of device memory are needed"):
        Buffers(device, (4096, huge))
    assert device.driver.free_memory() >= before


@pytest.mark.alone
def test_closing_frees_the_device_memory():
    device = _cuda_driver.device(0)
    p = Problem(m=4096, n=4096, k=4096)
    session, _ = random_session(backends.get("cuda:01_naive"), p)
    used = device.driver.free_memory()
    session.close()
    assert device.driver.free_memory() - used >= 3 * 4096 * 4096 * 4


def square(kernel, dtype):
    """A problem that the kernel takes, as far as its loading is concerned."""
    math = dict(zip(kernel.header.dtypes, kernel.header.math, strict=True))[dtype]
    return Problem(op=kernel.header.op, m=64, n=64, k=64, dtype=dtype, math=math)


@each_kernel
def test_does_not_spill_on_this_gpu(kernel, dtype):
    """The compiler here may be another than the one of `test_cuda_compile.py`."""
    found = _cuda_launch.load(kernel, square(kernel, dtype), _cuda_driver.device(0))
    assert found.resources["local_bytes"] == 0, found.resources
