"""Bytes that really moved, by Nsight Compute: `python -m suite.ladder_counters` under ncu, and its CSV read.

ncu makes a kernel run several times and stops clocks from being what they are, so nothing is timed with it.
One process runs every rung of one problem, with an empty kernel before each, which parts their kernels in the
list: a rung may need several.
"""

from __future__ import annotations

import contextlib
import csv
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from backends.base import Problem
from backends.operands import allocate, fill_random

from .record import Cell, Run

METRICS = {
    "dram__bytes_read.sum": "dram_bytes",
    "dram__bytes_write.sum": "dram_bytes",
    "lts__t_sectors_srcunit_tex.sum": "l2_bytes",
}
"""Metric -> what its sum is part of. The last counts sectors between the multiprocessors and the L2 cache."""

SECTOR_BYTES = 32
SEPARATOR = "empty_kernel"
LIMIT_S = 300.0
"""For one problem: ncu runs each kernel several times."""

FORBIDDEN = "ERR_NVGPUCTRPERM"
"""What ncu says where this user may not read counters, whatever it then ends with; no other run would."""

CURE = "install Nsight Compute (it comes with the CUDA toolkit) and put ncu on PATH"

Counted = dict[str, float]
RunCommand = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def find_ncu() -> str | None:
    """Path of ncu, or None."""
    there = shutil.which("ncu")
    places = [Path("/usr/local/cuda/bin/ncu"), *sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"))]
    return there or next((str(path) for path in places if path.is_file()), None)


def command(ncu: str, problem: Problem, rungs: Sequence[str]) -> list[str]:
    """What is run for one problem; both lists travel as JSON words."""
    words = [msgspec.json.encode(part).decode() for part in (problem, list(rungs))]
    options = ["--csv", "--print-units", "base", "--clock-control", "none", "--metrics", ",".join(METRICS)]
    return [ncu, *options, sys.executable, "-m", "suite.ladder_counters", *words]


def rows(text: str) -> Iterator[dict[str, str]]:
    """The lines of ncu's table, whatever else was printed around it."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    yield from csv.DictReader(line for line in lines[start:] if line.startswith('"'))


def parse(text: str, rungs: Sequence[str]) -> dict[str, Counted]:
    """Rung -> bytes by kind, of what ncu printed. ValueError where it printed no such table."""
    found: dict[str, Counted] = {}
    last, at = "", -1
    for row in rows(text):
        kernel, number = row["Kernel Name"], row["ID"]
        if SEPARATOR in kernel:
            at += number != last
        elif 0 <= at < len(rungs):
            kind = METRICS.get(row["Metric Name"])
            if kind is not None:
                counted = found.setdefault(rungs[at], {})
                counted[kind] = counted.get(kind, 0.0) + _value(row)
        last = number
    if not found:
        raise ValueError("ncu listed no kernel")
    return found


def _value(row: dict[str, str]) -> float:
    value = float(row["Metric Value"].replace(",", ""))
    return value * (SECTOR_BYTES if "sectors" in row["Metric Name"] else 1)


class Refused(ValueError):
    """What stands against counters here, for every problem."""


def ncu_run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """What ncu printed. When it takes longer than LIMIT_S it ends with all that it has started."""
    root = Path(__file__).resolve().parent.parent
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, stdout=pipe, stderr=pipe, text=True, errors="replace", cwd=root, start_new_session=True
    ) as child:
        try:
            out, err = child.communicate(timeout=LIMIT_S)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, child.returncode, out, err)


def count(run: Run, run_command: RunCommand = ncu_run) -> tuple[Run, str]:
    """The run with `counters` in the config of every cell that was timed, and a line for what went wrong."""
    ncu = find_ncu()
    if ncu is None:
        return run, f"no counters: ncu was not found: {CURE}"
    by_problem: dict[Problem, dict[str, Counted]] = {}
    faults: list[str] = []
    for problem, rungs in timed(run).items():
        try:
            by_problem[problem] = _counted(command(ncu, problem, rungs), rungs, run_command)
        except Refused as error:
            faults.insert(0, f"no counters: {error}")
            break
        except (ValueError, OSError, subprocess.SubprocessError) as error:
            said = "it did not end in time" if isinstance(error, subprocess.TimeoutExpired) else str(error)
            faults.append(f"no counters of {problem.op} {problem.m}x{problem.n}x{problem.k}: {said}")
    cells = tuple(_with(cell, by_problem.get(cell.problem, {})) for cell in run.cells)
    return msgspec.structs.replace(run, cells=cells), _one_line(faults)


def _one_line(faults: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" (and of {len(faults) - 1} more problems)" if len(faults) > 1 else ""
    return faults[0] + more if faults else ""


def timed(run: Run) -> dict[Problem, list[str]]:
    """The rungs that have a time, by problem."""
    found: dict[Problem, list[str]] = {}
    for cell in run.cells:
        if cell.samples_s and cell.timing == "throughput":
            found.setdefault(cell.problem, []).append(cell.config["rung"])
    return found


def _counted(words: list[str], rungs: Sequence[str], run_command: RunCommand) -> dict[str, Counted]:
    done = run_command(words)
    said = (done.stdout + done.stderr).strip().splitlines()
    errors = [line.removeprefix("==ERROR== ") for line in said if line.startswith("==ERROR==")]
    if forbidden := next((line for line in errors if FORBIDDEN in line), ""):
        raise Refused(f"ncu: {forbidden}")
    if done.returncode:
        why = next(iter(errors), said[-1] if said else "it said nothing")
        raise ValueError(f"ncu ended with {done.returncode}: {why}")
    try:
        return parse(done.stdout, rungs)
    except ValueError as error:
        raise ValueError(f"ncu: {errors[0]}" if errors else str(error)) from None


def _with(cell: Cell, found: dict[str, Counted]) -> Cell:
    counted = found.get(cell.config["rung"])
    return msgspec.structs.replace(cell, config={**cell.config, "counters": counted}) if counted else cell


def drive(problem: Problem, names: Sequence[str]) -> None:
    """Every rung once on the problem, with a separator before each. Runs under ncu."""
    from . import ladder_cuda

    rungs = {rung.name: rung for rung in ladder_cuda.provider().rungs()}
    operands = allocate(problem)
    fill_random(operands, 0)
    first = next(rungs[name].backend for name in names if name != ladder_cuda.REFERENCE)
    between = first.open(problem, operands)
    between.upload()
    for name in names:
        session = rungs[name].backend.open(ladder_cuda.problem_of(rungs[name], problem), operands)
        session.upload()
        between.run_empty()
        between.synchronize()
        session.run()
        session.synchronize()
        session.close()
    between.close()


def main() -> int:
    """`python -m suite.ladder_counters PROBLEM RUNGS`, both as JSON."""
    problem, names = sys.argv[1:]
    drive(msgspec.json.decode(problem, type=Problem), msgspec.json.decode(names, type=list[str]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
