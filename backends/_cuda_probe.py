"""Whether CUDA can be used here, and if not, why and what to do: asked once, never raises."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
from typing import Any

from . import _cuda_compile as compiling
from . import _cuda_driver as cuda
from ._cuda_session import FORKED
from .base import Availability

_INSTALL = "pip install 'gemm-crossover[cuda13]' (driver 580 or newer) or 'gemm-crossover[cuda12]'"


def probe() -> Availability:
    """Driver, device, CuPy and NVRTC, in this order; `detail` has what was found."""
    if cuda.forked():
        return Availability(ok=False, reason=FORKED, cure="use the spawn start method")
    return _probe(os.environ.get("CUDA_VISIBLE_DEVICES"))


@functools.cache
def _probe(visible: str | None) -> Availability:
    detail: dict[str, Any] = {}
    for step in (_driver, _devices, _cupy, _nvrtc):
        try:
            problem = step(detail, visible)
        except Exception as error:  # whatever a broken installation raises is a reason, never a crash
            problem = f"{type(error).__name__}: {error}", _INSTALL
        if problem is not None:
            return Availability(ok=False, reason=problem[0], cure=problem[1], detail=detail)
    return Availability(ok=True, detail=detail)


Found = tuple[str, str] | None
"""(reason, cure) of a failed step, or None."""


def _driver(detail: dict[str, Any], visible: str | None) -> Found:
    try:
        driver = cuda.driver()
    except OSError:
        return f"no NVIDIA driver: {cuda.LIBRARY} was not found", "install it: nvidia-smi must work"
    except AttributeError as error:
        return f"the NVIDIA driver is too old: {error}", "update the NVIDIA driver"
    except cuda.CudaError as error:
        return _not_started(error, visible)
    detail["driver_cuda"] = driver.version()
    return None


def _not_started(error: cuda.CudaError, visible: str | None) -> Found:
    if error.code == cuda.NO_DEVICE:
        return _no_device(visible)
    if error.code == cuda.NOT_INITIALIZED:
        cure = "use the spawn start method or a new process; if nvidia-smi fails too, reload the driver"
        return f"CUDA does not start, as after a fork() of a process that used it: {error}", cure
    return f"CUDA does not start: {error}", "nvidia-smi must work; reboot after a driver update"


def _no_device(visible: str | None) -> Found:
    if visible is None:
        return "the driver sees no CUDA device", "nvidia-smi must list a GPU"
    return (
        f"no CUDA device is left by CUDA_VISIBLE_DEVICES={visible!r}",
        "unset it, or name a device there is",
    )


def _devices(detail: dict[str, Any], visible: str | None) -> Found:
    driver = cuda.driver()
    count = driver.device_count()
    if count == 0:
        return _no_device(visible)
    device = cuda.device(0)
    detail.update(
        devices=count,
        gpu=device.name,
        compute_capability=".".join(map(str, device.compute)),
        multiprocessors=device.multiprocessors,
        memory_bytes=driver.total_memory(0),
        l2_bytes=driver.attribute(cuda.L2_BYTES, 0),
    )
    return None


def cupy_distributions() -> list[str]:
    """Names of the installed distributions that bring a `cupy` package."""
    names = {str(d.metadata["Name"]) for d in importlib.metadata.distributions() if d.metadata["Name"]}
    return sorted(name for name in names if re.fullmatch(r"cupy(-cuda\w+|-rocm[\w-]+)?", name))


def _cupy(detail: dict[str, Any], visible: str | None) -> Found:
    installed = cupy_distributions()
    if len(installed) > 1:
        keep = f"pip uninstall {' '.join(installed)}, then {_INSTALL}"
        return f"{len(installed)} CuPy distributions overwrite each other: {', '.join(installed)}", keep
    try:
        import cupy
        from cupy_backends.cuda.api import driver, runtime
    except ImportError as error:
        reason = "CuPy is not installed" if not installed else f"CuPy does not import: {error}"
        return reason, _INSTALL
    built, newest = driver.get_build_version() // 1000, detail["driver_cuda"] // 1000
    detail.update(cupy=cupy.__version__, cupy_cuda=built)
    if newest < built:
        cure = (
            f"update the NVIDIA driver, or pip install 'gemm-crossover[cuda{newest}]' in its own environment"
        )
        return f"CuPy is made for CUDA {built}, the driver supports up to CUDA {newest}", cure
    runtime.getDeviceCount()
    return None


def _nvrtc(detail: dict[str, Any], visible: str | None) -> Found:
    binding = compiling.nvrtc()
    try:
        version = compiling.version()
    except Exception as error:
        extra = f"pip install 'gemm-crossover[cuda{detail['cupy_cuda']}]'"
        return f"CuPy finds no NVRTC ({type(error).__name__})", f"{extra} (it is in nvidia-cuda-nvrtc)"
    detail["nvrtc"] = ".".join(map(str, version))
    if version[0] != detail["cupy_cuda"]:
        cure = f"pip install 'gemm-crossover[cuda{detail['cupy_cuda']}]' in a fresh environment"
        return f"NVRTC {detail['nvrtc']} does not belong to CuPy for CUDA {detail['cupy_cuda']}", cure
    major, minor = cuda.device(0).compute
    if major * 10 + minor not in binding.getSupportedArchs():
        reason = f"NVRTC {detail['nvrtc']} cannot compile for compute capability {major}.{minor}"
        return reason, "update CuPy and the CUDA wheels"
    return None
