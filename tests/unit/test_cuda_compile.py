"""Every kernel and dtype compiled by NVRTC for three architectures, every variant for one, without a GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backends import _cuda_compile as compiling
from backends import _cuda_peaks as peaks
from backends import _cuda_source as source
from backends.base import Unavailable
from backends.cpus import allowed_cpus
from suite import verify_compile

ROOT = Path(__file__).resolve().parents[2]
KERNELS = [k for k in source.all_kernels().values() if isinstance(k, source.Kernel)]
TARGETS = {"sm_80": (8, 0), "sm_90a": (9, 0), "sm_100": (10, 0)}
VARIANT_TARGETS = ("sm_90a",)
"""Variants differ in numbers: compiled once each, they take a third of the minutes."""


def layouts(kernel, dtype):
    """All of them for a kernel's default, the first for its variants."""
    every = verify_compile.layouts(kernel, dtype)
    return every[:1] if kernel.variant.name else every


def case(kernel, dtype, target, more):
    name = "-".join([kernel.name, dtype, target, *(str(value) for _, value in more)])
    return pytest.param(kernel, dtype, target, more, id=name)


CASES = [
    case(kernel, dtype, target, more)
    for kernel in KERNELS
    for target, compute in TARGETS.items()
    if kernel.refuses(*compute) is None and (not kernel.variant.name or target in VARIANT_TARGETS)
    for dtype in kernel.header.dtypes
    for more in layouts(kernel, dtype)
]
PEAKS = [(f, kind) for f in peaks.files() for kind in f.header.instructions]


def nvrtc_reason() -> str:
    """Why nothing can be compiled here, or ""."""
    try:
        compiling.version()
    except Exception as error:
        return f"no NVRTC: {type(error).__name__}: {error}".splitlines()[0]
    return ""


pytestmark = pytest.mark.skipif(bool(nvrtc_reason()), reason=nvrtc_reason() or "NVRTC is here")


def verbose(kernel, dtype, target, more):
    """(cubin, what NVRTC and ptxas said)."""
    flags = [*compiling.options(kernel, dtype, target, more), "--ptxas-options=-v"]
    return compiling.compile_path(kernel.path, kernel.name, flags)


@pytest.fixture(scope="module")
def compilations(request):
    """Name of a test -> what comes of its compilation: those that were chosen, in order, on all CPUs."""
    name = test_compiles_without_a_warning_and_without_spills.__name__
    chosen = [item for item in request.session.items if getattr(item, "originalname", "") == name]
    compiling.nvrtc()
    with ThreadPoolExecutor(allowed_cpus()) as pool:  # NVRTC runs without Python's lock
        yield {item.name: pool.submit(verbose, **item.callspec.params) for item in chosen}
        pool.shutdown(wait=False, cancel_futures=True)


@pytest.mark.parametrize(("kernel", "dtype", "target", "more"), CASES)
def test_compiles_without_a_warning_and_without_spills(kernel, dtype, target, more, compilations, request):
    cubin, log = compilations[request.node.name].result()
    assert cubin[:4] == b"\x7fELF"
    assert "warning" not in log.lower()
    spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill", log)
    assert spills, "ptxas reported no resources"
    assert all(values == ("0", "0", "0") for values in spills)
    for symbol in (kernel.header.entry, "empty_kernel"):
        assert symbol.encode() in cubin


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100"])
@pytest.mark.parametrize(("file", "kind"), PEAKS, ids=lambda v: v if isinstance(v, str) else v.path.stem)
def test_peaks_compile_without_spills_where_they_are_offered(file, kind, target):
    compute = divmod(int(target.removeprefix("sm_").removesuffix("a")), 10)
    flags = [*peaks.options(file, kind, target), "--ptxas-options=-v"]
    if file not in peaks.offered(kind, compute):
        with pytest.raises(Unavailable, match="does not compile"):
            compiling.compile_path(file.path, "peak", flags)
        return
    cubin, log = compiling.compile_path(file.path, "peak", flags)
    assert file.header.entry.encode() in cubin
    assert "0 bytes spill stores, 0 bytes spill loads" in log and "warning" not in log.lower()


def test_hopper_gets_its_own_instructions():
    assert compiling.arch(9, 0) == "sm_90a"
    assert compiling.arch(8, 0) == "sm_80"
    assert compiling.arch(10, 0) == "sm_100"


def test_kernel_hash_depends_on_dtype_and_target_not_on_time():
    kernel = KERNELS[0]
    once = compiling.kernel_hash(kernel, "float32", "sm_90a")
    assert once == compiling.kernel_hash(kernel, "float32", "sm_90a")
    assert len({once, compiling.kernel_hash(kernel, "float64", "sm_90a")}) == 2
    assert len({once, compiling.kernel_hash(kernel, "float32", "sm_80")}) == 2


def test_no_path_of_this_machine_reaches_a_cubin():
    compiled = compiling.compile_file(KERNELS[0], "float32", "sm_90a")
    assert compiled.compile_s > 0
    assert str(ROOT).encode() not in compiled.cubin


HIDE_CRT = """
import sys
from pathlib import Path
is_file = Path.is_file
Path.is_file = lambda self: "crt" not in self.parts and is_file(self)
from backends import _cuda_compile as compiling, _cuda_source as source
if sys.argv[1] == "compile":
    compiling.system_dirs = lambda: []
for name in ("cuda:08_wmma", "cuda:02_shared_tile"):
    kernel = source.all_kernels()[name]
    if sys.argv[1] == "check":
        print(name, compiling.missing_header(kernel))
        continue
    try:
        print(name, len(compiling.compile_file(kernel, kernel.header.dtypes[0], "sm_90a").cubin) > 0)
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize(("how", "header"), [("check", "crt/mma.h"), ("compile", "mma.h")])
def test_a_missing_header_is_one_line_and_only_that_kernel(how, header):
    done = subprocess.run(
        [sys.executable, "-c", HIDE_CRT, how],
        cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "CUDA_PATH": "/nonexistent"},
    )  # fmt: skip
    first, second = done.stdout.splitlines()
    assert header in first and "pip install" in first and "CUDA_PATH" in first
    assert second == f"cuda:02_shared_tile {None if how == 'check' else True}"


def test_a_compiler_error_shows_the_log(tmp_path):
    path = tmp_path / "92_wrong.cu"
    text = next(p for p in source.files() if p.stem == "30_vector_add").read_text()
    path.write_text(text.replace("Acc sums[ITEMS];", "Acc sums[ITEMS]"))
    (kernel,) = source.parse(path)
    with pytest.raises(Unavailable, match=r"(?s)cuda:92_wrong does not compile.*92_wrong\.cu\(\d+\): error"):
        compiling.compile_file(kernel, "float32", "sm_90a")


def test_a_cubin_is_kept_where_a_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("GEMM_CUBIN_CACHE", str(tmp_path / "cubins"))
    first = compiling.compile_file(KERNELS[0], "float32", "sm_90a")
    assert [p.name for p in (tmp_path / "cubins").iterdir()] == [f"{first.kernel_hash}.cubin"]
    monkeypatch.setattr(compiling, "compile_path", lambda *_: pytest.fail("compiled again"))
    assert compiling.compile_file(KERNELS[0], "float32", "sm_90a").cubin == first.cubin
    with pytest.raises(pytest.fail.Exception, match="compiled again"):
        compiling.compile_file(KERNELS[0], "float32", "sm_80")
