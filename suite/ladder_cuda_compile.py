"""The kernels of the GPU's ladder compiled before it is climbed, on all CPUs: one by one it takes minutes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from backends import Unavailable
from backends import _cuda_compile as compiling
from backends import _cuda_driver as cuda
from backends import _cuda_tma as tma
from backends.base import Problem
from backends.cpus import allowed_cpus
from backends.cuda_kernels import CudaKernel

from . import ladder_cuda
from .ladder import Rung


class Case(NamedTuple):
    """A kernel for a type, with what it is compiled with beside its header."""

    kernel: str
    dtype: str
    more: compiling.Defines


def cases(rungs: Sequence[Rung], problems: Iterable[Problem]) -> list[Case]:
    """What these rungs need for these problems on the device that is there."""
    compute = cuda.device(0).compute
    ours = [r for r in rungs if isinstance(r.backend, CudaKernel) and not r.backend.kernel.refuses(*compute)]
    found = (
        Case(kernel.name, p.dtype, tma.defines(kernel, p))
        for p in problems
        for rung in ours
        if ladder_cuda.concerns(rung, p) and (kernel := rung.backend.kernel)  # type: ignore[attr-defined]
    )
    return list(dict.fromkeys(found))


def ahead(rungs: Sequence[Rung], problems: Iterable[Problem]) -> None:
    """Compile them; what does not compile says so when it is opened."""
    target = compiling.arch(*cuda.device(0).compute)

    def attempt(case: Case) -> None:
        with contextlib.suppress(Unavailable):
            compiling.compile_kernel(case.kernel, case.dtype, target, *([case.more] if case.more else []))

    with ThreadPoolExecutor(allowed_cpus()) as pool:  # NVRTC runs without Python's lock
        list(pool.map(attempt, cases(rungs, problems)))
