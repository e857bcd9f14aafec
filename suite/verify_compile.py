"""Compiles every kernel for the GPU that is there, on all CPUs at once: `python -m suite.verify_compile`.

One after the other, inside the tests, they take minutes of a GPU's time. Cubins go to GEMM_CUBIN_CACHE, where
later processes find them. Prints one line of JSON: how many there are, and what did not compile.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec

from backends import Problem, Unavailable
from backends import _cuda_compile as compiling
from backends import _cuda_driver as cuda
from backends import _cuda_source as source
from backends import _cuda_tma as tma
from backends.cpus import allowed_cpus


class Case(NamedTuple):
    """A kernel for a dtype, with what it is compiled with beside its header."""

    kernel: str
    dtype: str
    more: compiling.Defines


def layouts(kernel: source.Kernel, dtype: str) -> list[compiling.Defines]:
    """What it is compiled with beside its header: once, or for each way to store A and B."""
    math = dict(zip(kernel.header.dtypes, kernel.header.math, strict=True))[dtype]
    stored = itertools.product((False, True), repeat=2)
    problems = (Problem(dtype=dtype, math=math, trans_a=a, trans_b=b) for a, b in stored)
    return sorted({tma.defines(kernel, p) for p in problems})


def cases(compute: tuple[int, int]) -> Iterator[Case]:
    """All that a device of this compute capability can run."""
    for kernel in source.all_kernels().values():
        if isinstance(kernel, source.Kernel) and kernel.refuses(*compute) is None:
            for dtype in kernel.header.dtypes:
                yield from (Case(kernel.name, dtype, more) for more in layouts(kernel, dtype))


def attempt(case: Case, target: str) -> str:
    """Compile it; empty, or why not, in one line."""
    try:
        compiling.compile_kernel(case.kernel, case.dtype, target, case.more)
    except Unavailable as error:
        return f"{case.kernel} {case.dtype}: {str(error).splitlines()[0]}"
    return ""


def compile_all(compute: tuple[int, int]) -> tuple[int, list[str]]:
    """(cubins there are now, one line for each that could not be made)."""
    wanted, target = list(cases(compute)), compiling.arch(*compute)
    with ThreadPoolExecutor(allowed_cpus()) as pool:  # NVRTC runs without Python's lock
        said = list(pool.map(functools.partial(attempt, target=target), wanted))
    errors = [line for line in said if line]
    return len(wanted) - len(errors), errors


def main() -> int:
    """Exit status 2 where no folder would keep the cubins."""
    if not os.environ.get("GEMM_CUBIN_CACHE"):
        print("GEMM_CUBIN_CACHE names no folder to keep cubins in", file=sys.stderr)
        return 2
    count, errors = compile_all(cuda.device(0).compute)
    print(msgspec.json.encode({"cubins": count, "errors": errors}).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
