"""Every kernel at sizes beside its tile, in one process, for compute-sanitizer to watch:

compute-sanitizer --tool memcheck python tests/gpu_sanitize.py
compute-sanitizer --tool racecheck python tests/gpu_sanitize.py --every 3 cuda:06_cp_async

Few cases, since a sanitizer makes a launch a hundred times slower. A line before and after each kernel says
whose report stands between them. Several processes with the same list and the same folder --claims share it.
Exit status 1 if a result is wrong, 5 if nothing could be run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import backends
from backends import Unavailable
from backends._cuda_source import Kernel
from backends.operands import numpy_dtype
from tests import cuda_cases as cases
from tests import cuda_shapes as shapes


def problems(kernel: Kernel, dtype: str, every: int) -> Iterator[tuple[backends.Problem, cases.Layout]]:
    """One of so many of the sizes beside the tile and of odd numbers of K tiles."""
    found = [*shapes.beside_tile(kernel), *shapes.odd_k_tiles(kernel)[::4]]
    if kernel.header.op != "gemm":  # whose tile says nothing of the lengths that its threads share
        found += cases.tile_shapes(kernel)[::3]
    yield from list(shapes.one_each(kernel, dtype, found))[::every]


def run(kernel: Kernel, dtype: str, every: int) -> int:
    """Check a kernel; how many problems it was given."""
    count = 0
    for problem, layout in problems(kernel, dtype, every):
        cases.check(kernel, problem, layout, seed=count, bare=True)
        count += 1
    return count


def cannot(kernel: Kernel, dtype: str) -> str:
    """Why it cannot be run here, or ""."""
    state = backends.get(kernel.name).probe()
    try:
        numpy_dtype(dtype)
    except Unavailable as error:
        return str(error)
    return "" if state.ok else state.reason


def one(kernel: Kernel, every: int) -> str:
    """Run all types of a kernel; what there is to say: right, not run, or wrong, each with details."""
    said = []
    for dtype in kernel.header.dtypes:
        if reason := cannot(kernel, dtype):
            said.append(f"not run: {dtype}: {reason}")
            continue
        try:
            said.append(f"right: {dtype}: {run(kernel, dtype, every)} products")
        except Exception as error:
            return f"wrong: {dtype}: {type(error).__name__}: {error}"
    return "; ".join(sorted(said, reverse=True))  # what was right first


def claimed(kernel: str, claims: Path | None) -> bool:
    """Is it for this process to run? For the first that makes the kernel's file among the claims."""
    if claims is None:
        return True
    try:
        (claims / kernel.replace("/", ",")).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def main(words: list[str]) -> int:
    """Exit status: 0 all right, 1 a wrong result, 5 nothing that could be run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kernels", nargs="*", help="names such as cuda:01_naive; all when none is given")
    parser.add_argument("--every", type=int, default=1, help="one of so many problems")
    parser.add_argument("--claims", type=Path, help="folder through which processes share the kernels")
    asked = parser.parse_args(words)
    outcomes = []
    for name in asked.kernels or list(cases.KERNELS):
        if not claimed(name, asked.claims):
            continue
        print(f"begin {name}", flush=True)
        outcomes.append(one(cases.KERNELS[name], asked.every))
        print(f"end {name} {outcomes[-1]}", flush=True)
        if outcomes[-1].startswith("wrong"):
            return 1
    return 0 if any(outcome.startswith("right") for outcome in outcomes) else 5


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
