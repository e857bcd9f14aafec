"""Clock rates and throttle reasons of a device, read through NVML or cpufreq; None where they cannot be."""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path

from .record import Clocks

NVML_SM = 1
"""NVML_CLOCK_SM of nvml.h."""

NVML_TEMPERATURE_GPU = 0

REASONS = {
    0x04: "sw_power_cap",
    0x08: "hw_slowdown",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
}
"""nvmlClocksThrottleReason bits that slow a busy GPU down (idling and chosen clocks are none)."""


def read_clocks(device: str) -> Clocks | None:
    """The rate now, as `before_mhz`, with the nominal rate and throttle reasons; device: cpu | cuda."""
    return _gpu() if device == "cuda" else _cpu(Path("/sys/devices/system/cpu/cpu0/cpufreq"))


def _cpu(folder: Path) -> Clocks | None:
    """Core 0 only, and no nominal rate: a lone core's turbo would make every full load look throttled."""
    try:
        return Clocks(before_mhz=int((folder / "scaling_cur_freq").read_text()) // 1000)
    except (OSError, ValueError):
        return None


def _gpu() -> Clocks | None:
    found = _nvml()
    if found is None:
        return None
    nvml, handle = found
    milliwatts = _number(nvml, "nvmlDeviceGetPowerUsage", handle)
    return Clocks(
        before_mhz=_number(nvml, "nvmlDeviceGetClockInfo", handle, NVML_SM),
        nominal_mhz=_number(nvml, "nvmlDeviceGetMaxClockInfo", handle, NVML_SM),
        throttle=_reasons(nvml, handle),
        temperature_c=_number(nvml, "nvmlDeviceGetTemperature", handle, NVML_TEMPERATURE_GPU),
        power_w=None if milliwatts is None else milliwatts / 1000,
    )


def _number(nvml: ctypes.CDLL, function: str, handle: ctypes.c_void_p, *arguments: int) -> int | None:
    value = ctypes.c_uint()
    code = getattr(nvml, function)(handle, *map(ctypes.c_int, arguments), ctypes.byref(value))
    return int(value.value) if code == 0 else None


def _reasons(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> tuple[str, ...]:
    bits = ctypes.c_ulonglong()
    if nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(bits)) != 0:
        return ()
    return tuple(name for bit, name in REASONS.items() if bits.value & bit)


@functools.cache
def _nvml() -> tuple[ctypes.CDLL, ctypes.c_void_p] | None:
    """NVML and the handle of CUDA device 0, found by its bus address where CuPy is loaded."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    if nvml.nvmlInit_v2() != 0:
        return None
    handle = ctypes.c_void_p()
    address = _bus_address()
    if address is None:
        code = nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(0), ctypes.byref(handle))
    else:
        code = nvml.nvmlDeviceGetHandleByPciBusId_v2(address.encode(), ctypes.byref(handle))
    return (nvml, handle) if code == 0 else None


def _bus_address() -> str | None:
    """PCI address of CUDA device 0: NVML counts all GPUs, CUDA only the visible ones."""
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return None
    try:
        return str(cupy.cuda.runtime.deviceGetPCIBusId(0))
    except Exception:  # CuPy without a driver raises several unrelated kinds
        return None


def merged(*readings: Clocks | None) -> Clocks | None:
    """One record of readings in their order, the first and the last; None when none was readable."""
    seen = [reading for reading in readings if reading is not None]
    if not seen:
        return None
    before, after = readings[0], readings[-1]
    return Clocks(
        before_mhz=before.before_mhz if before else None,
        after_mhz=after.before_mhz if after else None,
        nominal_mhz=seen[0].nominal_mhz,
        throttle=tuple(sorted({reason for reading in seen for reason in reading.throttle})),
        temperature_c=max((r.temperature_c for r in seen if r.temperature_c is not None), default=None),
        power_w=max((r.power_w for r in seen if r.power_w is not None), default=None),
    )


def throttled(clocks: Clocks | None, slack: float = 0.8) -> bool:
    """Whether a throttle reason was seen or a rate was below `slack` of the nominal one."""
    if clocks is None:
        return False
    rates = [rate for rate in (clocks.before_mhz, clocks.after_mhz) if rate is not None]
    low = clocks.nominal_mhz is not None and any(rate < slack * clocks.nominal_mhz for rate in rates)
    return bool(clocks.throttle) or low
