"""Every kernel once at sizes around its tile, in one process, for compute-sanitizer to watch:

compute-sanitizer --tool memcheck python tests/gpu_sanitize.py

Few cases, since a sanitizer makes a launch a hundred times slower. Exit status 1 if a result is wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import backends
from backends import Unavailable
from backends._cuda_source import Kernel
from backends.operands import numpy_dtype
from tests import cuda_cases as cases

EVERY = 5
"""One of so many problems; all layouts, transpositions and scales still come up."""


def run(kernel: Kernel, dtype: str) -> int:
    """Check a kernel; how many problems it was given."""
    problems = list(cases.problems(kernel, dtype, cases.tile_shapes(kernel)))[::EVERY]
    for i, problem in enumerate(problems):
        cases.check(kernel, problem, cases.LAYOUTS[i % len(cases.LAYOUTS)], seed=i)
    return len(problems)


def main() -> int:
    """Exit status: 0 all right, 1 a wrong result, 5 nothing that could be run."""
    total = 0
    for kernel in cases.KERNELS.values():
        state = backends.get(kernel.name).probe()
        if not state.ok:
            print(f"{kernel.name}: not run: {state.reason}")
            continue
        for dtype in kernel.header.dtypes:
            try:
                numpy_dtype(dtype)
            except Unavailable as error:
                print(f"{kernel.name} {dtype}: not run: {error}")
                continue
            try:
                count = run(kernel, dtype)
            except AssertionError as error:
                print(f"{kernel.name} {dtype}: {error}")
                return 1
            total += count
            print(f"{kernel.name} {dtype}: {count} products right")
    return 0 if total else 5


if __name__ == "__main__":
    sys.exit(main())
