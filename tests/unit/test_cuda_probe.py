"""The reasons why CUDA cannot be used, each with its cure; none of them is ever raised."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backends import _cuda_compile as compiling
from backends import _cuda_driver as cuda
from backends import _cuda_probe as probing
from backends.cuda_kernels import load
from tests.cuda_on_cpu import device as stand_in

ROOT = Path(__file__).resolve().parents[2]
needs_compilers = pytest.mark.skipif(bool(stand_in.missing()), reason=stand_in.missing() or "they are here")

PRINT = "import backends; a = backends.get('cuda:01_naive').probe(); print(a.ok, a.reason, '|', a.cure)"


@pytest.mark.parametrize("visible", ["", "-1", "99"])
def test_hidden_devices_are_a_reason_not_a_crash(visible):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PRINT], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": visible},
    )  # fmt: skip
    assert done.stdout.startswith("False ")
    assert f"CUDA_VISIBLE_DEVICES={visible!r}" in done.stdout or "no NVIDIA driver" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert done.stdout.partition("|")[2].strip()


def test_reading_the_kernels_imports_neither_cupy_nor_a_driver():
    script = (
        "import sys, backends; backends.all_backends();"
        "print('cupy' in sys.modules, len([b for b in backends.all_backends() if b.device == 'cuda']) > 8)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]


class Runtime:
    """CuPy's runtime module as far as the probe asks it."""

    error: Exception | None = None

    def count(self):
        if self.error:
            raise self.error
        return 1


@pytest.fixture
def machine(monkeypatch):
    """The stand-in driver with everything else in order; change one thing and look at the reason."""
    pytest.importorskip("cupy", reason="no CuPy")
    from cupy_backends.cuda.api import runtime

    state = Runtime()
    monkeypatch.setattr(runtime, "getDeviceCount", state.count)
    monkeypatch.setattr(probing, "cupy_distributions", lambda: ["cupy-cuda13x"])
    monkeypatch.setattr(compiling, "version", lambda: (13, 0))
    with stand_in.device(usable=False):
        yield state


def refused(words: str, cure: str) -> None:
    found = probing.probe()
    assert not found.ok
    assert words in found.reason
    assert cure in found.cure
    assert "\n" not in found.reason


@needs_compilers
def test_a_usable_machine_says_what_it_has(machine):
    found = probing.probe()
    assert found.ok and found.reason == ""
    assert found.detail["gpu"] == "CPU0" and found.detail["compute_capability"] == "9.0"
    assert found.detail["driver_cuda"] == 13000 and found.detail["nvrtc"] == "13.0"
    assert found.detail["devices"] == 1 and found.detail["memory_bytes"] == 2**32
    assert all(b.probe().ok for b in load())


@needs_compilers
def test_no_device_left(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    refused("CUDA_VISIBLE_DEVICES='-1'", "unset it")


@needs_compilers
def test_no_driver(machine, monkeypatch):
    monkeypatch.setattr(cuda, "LIBRARY", "libcuda.so.does-not-exist")
    refused("no NVIDIA driver", "nvidia-smi")


@needs_compilers
def test_a_library_that_is_no_driver(machine, monkeypatch):
    monkeypatch.setattr(cuda, "LIBRARY", "libm.so.6")
    refused("too old", "update")


@needs_compilers
def test_a_driver_older_than_cupy(machine, monkeypatch):
    monkeypatch.setenv("FAKE_DRIVER_CUDA", "12040")
    refused("CuPy is made for CUDA 13, the driver supports up to CUDA 12", "cuda12")


@needs_compilers
def test_two_cupy_distributions(machine, monkeypatch):
    monkeypatch.setattr(probing, "cupy_distributions", lambda: ["cupy-cuda12x", "cupy-cuda13x"])
    refused("2 CuPy distributions overwrite each other", "pip uninstall cupy-cuda12x cupy-cuda13x")


@needs_compilers
def test_no_cupy(machine, monkeypatch):
    monkeypatch.setattr(probing, "cupy_distributions", list)
    monkeypatch.setitem(sys.modules, "cupy", None)
    refused("CuPy is not installed", "pip install 'gemm-crossover[cuda13]'")


@needs_compilers
def test_whatever_cupy_raises(machine):
    machine.error = RuntimeError("cudaErrorInsufficientDriver: too old")
    refused("RuntimeError: cudaErrorInsufficientDriver", "pip install")


@needs_compilers
def test_no_nvrtc(machine, monkeypatch):
    def absent():
        raise RuntimeError("DynamicLibNotFoundError")

    monkeypatch.setattr(compiling, "version", absent)
    refused("CuPy finds no NVRTC", "nvidia-cuda-nvrtc")


@needs_compilers
def test_nvrtc_of_another_cuda(machine, monkeypatch):
    monkeypatch.setattr(compiling, "version", lambda: (12, 9))
    refused("NVRTC 12.9 does not belong to CuPy for CUDA 13", "cuda13")


@needs_compilers
def test_a_gpu_the_compiler_does_not_know(machine, monkeypatch):
    monkeypatch.setenv("FAKE_COMPUTE", "37")
    refused("cannot compile for compute capability 3.7", "update CuPy")


@needs_compilers
def test_a_gpu_too_old_for_one_kernel(machine, monkeypatch):
    monkeypatch.setenv("FAKE_COMPUTE", "75")
    found = {b.name: b.probe() for b in load()}
    assert found["cuda:01_naive"].ok
    assert "needs compute capability 8.0, this is 7.5" in found["cuda:08_wmma"].reason


@needs_compilers
def test_a_missing_header_takes_one_kernel_away(machine, monkeypatch):
    remedy = compiling.header_remedy("crt/mma.h")
    monkeypatch.setattr(compiling, "missing_header", lambda k: remedy if "wmma" in k.name else None)
    found = {b.name: b.probe() for b in load()}
    assert found["cuda:01_naive"].ok
    assert found["cuda:08_wmma"].reason == "CUDA header crt/mma.h not found"
    assert found["cuda:08_wmma"].cure.startswith("pip install")
