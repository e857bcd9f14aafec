"""The steps of the hardware run that may take longer than one call: GPU tests, sanitizers, the GPU's ladder.

Each keeps what it has found in a file of its own while it runs, and goes on there: test by test, kernel by
kernel, problem by problem. Tests and sanitizers are not timed, and wait for the CPU most of the time: several
processes of them share the GPU.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from backends import _cuda_source
from backends.cpus import allowed_cpus

from .verify_state import Context, Failed, Kept, OutOfTime, Skipped, names
from .verify_steps import last_line, measured, need_gpu, resuming, tail

STARTS = 40
"""Processes that a part of the tests may need: one that a CUDA error spoiled makes place for another."""

MOST_WORKERS = 12
"""Processes on one GPU at once. They take turns on it: what they do at the same time is the CPU's part."""

WORKER_BYTES = 4 << 30
"""Device memory that each is counted with: context, modules, operands, and what a sanitizer keeps of them."""

LARGE_BYTES = 48 << 30
"""Device memory that the `large` tests, one at a time, need beside the others: 26 GB of operands at most."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GEMM_NUM_THREADS")
"""Where workers are told how many CPUs each may keep busy."""

TOOLS = {"memcheck": 1, "racecheck": 1, "initcheck": 1, "synccheck": 1}
"""Tool -> one of so many problems of each kernel: all, as long as that takes minutes with many processes."""

SANITIZER_STATUS = 9
"""What compute-sanitizer ends with where it has found something."""

SHARING = ("--max-connections", "64", "--launch-timeout", "300")
"""Options of compute-sanitizer beside others of its kind: by default ten find a port on which their programs
answer, and a program has a minute to start."""

DOUBTFUL = ("the process ended with", "OUT_OF_MEMORY", ": Unavailable: ")
"""What a verdict says that other processes on the machine may be to blame for: it counts when the kernel, run
again by one process, earns such a verdict again."""

LEAST_S = 45.0
"""With less time left no sanitizer is begun."""

LADDER = (
    *("--device", "cuda", "--dtype", "f32,f64,f16,bf16", "--math", "all"),
    *("--sizes", "1024,2048,4096,8192", "--time-budget", "300"),
)


def kept(context: Context, name: str) -> Kept:
    """The file of a step, made room for; what was found with other sources is gone."""
    return Kept(Path(resuming(context, name)[-1]))


class Workers(NamedTuple):
    """How the GPU is shared: so many processes, each with so many threads; the `large` tests beside them?"""

    processes: int
    threads: int
    large_beside: bool

    @property
    def environment(self) -> dict[str, str]:
        """Keeps the libraries of all of them together from using more CPUs than there are."""
        return dict.fromkeys(THREADS, str(self.threads))


def sharing(cpus: int, memory: int) -> Workers:
    """What so many CPUs and bytes of device memory are enough for."""
    count = max(1, min(cpus, MOST_WORKERS, memory // WORKER_BYTES))
    return Workers(count, max(1, cpus // count), memory >= LARGE_BYTES + count * WORKER_BYTES)


def workers(context: Context) -> Workers:
    """For this machine: one process where the size of its device memory cannot be learned."""
    ask = "from backends import _cuda_driver as cuda; print(cuda.device(0).driver.total_memory(0))"
    said = last_line(context.python("-c", ask).stdout)
    return sharing(allowed_cpus(), int(said) if said.isdecimal() else 0)


def partly(context: Context, said: str) -> OutOfTime:
    """What a step that looks at some kernels only ends with: unfinished, so that nothing counts as shown.

    What it found is kept, and a call for all kernels goes on with it.
    """
    return OutOfTime(f"only {', '.join(context.kernels)}: {said}")


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
    """Every test that needs a GPU, each with its result; goes on with those that an earlier call left.

    In shards side by side; then, in one process, what needs the machine to itself, and whatever else is left.
    """
    need_gpu(context)
    if not (context.root / "tests").is_dir():
        raise Skipped("no tests/ beside the package: run verify in a checkout")
    file, shared = kept(context, "tests"), workers(context)
    file.append(cut_off(file.read()))
    shards = [f"{index}/{shared.processes}" for index in range(shared.processes)]
    parts = [*shards, "large"] if shared.large_beside else shards
    context.together([partial(run_part, context, file, part, shared.environment) for part in parts])
    run_part(context, file, "rest", {})
    results = outcomes(file.read())
    if context.kernels:
        mine = {t: said for t, said in results.items() if any(names(t, k) for k in context.kernels)}
        raise partly(context, f"{len(mine)} tests, failed: {', '.join(failures(mine)) or 'none'}")
    file.discard()
    return judged(results)


def run_part(context: Context, file: Kept, part: str, environment: dict[str, str]) -> None:
    """One part of the tests, in as many processes as it takes, one after the other."""
    words = ["-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "-p", "tests.outcomes"]
    # Without --rootdir pytest takes the file, once it exists, for a place of tests and names them from there.
    words += ["--rootdir", str(context.root), "--outcomes", str(file.path), "--part", part]
    words += ["--kernels", ",".join(context.kernels)] if context.kernels else []
    for _ in range(STARTS):
        before = len(own(file, part))
        try:
            done = context.python(*words, **environment)
        except OutOfTime:
            file.append(cut_off(own(file, part)))
            raise
        if done.returncode in (0, 1, 5):  # all right, some failed, none left
            return
        if len(own(file, part)) == before:
            raise Failed(f"pytest ended with {done.returncode} and no test was run: {tail(done)}")
    raise Failed(f"part {part} of the tests took more than {STARTS} processes; the next call goes on with it")


def own(file: Kept, part: str) -> list[dict[str, Any]]:
    """The lines of one part."""
    return [line for line in file.read() if line.get("part") == part]


def cut_off(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The test that each part was at, marked as stopped: for want of time, or with the machine itself.

    It has shown nothing by that. A crash that the part went on after stays counted, in later calls, too.
    """
    last = {line.get("part"): line for line in lines}
    return [line | {"stopped": True} for line in last.values() if not {"outcome", "stopped"} & line.keys()]


def judged(results: dict[str, str]) -> dict[str, Any]:
    """The step's result. Failed where a test failed, or none was run."""
    bad = failures(results)
    counts = {word: sum(o.startswith(word) for o in results.values()) for word in ("passed", "skipped")}
    said = f"{counts['passed']} passed, {len(bad)} failed, {counts['skipped']} skipped"
    found = {"summary": said, "tests": results}
    if bad or not results:
        raise Failed(f"{said}; failed: {', '.join(bad[:10]) or 'none'}", found)
    return found


def failures(results: dict[str, str]) -> list[str]:
    """The tests that speak against something."""
    return [name for name, outcome in results.items() if outcome in ("failed", "error")]


def outcomes(lines: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Test -> passed | failed | error | skipped: REASON; error for one that never ended."""
    found: dict[str, str] = {}
    for line in lines:
        found[line["test"]] = line.get("outcome", found.get(line["test"], "error"))
    return found


# --- sanitizers --------------------------------------------------------------------------------------


def sanitize(context: Context, tool: str) -> dict[str, Any]:
    """One tool of compute-sanitizer over every kernel beside its tile.

    By several processes, of which each takes the next kernel when it has done with one.
    """
    need_gpu(context)
    program, script = find_sanitizer(), context.root / "tests" / "gpu_sanitize.py"
    if program is None:
        raise Skipped("compute-sanitizer was not found on PATH or in the CUDA toolkit's folders")
    if not script.exists():
        raise Skipped("no tests/gpu_sanitize.py beside the package: run verify in a checkout")
    file, shared = kept(context, f"sanitize:{tool}"), None
    options = ["--tool", tool, "--error-exitcode", str(SANITIZER_STATUS), *SHARING]
    options += ["--leak-check", "no"] if tool == "memcheck" else []
    while left := next_kernels(context, lines := file.read()):
        if context.left_s < LEAST_S:
            raise OutOfTime(f"{len(left)} kernels are left: {left[0]} is next")
        shared = shared or workers(context)
        with tempfile.TemporaryDirectory() as claims:
            words = ["--every", str(TOOLS[tool]), "--claims", claims, *left]
            command = [program, *options, sys.executable, str(script), *words]
            run = partial(watched, context, file, command, shared.environment)
            ended = context.together(
                [run] * (1 if doubted(lines) & {*left} else min(shared.processes, len(left)))
            )
        if len(file.read()) == len(lines):
            said = next((done for done in ended if done.returncode), ended[0])
            raise Failed(f"{tool} ended with {said.returncode} and ran no kernel: {tail(said)}")
    found = {e["kernel"]: e["verdict"] for e in file.read() if "verdict" in e}
    wrong = [f"{kernel}: {verdict}" for kernel, verdict in found.items() if speaks_against(verdict)]
    if context.kernels:
        mine = [text for text in wrong if any(names(text, kernel) for kernel in context.kernels)]
        raise partly(context, f"{tool} finds {'; '.join(mine) or 'nothing wrong'}")
    file.discard()
    if wrong:
        raise Failed(f"{tool}: {len(wrong)} kernels: {wrong[0]}", {"tool": tool, "kernels": found})
    return {"tool": tool, "kernels": found}


def watched(
    context: Context, file: Kept, command: Sequence[str], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a sanitizer; keep what is said of a kernel once the next is begun, since more may be until then."""
    written: set[str] = set()

    def keep(found: Sequence[tuple[str, str]]) -> None:
        new = [(kernel, verdict) for kernel, verdict in found if kernel not in written]
        written.update(kernel for kernel, _ in new)
        before = doubted(file.read())
        file.append({"kernel": k, word(v, k in before): v} for k, v in new)

    def watch(text: str) -> None:
        keep(list(verdicts(text, 0).items())[:-1])

    done = context.run(command, watch=watch, **environment)
    keep(list(verdicts(done.stdout, done.returncode).items()))
    return done


def speaks_against(verdict: str) -> bool:
    """Does a verdict, or a reason why there is none, speak against the kernel?"""
    absent = ("right", "not run", "no GPU", "compute-sanitizer was not found", "no tests/")
    return not verdict.startswith(absent)


def word(verdict: str, again: bool) -> str:
    """What the file calls it: a doubtful one is a verdict only the second time."""
    return "doubt" if not again and any(text in verdict for text in DOUBTFUL) else "verdict"


def doubted(lines: Sequence[dict[str, Any]]) -> set[str]:
    """The kernels that have had their first try."""
    return {line["kernel"] for line in lines if "doubt" in line}


def next_kernels(context: Context, lines: Sequence[dict[str, Any]]) -> list[str]:
    """Those that are asked for and left; the ones to be run again when no other is."""
    left = [name for name in unseen(lines) if name in (context.kernels or [name])]
    again = doubted(lines)
    return [name for name in left if name not in again] or left


def unseen(lines: Sequence[dict[str, Any]]) -> list[str]:
    """The kernels that have no verdict yet; those with most to do first, so that none is waited for alone."""
    seen = {line["kernel"] for line in lines if "verdict" in line}
    kernels = [k for k in _cuda_source.all_kernels().values() if isinstance(k, _cuda_source.Kernel)]
    left = [kernel for kernel in kernels if kernel.name not in seen]
    return [kernel.name for kernel in sorted(left, key=work, reverse=True)]


def work(kernel: _cuda_source.Kernel) -> int:
    """In proportion to it: products of the size of a tile, for each type."""
    return len(kernel.header.dtypes) * math.prod(max(1, size) for size in kernel.variant.tile)


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
