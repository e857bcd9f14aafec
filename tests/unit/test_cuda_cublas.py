"""cuBLAS calls: argument order and types against a stand-in that checks them as cuBLAS does."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

import backends
from backends import Problem, Unavailable, _cuda_compile, cublas
from backends.operands import numpy_dtype
from tests.cuda_on_cpu import device as stand_in

pytestmark = pytest.mark.skipif(bool(stand_in.missing()), reason=stand_in.missing() or "compilers are here")

TOLERANCE = {"float64": 1e-13, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}


@pytest.fixture
def blas(monkeypatch):
    path = str(stand_in.library("cublas"))
    monkeypatch.setattr(cublas, "library_paths", lambda: [path])
    monkeypatch.setattr(_cuda_compile, "version", lambda: (13, 0))
    for name in ("NVIDIA_TF32_OVERRIDE", *(name for name, _ in cublas._SWITCHES)):
        monkeypatch.delenv(name, raising=False)
    cublas.library.cache_clear()
    monkeypatch.setattr(cublas.Handle, "_idle", {})
    with stand_in.device():
        before = stand_in.held()
        yield ctypes.CDLL(path)
        assert stand_in.held() == before
    cublas.library.cache_clear()


def product(p):
    """C by cuBLAS and by NumPy in float64, from random operands; A and B are NaN when alpha is 0."""
    operands = backends.allocate(p)
    backends.fill_random(operands, 1)
    before = np.random.default_rng(2).random(operands.c.shape)
    operands.c[...] = before.astype(operands.c.dtype) if p.beta else np.nan
    before = operands.c.astype(np.float64)
    if p.alpha == 0:
        operands.a.fill(np.nan)
        operands.b.fill(np.nan)
    session = cublas.Cublas().open(p, operands)
    session.enqueue("once")
    session.run_empty()
    info = session.info
    session.close()
    a, b = operands.a.astype(np.float64), operands.b.astype(np.float64)
    a = a.swapaxes(-1, -2) if p.trans_a else a
    b = b.swapaxes(-1, -2) if p.trans_b else b
    want = p.alpha * (a @ b) if p.alpha else np.zeros(operands.c.shape)
    want = want + (p.beta * before if p.beta else 0.0)
    return operands.c.astype(np.float64), want, info


SCALES = [(1.0, 0.0), (0.5, -2.0), (0.0, 0.0), (0.0, 3.0), (0.0, 1.0)]
KINDS = [*cublas.COMPUTE]


def kinds_here():
    for dtype, math in KINDS:
        try:
            numpy_dtype(dtype)
        except Unavailable:
            continue
        yield dtype, math


@pytest.mark.parametrize("shape", [(33, 17, 5), (7, 130, 1), (3, 5, 0), (0, 4, 4), (4, 0, 4), (13, 7, 70)])
@pytest.mark.parametrize("batch", [1, 3])
def test_gemm(blas, shape, batch):
    m, n, k = shape
    for (dtype, math), ta, tb, (alpha, beta) in itertools.product(
        kinds_here(), (False, True), (False, True), SCALES
    ):
        p = Problem(
            m=m, n=n, k=k, batch=batch, dtype=dtype, math=math, trans_a=ta, trans_b=tb, alpha=alpha, beta=beta
        )
        got, want, _ = product(p)
        np.testing.assert_allclose(got, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=str(p))


@pytest.mark.parametrize("shape", [(33, 300), (7, 1), (64, 0), (1, 1)])
def test_gemv(blas, shape):
    m, n = shape
    for (dtype, math), ta, (alpha, beta) in itertools.product(kinds_here(), (False, True), SCALES):
        p = Problem(op="gemv", m=m, n=n, dtype=dtype, math=math, trans_a=ta, alpha=alpha, beta=beta)
        got, want, _ = product(p)
        np.testing.assert_allclose(got, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=str(p))


@pytest.mark.parametrize(
    ("dtype", "math", "compute", "mode"),
    [
        ("float64", "fp64", (70, "CUBLAS_COMPUTE_64F"), 0),
        ("float32", "fp32", (68, "CUBLAS_COMPUTE_32F"), 0),
        ("float32", "tf32", (77, "CUBLAS_COMPUTE_32F_FAST_TF32"), 0),
        ("float16", "fp16", (68, "CUBLAS_COMPUTE_32F"), 16),
    ],
)
def test_the_arithmetic_is_the_stated_one(blas, dtype, math, compute, mode):
    _, _, info = product(Problem(m=4, n=4, k=4, dtype=dtype, math=math))
    assert (blas.fake_compute(), info.config["compute"]) == compute
    assert blas.fake_math_mode() == mode
    assert info.config["library"] == "cuBLAS 13.1.0"


def test_a_closed_session_leaves_its_handle_for_the_next(blas):
    p = Problem(m=4, n=4, k=4)
    before = blas.fake_handles()
    product(p)
    product(p)
    assert blas.fake_handles() == before + 1


def test_float32_through_float32_only(monkeypatch):
    backend, p = cublas.Cublas(), Problem(m=4, n=4, k=4)
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    assert "NVIDIA_TF32_OVERRIDE=1" in backend.supports(p)
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert backend.supports(p) is None
    assert "turns TF32 off" in backend.supports(Problem(m=4, n=4, k=4, math="tf32"))
    monkeypatch.setenv("CUBLAS_EMULATE_DOUBLE_PRECISION", "1")
    assert "emulate float64" in backend.supports(Problem(m=4, n=4, k=4, dtype="float64"))


def test_what_it_does_not_compute(blas):
    backend = cublas.Cublas()
    assert "vector_add" in backend.supports(Problem(op="vector_add", n=4))
    assert "float32 in bf16" in backend.supports(Problem(m=4, n=4, k=4, math="bf16"))
    p = Problem(op="vector_add", n=4)
    operands = backends.allocate(p)
    with pytest.raises(Unavailable, match="vector_add"):
        backend.open(p, operands)


def test_sizes_beyond_32_bits_take_the_64_bit_interface():
    alpha = beta = ctypes.c_void_p(0)
    places = (1 << 20, 2 << 20, 3 << 20)
    wide = cublas.gemm_call(Problem(m=3, n=2**31, k=1), places, alpha, beta)
    assert wide.name == "cublasGemmEx_64"
    assert wide.arguments[2].value == 2**31 and isinstance(wide.arguments[2], ctypes.c_int64)
    batched = cublas.gemm_call(Problem(m=2**31, n=1, k=1, batch=2), places, alpha, beta)
    assert batched.name == "cublasGemmStridedBatchedEx_64"
    assert cublas.gemv_call(Problem(op="gemv", m=2**31, n=2), places, alpha, beta).name == "cublasSgemv_v2_64"
    assert cublas.scale_call(Problem(m=2**16, n=2**16, k=0), 1 << 20, beta).name == "cublasScalEx_64"
    assert cublas.gemm_call(Problem(m=3, n=2**31 - 1, k=1), places, alpha, beta).name == "cublasGemmEx"


def test_a_cublas_without_the_64_bit_interface_is_a_reason(blas):
    handle = cublas.Handle()
    call = cublas.Call("cublasGemmEx_65", ())
    with pytest.raises(Unavailable, match=r"no cublasGemmEx_65, which sizes beyond 2\^31 need"):
        cublas._prepared(handle, call)


def test_no_library_is_a_reason_with_a_cure(blas, monkeypatch):
    monkeypatch.setattr(cublas, "library_paths", lambda: ["libcublas.so.none"])
    cublas.library.cache_clear()
    found = cublas.Cublas().probe()
    assert not found.ok
    assert found.reason == "libcublas.so.13 not found"
    assert found.cure == "pip install 'gemm-crossover[cuda13]'"


def test_wheels_come_before_the_loader_and_the_toolkit(monkeypatch, tmp_path):
    for folder in ("nvidia/cu13/lib", "toolkit/lib64"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "libcublas.so.13").write_text("")
    monkeypatch.setattr(_cuda_compile, "version", lambda: (13, 0))
    monkeypatch.setattr(_cuda_compile, "wheel_dirs", lambda major: [tmp_path / "nvidia/cu13/include"])
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "toolkit"))
    assert cublas.library_paths() == [
        str(tmp_path / "nvidia/cu13/lib/libcublas.so.13"),
        "libcublas.so.13",
        str(tmp_path / "toolkit/lib64/libcublas.so.13"),
    ]


def test_a_failing_call_is_named(blas):
    assert str(cublas.explain("cublasGemmEx", 15)) == "cublasGemmEx: CUBLAS_STATUS_NOT_SUPPORTED (15)"
    with pytest.raises(cublas.CublasError, match="ALLOC_FAILED"):
        cublas.check("cublasCreate", 3)
