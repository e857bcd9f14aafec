"""Kernels, launches and sessions run here, on the CPU stand-in for a CUDA device."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

import backends
from backends import Problem, Unavailable, _cuda_driver, _cuda_launch, _cuda_realign
from backends import _cuda_compile as compiling
from backends.cuda_kernels import CudaKernel, load
from backends.operands import numpy_dtype
from suite.verify_compile import layouts
from tests import cuda_cases as cases
from tests.cuda_on_cpu import device as stand_in

pytestmark = pytest.mark.skipif(bool(stand_in.missing()), reason=stand_in.missing() or "compilers are here")

ROOT = Path(__file__).resolve().parents[2]
FEW = {
    "02": 3, "03": 17, "04": 7, "05": 11, "06": 11, "07": 17, "08": 41, "09": 131, "10_mma_sync_": 97,
    "10": 131, "13": 41, "14": 31, "20": 19, "21": 61,
}  # fmt: skip
"""Every so many problems only, where fibers are slow; by the beginning of the file's name."""

ON_CPU = [kernel for kernel in cases.KERNELS.values() if not cases.has_assembly(kernel)]


@pytest.fixture
def device():
    with stand_in.device():
        before = stand_in.held()
        yield _cuda_driver.device(0)
        gc.collect()
        assert stand_in.held() == before, "device memory, streams or events were not freed"


def dtypes(kernel):
    for dtype in kernel.header.dtypes:
        try:
            numpy_dtype(dtype)
        except Unavailable:
            continue
        yield dtype


@pytest.fixture(scope="module")
def compiled_ahead(request):
    """What the tests that were chosen need is compiled while the first of them run."""
    chosen = [getattr(item, "callspec", None) for item in request.session.items]
    of_kernels = [c.params for c in chosen if c and {"order", "kernel"} <= c.params.keys()]
    kernels = {params["kernel"].name: params["kernel"] for params in of_kernels}
    wanted = [(k.name, d, more) for k in kernels.values() for d in dtypes(k) for more in layouts(k, d)]
    with stand_in.compiled_ahead(wanted):
        yield


@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
@pytest.mark.parametrize("kernel", ON_CPU, ids=lambda k: k.name)
def test_exact_at_and_beside_the_tile_in_every_layout(kernel, order, compiled_ahead, device, monkeypatch):
    monkeypatch.setenv("KERNEL_ORDER", order)
    step = next((n for file, n in FEW.items() if kernel.path.name.startswith(file)), 2)
    start = ["forward", "reverse", "random"].index(order)
    for dtype in dtypes(kernel):
        problems = list(cases.problems(kernel, dtype, cases.tile_shapes(kernel)))
        for i in range(start, len(problems), step):
            cases.check(kernel, problems[i], cases.LAYOUTS[i % len(cases.LAYOUTS)], seed=i)


@pytest.mark.parametrize(
    "name",
    ["cuda:01_naive", "cuda:02_shared_tile/16", "cuda:05_register_tile", "cuda:07_warp_tile", "cuda:08_wmma"],
)
def test_batches(name, device):
    kernel = cases.KERNELS[name]
    dtype = kernel.header.dtypes[0]
    math = kernel.header.math[0]
    p = Problem(m=5, n=35, k=18, batch=3, dtype=dtype, math=math, trans_b=True, beta=-2.0)
    cases.check(kernel, p, cases.Layout(1, 3))


@pytest.mark.parametrize("moved", [True, False], ids=["moved", "direct"])
@pytest.mark.parametrize(
    "name", ["cuda:09_wmma_staged/128x128", "cuda:10_mma_sync/64x64", "cuda:10_mma_sync_tf32"]
)
def test_operands_that_begin_anywhere_are_moved_or_read_where_they_are(name, moved, device, monkeypatch):
    moves = []
    prepare = _cuda_realign.prepare
    monkeypatch.setattr(_cuda_launch, "realigns", lambda kernel, p: moved)
    monkeypatch.setattr(_cuda_realign, "prepare", lambda *a: moves.append(prepare(*a)) or moves[-1])
    monkeypatch.setenv("FAKE_ALIGN", "16" if moved else "2")  # one entry too far is one page too far
    kernel = cases.KERNELS[name]
    dtype, math = kernel.header.dtypes[0], kernel.header.math[0]
    for layout, stored in ((cases.Layout(1), "nn"), (cases.Layout(3, 1), "tt"), (cases.Layout(0, 2), "tn")):
        a, b = (s == "t" for s in stored)
        p = Problem(m=67, n=71, k=139, batch=2, dtype=dtype, math=math, trans_a=a, trans_b=b)
        cases.check(kernel, p, layout, bare=layout.offset == 0)
    assert len([m for m in moves if m]) == (3 if moved else 0)


@pytest.mark.parametrize("name", ["cuda:10_mma_sync/64x64", "cuda:10_mma_sync_tf32"])
@pytest.mark.parametrize("full", [False, True], ids=["room", "no room"])
def test_without_room_to_move_operands_they_are_read_where_they_are(name, full, device, monkeypatch):
    kernel = cases.KERNELS[name]
    p = Problem(m=67, n=71, k=139, dtype=kernel.header.dtypes[0], math=kernel.header.math[0])
    if full:
        monkeypatch.setattr(_cuda_realign, "allocate", lambda *_: _full())
    cases.check(kernel, p, cases.Layout(0))
    session = backends.get(name).open(p, backends.allocate(p))
    config = session.info.config
    session.close()
    assert config.get("not_realigned") == ("1 byte is free" if full else None)
    assert ("realigned_bytes" in config) is not full


def _full():
    raise Unavailable("1 byte is free")


@pytest.mark.parametrize("shape", [(70_001, 1, 2), (1, 140_001, 1)], ids=["tall", "wide"])
def test_more_than_65535_tiles_in_one_direction(shape, device, monkeypatch):
    naive = cases.KERNELS["cuda:01_naive"]
    tiny = msgspec.structs.replace(naive.variant, threads=(2, 1), tile=(1, 2, 1))
    kernel = msgspec.structs.replace(naive, variant=tiny)
    path = stand_in.compile_source(kernel.path, kernel.header.entry, kernel.defines("float32"))
    compiled = compiling.Compiled(str(path).encode(), 0.0, "", "")
    monkeypatch.setattr(compiling, "compile_kernel", lambda *_: compiled)
    m, n, k = shape
    assert _cuda_launch.blocks(kernel, Problem(m=m, n=n, k=k)) == 70_001
    cases.check(kernel, Problem(m=m, n=n, k=k))


def filled(p, seed=1):
    operands = backends.allocate(p)
    backends.fill_random(operands, seed)
    return operands


@pytest.mark.parametrize("mode", ["resident", "once", "always"])
@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_a_session_in_every_transfer_mode(mode, beta, device):
    p = Problem(m=9, n=7, k=5, beta=beta)
    operands = filled(p)
    operands.c.fill(1.0 if beta else np.nan)
    session = backends.get("cuda:01_naive").open(p, operands)
    if mode == "resident":
        session.upload()
    session.enqueue(mode, 1)
    if mode == "resident":
        session.download()
        session.synchronize()
    np.testing.assert_allclose(operands.c, operands.a @ operands.b + beta, rtol=1e-5)
    session.run_empty()
    session.synchronize()
    parts = session.parts()
    assert set(parts) == {"h2d", "launch", "kernel", "d2h"} and min(parts.values()) >= 0
    session.close()
    session.close()


def test_a_session_says_what_it_runs(device):
    p = Problem(m=65, n=33, k=5)
    session = backends.get("cuda:02_shared_tile/16").open(p, filled(p), host_memory="pinned")
    info = session.info
    assert info.kernel == "shared_tile" and len(info.kernel_hash) > 8 and info.tile == (16, 16)
    assert info.config["blocks"] == 5 * 3 and info.config["threads"] == [16, 16]
    assert info.config["host_memory"] == "pinned"
    assert info.compile_s is not None and info.alloc_s >= 0
    session.close()


@pytest.mark.parametrize("shape", [(0, 4, 4), (4, 0, 4), (4, 4, 0), (0, 0, 0)])
def test_empty_products(shape, device):
    m, n, k = shape
    p = Problem(m=m, n=n, k=k, beta=3.0)
    operands = filled(p)
    operands.c.fill(2.0)
    session = backends.get("cuda:02_shared_tile").open(p, operands)
    session.enqueue("once")
    session.close()
    assert (operands.c == 6.0).all()


def test_out_of_memory_frees_everything_and_says_how_much(device, monkeypatch):
    monkeypatch.setenv("FAKE_GPU_BYTES", "20000")
    p = Problem(m=50, n=50, k=50)
    with pytest.raises(Unavailable, match="30000 bytes of device memory are needed, 20000 are free"):
        backends.get("cuda:01_naive").open(p, filled(p))


def test_operands_must_be_contiguous(device):
    p = Problem(m=4, n=4, k=4)
    a, b, c = filled(p)
    with pytest.raises(ValueError, match="C-contiguous"):
        backends.get("cuda:01_naive").open(p, backends.Operands(a.T, b, c))


def test_a_second_gpu_that_is_not_there(device):
    p = Problem(m=4, n=4, k=4)
    for devices in ((1,), (-1,), (0, 1)):
        with pytest.raises(Unavailable, match="give one of 0 to 0"):
            backends.get("cuda:01_naive").open(p, filled(p), devices=devices)


def test_a_closed_session_says_so(device):
    p = Problem(m=4, n=4, k=4)
    session = backends.get("cuda:01_naive").open(p, filled(p))
    session.close()
    with pytest.raises(Unavailable, match="closed"):
        session.activate()


def test_a_device_error_is_raised_with_its_name(device, monkeypatch):
    p = Problem(m=4, n=4, k=4)
    session = backends.get("cuda:01_naive").open(p, filled(p))
    monkeypatch.setattr(session, "_run", lambda: 719)
    with pytest.raises(_cuda_driver.CudaError, match=r"launch of cuda:01_naive: .*\(719\)"):
        session.run()
    session.close()


def test_everyday_calls_run_on_the_device(device):
    rng = np.random.default_rng(0)
    A, B = rng.random((20, 30), np.float32), rng.random((30, 10), np.float32)
    backend = backends.get("cuda:02_shared_tile")
    np.testing.assert_allclose(backend.gemm(A, B), A @ B, rtol=1e-5)
    np.testing.assert_allclose(backend.gemm(B.T, A.T, alpha=2.0), 2 * (A @ B).T, rtol=1e-5)
    rows = backends.get("cuda:20_gemv_warp_row")
    np.testing.assert_allclose(rows.gemv(A, A[0]), A @ A[0], rtol=1e-5)


def in_a_fork(work):
    """The text of what `work` raises in a forked child."""
    reader, writer = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        try:
            work()
            writer.send("nothing raised")
        except BaseException as error:
            writer.send(f"{type(error).__name__}: {error}")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return reader.recv()


def test_a_forked_child_is_told_to_spawn(device):
    p = Problem(m=4, n=4, k=4)
    operands = filled(p)
    session = backends.get("cuda:01_naive").open(p, operands)
    for work in (session.run, session.upload, session.download, session.synchronize, session.activate):
        text = in_a_fork(work)
        assert "fork" in text and "spawn" in text, (work, text)
    text = in_a_fork(lambda: backends.get("cuda:01_naive").open(p, operands))
    assert "fork" in text and "spawn" in text
    assert in_a_fork(session.close) == "nothing raised"
    session.enqueue("once")
    session.close()


REAL_LAUNCH = """
import ctypes, sys
from backends import _cuda_driver as cuda, _cuda_launch as launching
from backends._cuda_source import all_kernels
from backends import Problem
from tests.cuda_on_cpu import device as stand_in
from tests import cuda_cases as cases
real = cuda._compiled_launch
with stand_in.device():
    cuda._compiled_launch = real
    assert real() is not None
    cases.check(cases.KERNELS["cuda:02_shared_tile/16"], Problem(m=17, n=33, k=40), cases.Layout(1, 1))
    d = cuda.device(0)
    launch = d.driver.launch(0, 0, (1, 1), 0, 0, 0)
    try:
        launch()
        print("no error")
    except Exception as error:
        print(type(error).__name__)
"""


def test_launches_through_cupy_are_the_same(tmp_path):
    pytest.importorskip("cupy", reason="no CuPy")
    library = stand_in.library("driver")
    done = subprocess.run(
        [sys.executable, "-c", REAL_LAUNCH], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "LD_LIBRARY_PATH": str(library.parent)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "CUDADriverError"


def test_every_variant_is_usable(device):
    for backend in load():
        assert isinstance(backend, CudaKernel)
        assert backend.probe().ok
