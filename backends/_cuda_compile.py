"""Compiles kernels at run time with NVRTC, through CuPy's binding of it; needs no GPU."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from . import _cuda_source as source
from .base import Unavailable

# Headers that are found and then fail for want of another one, which comes in another package.
_NEEDS = {"mma.h": "crt/mma.h"}


class Compiled(NamedTuple):
    """A cubin, the seconds its compilation took, and the hash of all that went into it."""

    cubin: bytes
    compile_s: float
    kernel_hash: str
    log: str


def nvrtc() -> Any:
    """CuPy's NVRTC binding; importing CuPy first is what finds the library among the wheels."""
    import cupy  # noqa: F401
    from cupy_backends.cuda.libs import nvrtc as binding

    return binding


def version() -> tuple[int, int]:
    """NVRTC's (major, minor)."""
    return tuple(nvrtc().getVersion())


def toolkit() -> Path:
    """The CUDA toolkit's folder, which need not exist: CUDA_PATH, else CUDA_HOME, else /usr/local/cuda."""
    return Path(os.environ.get("CUDA_PATH") or os.environ.get("CUDA_HOME") or "/usr/local/cuda")


def wheel_dirs(major: int) -> list[Path]:
    """Include folders of NVIDIA's wheels of that CUDA version."""
    spec = importlib.util.find_spec("nvidia")
    bases = [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    names = ["cuda_runtime", "cuda_nvcc", "cuda_crt", "cuda_nvrtc"] if major == 12 else [f"cu{major}"]
    return [base / name / "include" for base in bases for name in names]


def system_dirs() -> list[Path]:
    """Existing folders in which CUDA's own headers are looked for, in order."""
    return [d for d in (*wheel_dirs(version()[0]), toolkit() / "include") if d.is_dir()]


def missing_header(kernel: source.Kernel) -> str | None:
    """One line naming the first header that `kernel` needs and no folder has, with the remedy; or None."""
    for name in source.includes(kernel.path)[1]:
        for needed in (name, _NEEDS.get(name, name)):
            if not any((folder / needed).is_file() for folder in system_dirs()):
                return header_remedy(needed)
    return None


def header_remedy(header: str) -> str:
    """The one line about a header nobody has."""
    wheel = "nvidia-cuda-crt" if header.startswith("crt/") else "nvidia-cuda-runtime"
    extra = f"cuda{version()[0]}"
    return (
        f"CUDA header {header} not found: pip install 'gemm-crossover[{extra}]' (it is in {wheel}), "
        "or set CUDA_PATH to a CUDA toolkit"
    )


def arch(major: int, minor: int) -> str:
    """NVRTC's name for a compute capability; 9.0 gets sm_90a, which alone has wgmma and setmaxnreg."""
    return "sm_90a" if (major, minor) == (9, 0) else f"sm_{major}{minor}"


Defines = tuple[tuple[str, int], ...]
"""What a kernel is compiled with for the problem at hand, beside what its header says."""


def options(kernel: source.Kernel, dtype: str, target: str, more: Defines = ()) -> list[str]:
    """Compiler options; denormals are kept (no -ftz), products and sums may fuse (FMA)."""
    defines = [f"-D{name}={value}" for name, value in (*kernel.defines(dtype).items(), *more)]
    folders = [source.root() / "include", *system_dirs()]
    return [f"-arch={target}", "-std=c++17", *defines, *(f"-I{folder}" for folder in folders)]


def kernel_hash(kernel: source.Kernel, dtype: str, target: str, more: Defines = ()) -> str:
    """Hash of source, headers, flags, architecture and compiler version: 16 hexadecimal digits."""
    flags = sorted(f for f in options(kernel, dtype, target, more) if not f.startswith("-I"))
    parts = (source.source_hash(kernel), flags, target, version())
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@functools.cache
def compile_kernel(kernel_name: str, dtype: str, target: str, more: Defines = ()) -> Compiled:
    """A kernel by name compiled for `target` ("sm_90a"), once per process. Unavailable as `compile_file`."""
    kernel = source.all_kernels()[kernel_name]
    if isinstance(kernel, source.HeaderError):
        raise Unavailable(str(kernel))
    return compile_file(kernel, dtype, target, more)


def compile_file(kernel: source.Kernel, dtype: str, target: str, more: Defines = ()) -> Compiled:
    """Compile; Unavailable in one line for a missing header, with the compiler's log for anything else."""
    start, key = time.perf_counter(), kernel_hash(kernel, dtype, target, more)
    kept = _kept(key)
    if kept is not None and kept.is_file():
        return Compiled(kept.read_bytes(), time.perf_counter() - start, key, "")
    cubin, log = compile_path(kernel.path, kernel.name, options(kernel, dtype, target, more))
    if kept is not None:
        _keep(kept, cubin)
    return Compiled(cubin, time.perf_counter() - start, key, log)


def _kept(key: str) -> Path | None:
    """Where GEMM_CUBIN_CACHE, a folder, keeps the cubin of that hash; None where it is not set."""
    folder = os.environ.get("GEMM_CUBIN_CACHE")
    return Path(folder) / f"{key}.cubin" if folder else None


def _keep(path: Path, cubin: bytes) -> None:
    """Write it whole or not at all: other processes may look for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(cubin)
    part.replace(path)


def compile_path(path: Path, name: str, flags: list[str]) -> tuple[bytes, str]:
    """(cubin, log) of any source file; `name` is what errors call it."""
    binding = nvrtc()
    program = binding.createProgram(path.read_text(), path.name, (), ())
    try:
        _compile(binding, program, name, flags)
        return binding.getCUBIN(program), binding.getProgramLog(program)
    finally:
        binding.destroyProgram(program)


def _compile(binding: Any, program: int, name: str, flags: list[str]) -> None:
    try:
        binding.compileProgram(program, flags)
    except binding.NVRTCError as error:
        log = binding.getProgramLog(program)
        absent = re.search(r'cannot open source file "([^"]+)"', log)
        if absent:
            raise Unavailable(f"{name}: {header_remedy(absent.group(1))}") from error
        raise Unavailable(f"{name} does not compile ({error}):\n{log.strip()}") from error
