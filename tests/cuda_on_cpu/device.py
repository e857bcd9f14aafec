"""A CUDA device made of the CPU, for tests: the real Python code above a stand-in driver.

Kernels are compiled by the C++ compiler with `kernel_on_cpu.h` in front and run as fibers.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from backends import _cuda_compile as compiling
from backends import _cuda_driver as cuda
from backends import _cuda_launch as launching
from backends import _cuda_probe as probing
from backends import _cuda_source as source
from backends.base import Availability
from backends.cpus import allowed_cpus

HERE = Path(__file__).parent


def missing() -> str:
    """Why it cannot be used here, or ""."""
    return (
        "" if shutil.which("g++") and shutil.which("gcc") else "no gcc and g++ to compile kernels for the CPU"
    )


@functools.cache
def folder() -> Path:
    """Where everything is built, once per test process; removed when it ends."""
    path = Path(tempfile.mkdtemp(prefix="cuda_on_cpu_"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@functools.cache
def library(name: str) -> Path:
    """`driver` or `cublas` compiled: a shared library that stands in for NVIDIA's."""
    soname = {"driver": "libcuda.so.1", "cublas": "libcublas.so.13"}[name]
    target = folder() / soname
    flags = ["-O2", "-Wall", "-shared", "-fPIC", f"-Wl,-soname,{soname}"]
    _run("gcc", *flags, str(HERE / f"{name}_on_cpu.c"), "-ldl", "-lm", "-o", str(target))
    return target


_DYNAMIC = re.compile(r"extern __shared__ (\w+) (\w+)\[\];")


@functools.cache
def headers() -> Path:
    """A folder with our CUDA headers, those for the CPU in place of the same ones for a GPU."""
    path = folder() / "include"
    path.mkdir()
    found = {h.name: h for place in (source.root() / "include", HERE / "include") for h in place.iterdir()}
    for name, header in found.items():
        (path / name).symlink_to(header)
    return path


# At -O1 g++ takes a third less than at -O2. _FORTIFY_SOURCE would refuse to jump from one fiber's stack to
# another's. A misaligned access ends the process, as on the hardware.
FLAGS = ["-std=c++17", "-O1", "-fno-gnu-unique", "-fPIC", "-U_FORTIFY_SOURCE"]
FLAGS += ["-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"]


@functools.cache
def precompiled() -> Path:
    """A folder with `kernel_on_cpu.h` compiled: it takes longer than many a kernel behind it."""
    path = folder() / "precompiled"
    path.mkdir()
    header = str(shutil.copy(HERE / "kernel_on_cpu.h", path))
    _run("g++", *FLAGS, "-x", "c++-header", header, "-o", f"{header}.gch")
    return path


_building: dict[Path, threading.Lock] = {}
_making = threading.Lock()
"""Of the folders that all have in common, whichever thread asks for them first."""


def compile_source(path: Path, entry: str, defines: dict[str, int], include: Path | None = None) -> Path:
    """Any kernel source as a shared library with `run_kernel`. include: a folder in place of `headers()`."""
    text = _DYNAMIC.sub(r"__shared__ \1 \2[SHARED_BYTES / sizeof(\1)];", path.read_text())
    key = hashlib.sha256(repr((text, entry, sorted(defines.items()), include)).encode()).hexdigest()[:16]
    cpp, target = folder() / f"{key}.cpp", folder() / f"{key}.so"
    with _building.setdefault(target, threading.Lock()):
        if not target.exists():
            cpp.write_text(
                f'#include "kernel_on_cpu.h"\n#line 1 "{path}"\n{text}\n#include "kernel_entry.h"\n'
            )
            flags = [*FLAGS, "-shared", f"-DKERNEL_ENTRY={entry}"]
            flags += [f"-D{name}={value}" for name, value in defines.items()]
            with _making:
                places = [f"-I{place}" for place in (precompiled(), HERE, include or headers())]
            _run("g++", *flags, *places, str(cpp), "-o", str(target))
    return target


@contextmanager
def compiled_ahead(wanted: Iterable[tuple[str, str, compiling.Defines]]) -> Iterator[None]:
    """(kernel, dtype, defines) are compiled in this order, on all CPUs, while others run."""
    headers(), precompiled()
    with ThreadPoolExecutor(allowed_cpus()) as pool:
        for name, dtype, more in wanted:
            pool.submit(compile_kernel, name, dtype, "", more)
        yield
        pool.shutdown(wait=False, cancel_futures=True)


def compile_kernel(name: str, dtype: str, target: str, more: compiling.Defines = ()) -> compiling.Compiled:
    """In place of `_cuda_compile.compile_kernel`."""
    kernel = source.all_kernels()[name]
    assert isinstance(kernel, source.Kernel)
    defines = {**kernel.defines(dtype), **dict(more), **({"REALIGNS": 1} if kernel.header.realigns else {})}
    path = compile_source(kernel.path, kernel.header.entry, defines)
    return compiling.Compiled(str(path).encode(), 0.0, f"{target}-{source.source_hash(kernel)}", "")


def held() -> int:
    """What sessions have not freed: graphs * 10**9 + allocations * 1000000 + streams * 1000 + events."""
    loaded = ctypes.CDLL(str(library("driver")))
    return int(loaded.fake_graphs()) * 10**9 + int(loaded.fake_held())


def spoil(now: bool) -> None:
    """Does the kernel that FAKE_SPOIL names spoil the device from now on? It does, unless told not to."""
    ctypes.c_int.in_dll(ctypes.CDLL(str(library("driver"))), "fake_harmless").value = not now


def calls() -> int:
    """Calls of the driver since `device` was entered: FAKE_LOST_AFTER=n makes those from the n-th on fail."""
    return int(ctypes.CDLL(str(library("driver"))).fake_calls())


def prefetches(to: int) -> int:
    """Prefetches since then, to the device (0) or to the host (-1)."""
    return int(ctypes.CDLL(str(library("driver"))).fake_prefetches(to))


def _forget() -> None:
    for cached in (cuda.driver, cuda.device, launching.function, probing._probe):
        cached.cache_clear()
    cuda._started.clear()


@contextmanager
def device(*, usable: bool = True) -> Iterator[None]:
    """Sessions inside run on the CPU device. usable: the probe says yes; else it looks for itself."""
    with pytest.MonkeyPatch.context() as patch:
        _forget()
        ctypes.CDLL(str(library("driver"))).fake_restart()
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        patch.setattr(cuda, "LIBRARY", str(library("driver")))
        patch.setattr(cuda, "_compiled_launch", lambda: None)
        patch.setattr(compiling, "compile_kernel", compile_kernel)
        if usable:
            patch.setattr(probing, "probe", lambda: Availability(ok=True))
        patch.setattr(compiling, "missing_header", lambda kernel: None)
        try:
            yield
        finally:
            _forget()
