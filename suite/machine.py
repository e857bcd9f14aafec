"""Where it was measured: CPU, caches, NUMA, thread limits, BLAS, GPU, versions; `unknown` where unreadable.

Nothing here raises, and nothing names the host, the user or an absolute path (`scrub` takes them out).
"""

from __future__ import annotations

import functools
import getpass
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backends import cpus

from . import gpu_info

UNKNOWN = "unknown"

THREAD_VARIABLES = (
    "GEMM_NUM_THREADS", "GEMM_ISA", "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OPENBLAS_NUM_THREADS",
    "OPENBLAS_THREAD_TIMEOUT", "OPENBLAS_CORETYPE", "MKL_NUM_THREADS", "MKL_THREADING_LAYER",
    "MKL_INTERFACE_LAYER", "MKL_ENABLE_INSTRUCTIONS", "KMP_BLOCKTIME", "BLIS_NUM_THREADS", "BLIS_ARCH_TYPE",
    "CUDA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE",
)  # fmt: skip

PACKAGES = (
    "numpy", "cffi", "threadpoolctl", "msgspec", "cupy-cuda12x", "cupy-cuda13x", "cupy", "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime", "nvidia-cublas", "ml_dtypes", "mkl", "scipy-openblas32",
)  # fmt: skip

FEATURES = (
    "sse4_2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_bf16", "avx512_fp16",
    "amx_tile", "amx_bf16", "amx_int8", "neon", "asimd", "sve", "sve2",
)  # fmt: skip


def safely(read: Callable[[], Any], default: Any = UNKNOWN) -> Any:
    """What `read` returns, or `default` where it raises or has nothing to say."""
    try:
        value = read()
    except Exception:
        return default
    return default if value is None or value == "" else value


@functools.cache
def describe(root: Path = Path("/")) -> dict[str, Any]:
    """A JSON-able description of the machine; /proc and /sys are looked for below `root`."""
    found = {
        "cpu": cpu(root),
        "threads": threads(root),
        "blas": safely(blas, []),
        "native": safely(native, {}),
        "gpus": safely(functools.partial(gpu_info.gpus, root), []),
        "cuda": safely(functools.partial(gpu_info.versions, root), {}),
        "compiler": {"c": safely(c_compiler, ""), "nvcc": safely(gpu_info.nvcc, "")},
        "software": software(),
    }
    found["gpu_reason"] = "" if found["gpus"] else safely(no_gpu_reason)
    found["fingerprint"] = fingerprint(found)
    return scrub(found)


def fingerprint(machine: dict[str, Any]) -> str:
    """Twelve hex digits of the hardware alone: unchanged by new software, different on another machine."""
    cpu_part = {key: machine["cpu"].get(key) for key in ("model", "logical_cores", "caches", "numa_nodes")}
    gpu_part = [(gpu.get("name"), gpu.get("memory_bytes")) for gpu in machine["gpus"]]
    text = json.dumps([cpu_part, gpu_part], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def cpu(root: Path) -> dict[str, Any]:
    """Model, micro-architecture, cores, clock, instruction sets, caches, memory."""
    flags = safely(lambda: _cpuinfo(root, "flags", "Features").split(), [])
    return {
        "model": safely(lambda: _cpuinfo(root, "model name", "cpu model")),
        "microarchitecture": safely(lambda: _archspec().name),
        "vendor": safely(lambda: _archspec().vendor),
        "logical_cores": safely(os.cpu_count),
        "physical_cores": safely(lambda: _psutil().cpu_count(logical=False)),
        "clock_mhz": safely(lambda: round(_psutil().cpu_freq().current)),
        "isa": [feature for feature in FEATURES if feature in flags],
        "caches": safely(functools.partial(caches, root), []),
        "numa_nodes": safely(lambda: numa_nodes(root)),
        "memory_bytes": safely(lambda: _psutil().virtual_memory().total),
    }


def numa_nodes(root: Path) -> int | None:
    """NUMA nodes; None where the kernel does not list them."""
    return len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or None


def package_version(name: str) -> str | None:
    """Version of an installed distribution, None where it is absent."""
    return safely(functools.partial(importlib.metadata.version, name), None)


def _archspec() -> Any:
    import archspec.cpu

    return archspec.cpu.host()


def _psutil() -> Any:
    import psutil

    return psutil


def _cpuinfo(root: Path, *keys: str) -> str:
    for line in (root / "proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in keys:
            return value.strip()
    raise LookupError(keys)


def caches(root: Path) -> list[dict[str, Any]]:
    """Caches that the first CPU sees: level, kind, bytes, and how many logical CPUs share one."""
    found = []
    for folder in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        size = (folder / "size").read_text().strip()
        shared = safely(lambda folder=folder: len(_cpu_list((folder / "shared_cpu_list").read_text())))  # type: ignore[misc]
        unit = {"K": 1 << 10, "M": 1 << 20}.get(size[-1], 1)
        found.append(
            {
                "level": int((folder / "level").read_text()),
                "kind": (folder / "type").read_text().strip().lower(),
                "bytes": int(size.rstrip("KM")) * unit,
                "shared_by": shared,
            }
        )
    return found


def _cpu_list(text: str) -> set[int]:
    ends = [[int(end) for end in part.split("-")] for part in text.strip().split(",")]
    return {cpu for first, *last in ends for cpu in range(first, (last or [first])[0] + 1)}


def threads(root: Path) -> dict[str, Any]:
    """What limits the number of threads: affinity, cgroup quota, environment; and what is left to use."""
    quota = functools.partial(cpus.cgroup_quota, root / "sys/fs/cgroup", root / "proc/self/cgroup")
    return {
        "affinity_cpus": safely(lambda: len(os.sched_getaffinity(0))),
        "cgroup_cpus": safely(quota, None),
        "usable": safely(cpus.allowed_cpus, 1),
        "environment": {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
    }


def blas() -> list[dict[str, Any]]:
    """BLAS and OpenMP libraries loaded in this process, as threadpoolctl sees them."""
    import numpy  # noqa: F401 - loads its BLAS
    import threadpoolctl

    keys = {
        "internal_api": "library",
        "version": "version",
        "threading_layer": "threading",
        "architecture": "kernels",
        "num_threads": "threads",
        "user_api": "kind",
    }
    return [
        {new: info.get(old) for old, new in keys.items() if info.get(old) is not None}
        for info in threadpoolctl.threadpool_info()
    ]


def native() -> dict[str, Any]:
    """What the project's own C library says about itself: instruction set in force, build, thread pool."""
    import backends

    available = backends.get("native").probe()
    return dict(available.detail) if available.ok else {"absent": available.reason}


def no_gpu_reason() -> str:
    """Why no GPU backend can run here, as the first of them says it."""
    import backends

    reasons = [b.probe().reason for b in backends.all_backends() if b.device == "cuda"]
    return reasons[0] if reasons else "no GPU backend is installed"


def c_compiler() -> str | None:
    """Name and version of the C compiler that a build would take first."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name):
            return first_line([name, "--version"])
    return None


def first_line(command: list[str]) -> str:
    """First line a command prints. OSError or subprocess.SubprocessError where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip().splitlines()[0]


def kernel_version(release: str) -> str:
    """The numbers of a kernel release: what follows them names somebody's own build."""
    found = re.match(r"\d+(\.\d+)*", release)
    return found[0] if found else UNKNOWN


def software() -> dict[str, Any]:
    """Operating system, Python and the packages whose version can change a figure."""
    return {
        "os": safely(lambda: f"{platform.system()} {kernel_version(platform.release())}"),
        "libc": safely(lambda: " ".join(platform.libc_ver())),
        "architecture": safely(platform.machine),
        "python": safely(lambda: f"{platform.python_implementation()} {platform.python_version()}"),
        "packages": {name: v for name in PACKAGES if (v := package_version(name))},
    }


@functools.cache
def _private() -> tuple[tuple[re.Pattern[str], str], ...]:
    words = [(safely(getpass.getuser, ""), "<user>")]
    words += [(part, "<host>") for part in {safely(socket.gethostname, ""), safely(platform.node, "")}]
    before = r"(?:(?<![\w/.:])|(?<=\bcblas:))"  # no part of a web address, but a library named by its path
    patterns = [(re.compile(before + r"~?/(?:[^\s/:'\",;()\[\]]+/)+([^\s/:'\",;()\[\]]*)"), r"\1")]
    for word, mark in words:
        if len(word) > 2 and word not in ("localhost", "unknown"):
            patterns.append((re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])"), mark))
    return tuple(patterns)


def scrub(value: Any) -> Any:
    """`value` (JSON-able) with absolute paths cut to their last part, and host and user names taken out."""
    if isinstance(value, str):
        for pattern, mark in _private():
            value = pattern.sub(mark, value)
        return value
    if isinstance(value, dict):
        return {scrub(key): scrub(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(scrub(part) for part in value) if type(value) in (list, tuple) else value
    return value
