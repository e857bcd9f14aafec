"""What can be read about the GPUs, their driver and the CUDA software, from CuPy, NVML and /sys."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any


def gpus(root: Path = Path("/")) -> list[dict[str, Any]]:
    """One dict for each visible GPU; empty where CuPy or a usable driver is missing (it may raise, too)."""
    import cupy

    runtime = cupy.cuda.runtime
    return [_gpu(runtime.getDeviceProperties(i), root) for i in range(runtime.getDeviceCount())]


def _gpu(properties: dict[str, Any], root: Path) -> dict[str, Any]:
    pci = "{pciDomainID:04x}:{pciBusID:02x}:{pciDeviceID:02x}.0".format(**properties)
    clock_khz = properties.get("clockRate")
    return {
        "name": properties["name"].decode(),
        "memory_bytes": properties["totalGlobalMem"],
        "sms": properties["multiProcessorCount"],
        "compute_capability": "{major}.{minor}".format(**properties),
        "l2_bytes": properties.get("l2CacheSize"),
        "clock_mhz": clock_khz // 1000 if clock_khz else None,
        "pcie": pcie(root / "sys/bus/pci/devices" / pci),
        **nvml_of(pci),
    }


def pcie(folder: Path) -> dict[str, str]:
    """Link speed and width, now and at most, as the kernel states them; {} where it does not."""
    names = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
    found = {}
    for name in names:
        with contextlib.suppress(OSError):
            found[name] = (folder / name).read_text().strip()
    return found


def _nvml() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return library if library.nvmlInit_v2() == 0 else None


def nvml_of(pci: str) -> dict[str, Any]:
    """SM and memory clocks (now, at most), PCIe generation and power limit of the GPU at this PCI address."""
    library = _nvml()
    handle = ctypes.c_void_p()
    if library is None or library.nvmlDeviceGetHandleByPciBusId_v2(pci.encode(), ctypes.byref(handle)):
        return {}

    def ask(name: str, *arguments: int) -> int | None:
        value = ctypes.c_uint()
        failed = getattr(library, name)(handle, *arguments, ctypes.byref(value))
        return None if failed else value.value

    milliwatts = ask("nvmlDeviceGetEnforcedPowerLimit")
    return {
        "sm_clock_mhz": ask("nvmlDeviceGetClockInfo", 1),
        "max_sm_clock_mhz": ask("nvmlDeviceGetMaxClockInfo", 1),
        "max_memory_clock_mhz": ask("nvmlDeviceGetMaxClockInfo", 2),
        "pcie_generation": ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        "pcie_width": ask("nvmlDeviceGetCurrPcieLinkWidth"),
        "power_limit_w": milliwatts / 1000 if milliwatts else None,
    }


def driver(root: Path = Path("/")) -> str | None:
    """Version of the kernel driver, such as 580.65.06; None where there is no driver."""
    library = _nvml()
    if library is not None:
        text = ctypes.create_string_buffer(96)
        if library.nvmlSystemGetDriverVersion(text, 96) == 0:
            return text.value.decode()
    try:
        first = (root / "proc/driver/nvidia/version").read_text().splitlines()[0]
    except OSError:
        return None
    match = re.search(r"\b\d{3}\.\d+(?:\.\d+)?\b", first)
    return match[0] if match else None


def dotted(number: int) -> str | None:
    """CUDA's 13020 as 13.2; None for 0."""
    return f"{number // 1000}.{number % 1000 // 10}" if number else None


def nvcc() -> str | None:
    """Release of the nvcc found first on PATH."""
    if not shutil.which("nvcc"):
        return None
    text = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, timeout=10).stdout
    match = re.search(r"release (\d+\.\d+)", text)
    return match[1] if match else None


def versions(root: Path = Path("/")) -> dict[str, Any]:
    """Every CUDA version visible: driver, what it supports, runtime, NVRTC, nvcc, cuBLAS, CuPy packages."""
    return {
        "driver": driver(root),
        "driver_supports": _read(lambda cupy: dotted(cupy.cuda.runtime.driverGetVersion())),
        "runtime": _read(lambda cupy: dotted(cupy.cuda.runtime.runtimeGetVersion())),
        "nvrtc": _read(_nvrtc),
        "nvcc": nvcc(),
        "cublas": _read(_cublas),
        "cupy": _read(lambda cupy: cupy.__version__),
        "cupy_packages": cupy_packages(),
    }


def _read(ask: Callable[[Any], str | None]) -> str | None:
    try:
        import cupy

        return ask(cupy)
    except Exception:  # without a driver or a library CuPy raises several unrelated kinds
        return None


def _nvrtc(_: Any) -> str:
    from cupy.cuda import nvrtc

    return "{}.{}".format(*nvrtc.getVersion())


def _cublas(_: Any) -> str:
    from cupy.cuda import cublas, device

    number = cublas.getVersion(device.get_cublas_handle())
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def cupy_packages() -> list[str]:
    """CuPy distributions installed, as `name version`; more than one do not go together."""
    found = {
        (d.metadata["Name"] or "").lower(): d.version
        for d in importlib.metadata.distributions()
        if (d.metadata["Name"] or "").lower().split("-cuda")[0].split("-rocm")[0] == "cupy"
    }
    return [f"{name} {version}" for name, version in sorted(found.items())]


def conflicts(versions: dict[str, Any]) -> list[str]:
    """What does not go together, each as one sentence that names both versions and the cure."""
    found = []
    packages = versions.get("cupy_packages") or []
    if len(packages) > 1:
        found.append(f"two CuPy packages are installed ({', '.join(packages)}): uninstall all but one")
    runtime, supported = versions.get("runtime"), versions.get("driver_supports")
    if runtime and supported and _major(runtime) > _major(supported):
        found.append(
            f"the CUDA runtime is {runtime}, the driver supports {supported}: "
            f"update the driver, or install CuPy for CUDA {_major(supported)}"
        )
    nvrtc, toolkit = versions.get("nvrtc"), versions.get("nvcc")
    if nvrtc and toolkit and _major(nvrtc) != _major(toolkit):
        found.append(
            f"kernels are compiled by NVRTC {nvrtc}, while the CUDA toolkit on PATH is {toolkit}: "
            f"its headers may not fit; take the toolkit off CUDA_PATH or use one of CUDA {_major(nvrtc)}"
        )
    return found


def _major(version: str) -> int:
    return int(version.split(".")[0])
