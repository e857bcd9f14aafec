"""Kernels with one line changed, run on the stand-in, each in a process of its own: is the fault noticed?

    echo '{"kernel": "cuda:01_naive", "dtype": "float32", "faults": {}}' | python -m tests.cuda_on_cpu.faults

A fault is [file, old, new]: `old` stands once in that file of cuda/kernels or cuda/include, and `new` comes
in its place. Prints, as JSON, what came of each: "right", or how it was noticed. "variant": what is to be
different in the kernel's variant, such as a smaller tile.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from backends import _cuda_compile as compiling
from backends import _cuda_source as source
from backends.base import Problem
from backends.cpus import allowed_cpus
from tests import cuda_cases as cases
from tests.cuda_on_cpu import device as stand_in

NOTICED = 3
"""Exit status of a child that saw a wrong result or a failed launch."""


def planted(place: Path, kernel: source.Kernel, fault: list[str]) -> tuple[Path, Path]:
    """The kernel's file and a folder of headers, `fault` in one of them; an empty one changes nothing."""
    folder = shutil.copytree(stand_in.headers(), place)
    copy = Path(shutil.copy(kernel.path, folder))
    for name, old, new in [fault] if fault else []:
        path = folder / name
        text = path.read_text()
        assert text.count(old) == 1, f"{name} has {text.count(old)} times: {old}"
        path.write_text(text.replace(old, new))
    return copy, folder


def problems(kernel: source.Kernel, dtype: str) -> Iterator[tuple[Problem, cases.Layout]]:
    """Few: edges in all directions, more stages than any kernel has, every transposition."""
    tm, tn, tk = kernel.variant.tile
    math = dict(zip(kernel.header.dtypes, kernel.header.math, strict=True))[dtype]
    plain = {"dtype": dtype, "math": math}
    if kernel.header.op in ("copy", "vector_add"):
        apart = cases.Layout(3, 1)  # operands that do not share their boundaries
        for n, layout in itertools.product((1, tn - 1, 2 * tn + 37), (*cases.LAYOUTS[:2], apart)):
            yield Problem(op=kernel.header.op, n=n, **plain), layout
        return
    if kernel.header.op == "gemv":
        turned = kernel.header.transposes == ("t",)
        for m, n, beta in ((1, 6 * tk + 1, 0.0), (tm + 1, 300, -2.0), (2 * tm - 1, 40 * tk + 9, 0.0)):
            yield Problem(op="gemv", m=m, n=n, beta=beta, trans_a=turned, **plain), cases.Layout(1, 1)
        return
    yield Problem(m=tm + 1, n=tn, k=6 * tk + 1, **plain), cases.Layout()
    yield Problem(m=tm, n=tn + 1, k=5 * tk, trans_a=True, **plain), cases.Layout(0, 1, 8)
    yield Problem(m=tm - 1, n=tn - 1, k=tk + 1, trans_b=True, beta=-2.0, **plain), cases.Layout(1, 0, 8)
    yield Problem(m=3, n=5, k=tk + 2, **plain), cases.Layout(0, 1, 8)
    if kernel.header.launcher == "split_k":
        yield Problem(m=tm + 1, n=3, k=40 * tk + 7, beta=-2.0, **plain), cases.Layout()
    yield Problem(m=2, n=3, k=tk - 1 or 1, trans_a=True, trans_b=True, alpha=0.0, **plain), cases.Layout()


def judge(kernel: source.Kernel, dtype: str, fault: list[str]) -> None:
    """In the child: ends it with NOTICED, by a signal, or, if nothing shows, with 0."""
    place = stand_in.folder() / f"fault{os.getpid()}"
    path, include = planted(place, kernel, fault)

    def compiled(_name: str, _dtype: str, _target: str, more: compiling.Defines = ()) -> compiling.Compiled:
        realigns = {"REALIGNS": 1} if kernel.header.realigns else {}
        defines = {**kernel.defines(dtype), **dict(more), **realigns}
        built = stand_in.compile_source(path, kernel.header.entry, defines, include)
        return compiling.Compiled(str(built).encode(), 0.0, "", "")

    with stand_in.device():
        compiling.compile_kernel = compiled
        for order in ("reverse", "forward", "random"):
            os.environ["KERNEL_ORDER"] = order
            for problem, layout in problems(kernel, dtype):
                try:
                    cases.check(kernel, problem, layout)
                except AssertionError:
                    os._exit(NOTICED)


def started(kernel: source.Kernel, dtype: str, fault: list[str]) -> int:
    """The process that judges one fault."""
    child = os.fork()
    if child == 0:
        try:
            judge(kernel, dtype, fault)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return child


def outcome(code: int) -> str:
    """ "right", "wrong", the name of a signal, or that an error kept it from being judged."""
    if code < 0:
        return signal.Signals(-code).name
    return {0: "right", NOTICED: "wrong"}.get(code, "not judged")


def outcomes(kernel: source.Kernel, dtype: str, faults: dict[str, list[str]]) -> dict[str, str]:
    """What came of each; as many at a time as there are CPUs."""
    running: dict[int, str] = {}
    found = {}
    left = list(faults)
    while left or running:
        while left and len(running) < allowed_cpus():
            name = left.pop(0)
            running[started(kernel, dtype, faults[name])] = name
        child, status = os.wait()
        found[running.pop(child)] = outcome(os.waitstatus_to_exitcode(status))
    return found


def main() -> None:
    """Read the request from stdin, print the outcomes."""
    asked = json.loads(sys.stdin.read())
    kernel = cases.KERNELS[asked["kernel"]]
    variant = msgspec.structs.replace(kernel.variant, **asked.get("variant", {}))
    kernel = msgspec.structs.replace(kernel, variant=variant)
    stand_in.headers(), stand_in.precompiled(), stand_in.library("driver")
    print(json.dumps(outcomes(kernel, asked["dtype"], asked["faults"])))


if __name__ == "__main__":
    main()
