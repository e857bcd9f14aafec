"""The steps of the hardware run that may take longer than one call: GPU tests, sanitizers, the GPU's ladder.

Each keeps what it has found in a file of its own while it runs, and goes on there: test by test, kernel by
kernel, problem by problem.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from backends import _cuda_source

from .verify_state import Context, Failed, OutOfTime, Skipped
from .verify_steps import last_line, measured, need_gpu, resuming, tail

STARTS = 40
"""Processes that the tests may need: one that a CUDA error spoiled makes place for another."""

TOOLS = {"memcheck": 1, "racecheck": 3, "initcheck": 3, "synccheck": 3}
"""Tool -> one of so many problems of each kernel: three of them slow a launch down more than it is worth."""

BATCH_S = 90.0
"""Seconds after which a sanitizer's process begins no further kernel; what it found is then kept."""

SANITIZER_STATUS = 9
"""What compute-sanitizer ends with where it has found something."""

LEAST_S = 45.0
"""With less time left no batch is begun."""

LADDER = (
    *("--device", "cuda", "--dtype", "f32,f64,f16,bf16", "--math", "all"),
    *("--sizes", "1024,2048,4096,8192", "--time-budget", "480"),
)


class Kept:
    """Lines of JSON in the results folder while a step is under way; a torn last one is ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[dict[str, Any]]:
        """What is there."""
        found = []
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            try:
                found.append(msgspec.json.decode(line, type=dict[str, Any]))
            except msgspec.DecodeError:
                continue
        return found

    def append(self, entries: Iterable[dict[str, Any]]) -> None:
        """Add lines."""
        with self.path.open("ab") as file:
            for entry in entries:
                file.write(msgspec.json.encode(entry) + b"\n")

    def discard(self) -> None:
        """The step has ended."""
        self.path.unlink(missing_ok=True)


def kept(context: Context, name: str) -> Kept:
    """The file of a step, made room for; what was found with other sources is gone."""
    return Kept(Path(resuming(context, name)[-1]))


# --- compiling ---------------------------------------------------------------------------------------


def compiling(context: Context) -> dict[str, Any]:
    """Every kernel compiled on all CPUs, so that no later step waits for the compiler."""
    need_gpu(context)
    done = context.python("-m", "suite.verify_compile")
    if done.returncode:
        raise Failed(f"the kernels were not compiled: {tail(done)}")
    found = msgspec.json.decode(last_line(done.stdout), type=dict[str, Any])
    context.notes += found["errors"]
    return found


# --- tests -------------------------------------------------------------------------------------------


def tests(context: Context) -> dict[str, Any]:
    """Every test that needs a GPU, each with its result; goes on with those that an earlier call left."""
    need_gpu(context)
    if not (context.root / "tests").is_dir():
        raise Skipped("no tests/ beside the package: run verify in a checkout")
    file = kept(context, "tests")
    words = ["-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "-p", "tests.outcomes"]
    for _ in range(STARTS):
        before = len(file.read())
        done = context.python(*words, "--outcomes", str(file.path))
        if done.returncode in (0, 1, 5):  # all right, some failed, none left
            break
        if len(file.read()) == before:
            raise Failed(f"pytest ended with {done.returncode} and no test was run: {tail(done)}")
    results = outcomes(file.read())
    file.discard()
    return judged(results)


def judged(results: dict[str, str]) -> dict[str, Any]:
    """The step's result. Failed where a test failed, or none was run."""
    bad = [name for name, outcome in results.items() if outcome in ("failed", "error")]
    counts = {word: sum(o.startswith(word) for o in results.values()) for word in ("passed", "skipped")}
    said = f"{counts['passed']} passed, {len(bad)} failed, {counts['skipped']} skipped"
    found = {"summary": said, "tests": results}
    if bad or not results:
        raise Failed(f"{said}; failed: {', '.join(bad[:10]) or 'none'}", found)
    return found


def outcomes(lines: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Test -> passed | failed | error | skipped: REASON; error for one that never ended."""
    found: dict[str, str] = {}
    for line in lines:
        found[line["test"]] = line.get("outcome", found.get(line["test"], "error"))
    return found


# --- sanitizers --------------------------------------------------------------------------------------


def sanitize(context: Context, tool: str) -> dict[str, Any]:
    """One tool of compute-sanitizer over every kernel beside its tile, kernel by kernel."""
    need_gpu(context)
    program, script = find_sanitizer(), context.root / "tests" / "gpu_sanitize.py"
    if program is None:
        raise Skipped("compute-sanitizer was not found on PATH or in the CUDA toolkit's folders")
    if not script.exists():
        raise Skipped("no tests/gpu_sanitize.py beside the package: run verify in a checkout")
    file = kept(context, f"sanitize:{tool}")
    while left := unseen(file.read()):
        seconds = min(BATCH_S, context.left_s / 2)
        if context.left_s < LEAST_S:
            raise OutOfTime(f"{len(left)} kernels are left: {left[0]} is next")
        options = ["--tool", tool, "--error-exitcode", str(SANITIZER_STATUS)]
        options += ["--leak-check", "no"] if tool == "memcheck" else []
        words = ["--every", str(TOOLS[tool]), "--seconds", f"{seconds:.0f}"]
        done = context.run([program, *options, sys.executable, str(script), *words, *left])
        found = verdicts(done.stdout, done.returncode)
        if not found:
            raise Failed(f"{tool} ended with {done.returncode} and ran no kernel: {tail(done)}")
        file.append({"kernel": kernel, "verdict": verdict} for kernel, verdict in found.items())
    result = {"tool": tool, "kernels": {e["kernel"]: e["verdict"] for e in file.read()}}
    file.discard()
    wrong = [f"{k}: {v}" for k, v in result["kernels"].items() if speaks_against(v)]  # type: ignore[attr-defined]
    if wrong:
        raise Failed(f"{tool}: {len(wrong)} kernels: {wrong[0]}", result)
    return result


def speaks_against(verdict: str) -> bool:
    """Does a verdict, or a reason why there is none, speak against the kernel?"""
    absent = ("right", "not run", "no GPU", "compute-sanitizer was not found", "no tests/")
    return not verdict.startswith(absent)


def unseen(lines: Sequence[dict[str, Any]]) -> list[str]:
    """The kernels that have no verdict yet."""
    seen = {line["kernel"] for line in lines}
    names = [k.name for k in _cuda_source.all_kernels().values() if isinstance(k, _cuda_source.Kernel)]
    return [name for name in names if name not in seen]


def verdicts(text: str, code: int) -> dict[str, str]:
    """Kernel -> what its lines say: the sanitizer's report between them, else what the script found.

    A kernel that began and did not end took the process down. What the sanitizer says late, and an exit
    status of its own without a word, speak against the last kernel.
    """
    found: dict[str, str] = {}
    complaints: dict[str, list[str]] = {}
    last, ended = "", True
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "begin":
            last, ended = rest, False
        elif word == "end" and last:
            found[last], ended = rest.removeprefix(last).strip(), True
        elif line.startswith("=========") and last and (said := complaint(line)):
            complaints.setdefault(last, []).append(said)
    if not ended or (code == SANITIZER_STATUS and last and not complaints):
        found[last] = f"the process ended with {code}"
    return found | {name: "; ".join(said[:3]) for name, said in complaints.items()}


def complaint(line: str) -> str:
    """What a line of the sanitizer's report says against a kernel; empty for summaries and stack frames."""
    said = line.strip("= ").strip()
    harmless = (
        "COMPUTE-SANITIZER",
        "ERROR SUMMARY",
        "RACECHECK SUMMARY",
        "Saved host backtrace",
        "Host Frame",
    )
    return "" if said.startswith(harmless) else said


def find_sanitizer() -> str | None:
    """Path of compute-sanitizer, or None."""
    homes = [os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    places = [f"{home}/{part}" for home in homes if home for part in ("bin", "compute-sanitizer")]
    return shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path=os.pathsep.join(places)
    )


# --- the ladder --------------------------------------------------------------------------------------


def ladder(context: Context) -> dict[str, Any]:
    """`ladder` on the GPU in every arithmetic; the whole run is ladder-cuda.json. Its journal stays."""
    need_gpu(context)
    words = [*LADDER, *resuming(context, "ladder-cuda"), "--require-gpu"]
    done, run = measured(context, "ladder", *words, target=context.out / "ladder-cuda.json")
    found = {"cells": len(run["cells"]), "launch": run["options"].get("launch", {}), "table": done.stdout}
    if done.returncode not in (0, 4):  # 4: a rung could not be timed
        raise Failed(f"ladder ended with {done.returncode}: {tail(done)}", found)
    return found
