"""The steps of the hardware run. Each returns what it found, or raises Failed, Skipped or OutOfTime.

Most start a process of their own, so that a crash or a poisoned CUDA context ends one step, not the run.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from .journal import ANEW, atomic_write
from .peers_run import NO_PEER
from .verify_state import MOST_FILES, RUNNING, Context, Failed, Skipped

BUILD_MODULES = {
    "pip": "python -m ensurepip",
    "scikit_build_core": "pip install scikit-build-core",
    "cffi": "pip install cffi",
}
"""What building the native library needs in this environment, each with the command that brings it."""


def tail(done: subprocess.CompletedProcess[str], lines: int = 15) -> str:
    """The last lines of what a program printed."""
    return "\n".join((done.stdout + done.stderr).strip().splitlines()[-lines:])


def build(context: Context) -> dict[str, Any]:
    """The native library can be loaded; where it cannot, build it and put it on every later step's path."""
    probe = "import backends, msgspec; print(msgspec.json.encode(backends.get('native').probe()).decode())"
    state = msgspec.json.decode(last_line(context.python("-c", probe).stdout) or "{}")
    if not state.get("ok"):
        state = msgspec.json.decode(last_line(_build_aside(context, state.get("reason", ""), probe)) or "{}")
    if not state.get("ok"):
        raise Failed(f"the native library does not load: {state.get('reason', 'see log.txt')}", state)
    return state


def _build_aside(context: Context, why: str, probe: str) -> str:
    """Install the package into build/verify-site, which later steps find through PYTHONPATH."""
    absent = {name: cure for name, cure in BUILD_MODULES.items() if importlib.util.find_spec(name) is None}
    if absent:
        raise Failed(
            f"the native library is absent ({why}) and cannot be built: this Python has no module "
            f"{', '.join(absent)}: {' && '.join(absent.values())}"
        )
    site = context.root / "build" / "verify-site"
    pip = [
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-build-isolation",
        "--upgrade",
        "--target",
        str(site),
        ".",
    ]
    built = context.python(*pip)
    if built.returncode:
        raise Failed(f"the native library is absent ({why}) and pip could not build it: {tail(built, 5)}")
    context.env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    return context.python("-c", probe).stdout


def last_line(text: str) -> str:
    """The last line that is not blank, or an empty string."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def environment(context: Context) -> dict[str, Any]:
    """What `doctor --json` says of the machine and the backends."""
    done = context.python("-m", "suite", "doctor", "--json")
    if done.returncode:
        raise Failed(f"doctor ended with {done.returncode}: {tail(done)}")
    return msgspec.json.decode(done.stdout[done.stdout.index("{") :])


def c_tests(context: Context) -> dict[str, Any]:
    """Configure, build and run the C tests once for each instruction set of this processor."""
    if shutil.which("cmake") is None:
        raise Skipped("cmake is not installed: pip install cmake ninja")
    if not (context.root / "CMakePresets.json").exists():
        raise Skipped("no CMakePresets.json beside the package: run verify in a checkout")
    for command in (["cmake", "--preset", "dev"], ["cmake", "--build", "--preset", "dev"]):
        done = context.run(command)
        if done.returncode:
            raise Failed(f"{' '.join(command)} failed: {tail(done)}")
    isas = context.result("build").get("detail", {}).get("isa_usable", [])
    result = {isa: _ctest(context, isa) for isa in isas}
    if bad := [isa for isa, entry in result.items() if not entry["ok"]]:
        raise Failed(f"C tests failed with GEMM_ISA={', '.join(bad)}", result)
    if not result:
        raise Failed("the native library names no usable instruction set: see step build")
    return result


def _ctest(context: Context, isa: str) -> dict[str, Any]:
    done = context.run(["ctest", "--preset", "dev", "--output-on-failure"], GEMM_ISA=isa)
    lines = [line.strip() for line in done.stdout.splitlines() if "tests passed" in line]
    return {"ok": done.returncode == 0, "summary": lines[-1] if lines else tail(done, 5)}


def gpu_reason(context: Context) -> str:
    """Empty where a CUDA device is usable, else the reason why none is."""
    ask = (
        "import backends; cuda = [b for b in backends.all_backends() if b.device == 'cuda'];"
        "print('USABLE' if any(b.probe().ok for b in cuda) else 'no GPU: ' + '; '.join(b.probe().reason"
        " for b in cuda[:1]))"
    )
    done = context.python("-c", ask)
    if done.returncode:
        raise Failed(f"the backends cannot be asked for a GPU: {tail(done, 1)}")
    line = last_line(done.stdout)
    return "" if line == "USABLE" else line


def need_gpu(context: Context) -> None:
    """Skipped, with the reason, where no CUDA device is usable; asked once a call."""
    if context.no_gpu is None:
        context.no_gpu = gpu_reason(context)
    if context.no_gpu:
        raise Skipped(context.no_gpu)


def kernels(context: Context) -> dict[str, Any]:
    """Raw timings of each CUDA kernel and of cuBLAS, unverified ones too, in a process of their own."""
    need_gpu(context)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.json"
        done = context.python("-m", "suite.verify_kernels", str(path))
        result = msgspec.json.decode(path.read_bytes()) if path.exists() else {}
    wrong = [entry["backend"] for entry in result.get("timings", []) if entry.get("error")]
    if done.returncode or wrong:
        raise Failed(f"exit {done.returncode}; wrong or failing: {', '.join(sorted(set(wrong)))}", result)
    return result


def crossover_options(op: str, dtype: str, memory: str) -> list[str]:
    """The command line of one adaptive crossover run.

    Pageable gemm is held against the exhaustive sweep. Its ratio in mode always lies within 30 % of 1 from
    200 to 750, so it takes longer than a default run until the band is narrow.
    """
    budget = {"gemm pageable": "140", "gemm pinned": "60"}.get(f"{op} {memory}", "40")
    return ["--op", op, "--dtype", dtype, "--host-memory", memory, "--time-budget", budget]


def sweep_options(dtype: str) -> list[str]:
    """The command line of one exhaustive sweep: every eighth size to 1024, nothing to search."""
    return ["--op", "gemm", "--dtype", dtype, "--sizes", "8:1024:+8", "--time-budget", "180"]


def crossover_run(context: Context, options: list[str], target: Path) -> dict[str, Any]:
    """One `crossover` command, whose run is kept in the file `target` in place of an older one.

    Its journal stays in the results folder when the time budget ends first, so the next call goes on there.
    """
    need_gpu(context)
    name = "-".join(option for option in options if not option.startswith("--"))
    how = ["--require-gpu", *resuming(context, name)]
    done, run = measured(context, "crossover", *options, *how)
    add_run(target, " ".join(options), run)
    found = {"exit": done.returncode, "cells": len(run.get("cells", ())), "table": done.stdout}
    if done.returncode not in (0, 4):  # 4: a row without a verdict is a finding, not a fault
        raise Failed(f"crossover ended with {done.returncode}: {tail(done)}", found)
    return found


def peers_run(context: Context, budget_s: float) -> dict[str, Any]:
    """`peers` on this machine's CPU; the whole run is peers.json. Its journal stays as a crossover's does."""
    words = ["--time-budget", f"{budget_s:g}", *resuming(context, "peers")]
    done, run = measured(context, "peers", *words, target=context.out / "peers.json")
    absent = run["options"].get("absent", {})
    found = {"cells": len(run["cells"]), "complete": run["complete"], "absent": absent, "table": done.stdout}
    if done.returncode:
        raise Failed(f"peers ended with {done.returncode}: {tail(done)}", found)
    return found | ({"note": f"not compared: {', '.join(absent)}"} if absent else {})


LADDER = ["--device", "cpu", "--sizes", "64,256,512,1023,1024", "--time-budget", "240"]
"""Long enough for the naive rung at the largest size: half a minute for each type."""


def ladder_run(context: Context) -> dict[str, Any]:
    """`ladder` on this machine's CPU; the whole run is ladder.json. Its journal stays, too."""
    words = [*LADDER, *resuming(context, "ladder")]
    done, run = measured(context, "ladder", *words, target=context.out / "ladder.json")
    found = {"cells": len(run["cells"]), "table": done.stdout}
    if done.returncode not in (0, 4):  # 4: a rung was too slow to be timed
        raise Failed(f"ladder ended with {done.returncode}: {tail(done)}", found)
    return found


def measured(
    context: Context, command: str, *options: str, target: Path | None = None
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """What a measuring command printed, and the run that it exported, kept as `target`.

    What it had kept of an interrupted run under other conditions goes, and all is measured anew. Skipped
    where there is no peer.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.json"
        words = ("-m", "suite", command, *options, "-q", "--export-json", str(path))
        done = context.python(*words)
        if not path.exists() and ANEW in done.stderr:
            journal = Path(options[options.index("--journal") + 1])
            why = last_line(done.stderr).removeprefix("error: ").replace(str(journal), journal.name)
            context.notes.append(f"measured anew: {why.rpartition('; ')[0]}")
            journal.unlink(missing_ok=True)
            done = context.python(*words)
        if not path.exists() and NO_PEER in done.stderr:
            raise Skipped(last_line(done.stderr).removeprefix("error: "))
        if not path.exists():
            raise Failed(f"{command} ended with {done.returncode} and exported nothing: {tail(done)}")
        exported = path.read_bytes()
    if target is not None:
        atomic_write(target, exported)
    return done, msgspec.json.decode(exported)


def resuming(context: Context, name: str) -> list[str]:
    """Options by which a step keeps what it has measured until its run is whole, and goes on with that.

    What was measured with other sources goes.

    Where that would be one file too many profile.json makes room: step `profile`, the last one, makes it
    again from crossover.json.
    """
    stem = f"{RUNNING}{name.replace(':', '_')}"
    journal = context.out / (f"{stem}.{context.sources}.jsonl" if context.sources else f"{stem}.jsonl")
    for old in {*context.out.glob(f"{stem}.*jsonl")} - {journal}:
        old.unlink()
    if len({*context.out.iterdir(), journal}) > MOST_FILES:
        (context.out / "profile.json").unlink(missing_ok=True)
    return ["--resume", "--journal", str(journal)]


def add_run(target: Path, key: str, run: dict[str, Any]) -> None:
    """Keep `run` under `key` in the JSON file `target`."""
    runs = msgspec.json.decode(target.read_bytes()) if target.exists() else {}
    runs[key] = run
    atomic_write(target, msgspec.json.encode(runs))
