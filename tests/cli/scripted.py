"""Scripted backends for the command line: in process with a false clock, or as an entry point of a package.

`install` writes a distribution with an entry point, as somebody else's backend package would have it; a
command line in a process of its own then finds `scripted-cpu` and `scripted-gpu`, which really sleep.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from backends.null import NullBackend
from suite.clock import FakeClock

ROOT = Path(__file__).parents[2]


def cpu_time(problem, transfer, reuse, index):
    """4 ms at size 16, growing with the square of the size; a little scatter, the same every time."""
    return 4e-3 * (problem.m / 16) ** 2 * (1 + 0.002 * (index % 5))


def gpu_time(problem, transfer, reuse, index):
    """8 ms a run whatever the size, and 8 ms more each time the data are copied."""
    copies = {"resident": 0, "once": 1, "always": reuse}[transfer]
    return 8e-3 * (reuse + copies) * (1 + 0.002 * (index % 3))


def pair(clock=None, **attributes):
    """One scripted CPU and one scripted GPU on one clock."""
    clock = clock or FakeClock()
    return clock, [
        NullBackend("scripted-cpu", "cpu", cpu_time, clock=clock, **attributes),
        NullBackend("scripted-gpu", "cuda", gpu_time, clock=clock, **attributes),
    ]


def narrow(problem, operands):
    """The product in the stated arithmetic: operands rounded to it, sums in float32."""
    a, b = (_rounded(x, problem.math) for x in operands[:2])
    operands.c[...] = a @ b


def _rounded(x, math):
    if math == "tf32":
        return ((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    if math == "bf16":
        raise NotImplementedError("no bf16 here")
    return x.astype(np.float32) if math == "fp16" else x


def reduced_pair(clock=None):
    """As `pair`, with a GPU that computes in tf32 and fp16 as well, in a quarter of the time."""
    clock, (cpu, _) = pair(clock)
    quick = lambda p, *rest: gpu_time(p, *rest) / (1 if p.math == "fp32" else 4)  # noqa: E731
    return clock, [cpu, NullBackend("scripted-gpu", "cuda", quick, clock=clock, compute=narrow)]


class Sleeping:
    """What the scripted backends of another process advance: real time, a tenth of the script's."""

    def advance(self, seconds):
        time.sleep(seconds / 10)


def load():
    """The entry point."""
    return reduced_pair(Sleeping())[1]


def install(folder: Path) -> dict[str, str]:
    """Write the distribution into `folder`; the environment in which Python finds it."""
    info = folder / "scripted_backends-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scripted-backends\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gemm_crossover.backends]\nscripted = scripted_plugin:load\n")
    (folder / "scripted_plugin.py").write_text(Path(__file__).read_text())
    return environment(PYTHONPATH=os.pathsep.join([str(folder), str(ROOT)]))


def environment(**changes: str) -> dict[str, str]:
    """The present environment with changes, and without what would steer the terminal."""
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR", "LINES")}
    return {**kept, "PYTHONPATH": str(ROOT), **changes}


def run_suite(*words, env, timeout=60, **attributes):
    """`python -m suite WORDS` in a process of its own."""
    command = [sys.executable, "-m", "suite", *map(str, words)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, **attributes)


def interrupted(words, journal, env):
    """(status, standard error) of `python -m suite WORDS`, stopped by Ctrl-C once a group is kept."""
    told = {"env": env, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-m", "suite", *map(str, words)]
    with subprocess.Popen(command, start_new_session=True, **told) as running:
        end = time.monotonic() + 60
        while not (journal.exists() and '"group":"gemm' in journal.read_text()):
            assert time.monotonic() < end and running.poll() is None
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)
        _, said = running.communicate(timeout=30)
    return running.returncode, said


def records(path: Path) -> list[dict]:
    """Cells of a saved run."""
    return json.loads(path.read_text())["cells"]
