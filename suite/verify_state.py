"""How a long verification run is kept on disk, so that the next call goes on where the last one stopped.

One file, `verify.json`, holds every step's outcome; a step counts as done only for the sources it was run on.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from . import verify_process
from .journal import atomic_write, readable

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
"""The checkout (or the folder that holds the installed packages)."""

Status = Literal["done", "failed", "skipped", "unfinished"]

MOST_FILES = 8
"""In the results folder: a machine that is only lent may hand back no more."""

RUNNING = "running-"
"""How the journal of a step begins that has not ended yet."""

MIN_STEP_S = 20.0
"""With less of the time budget left, no further step is begun."""


class Failed(Exception):
    """A step went wrong; what it found until then is kept in `result`."""

    def __init__(self, reason: str, result: dict[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.result = result or {}


class Skipped(Exception):
    """A step cannot be run here; the text is the reason."""


class OutOfTime(Exception):
    """The time budget ended inside a step; it is run again by the next call."""


class Outcome(msgspec.Struct, kw_only=True):
    """What became of one step. `sources` is the hash of what it depends on; times in seconds, UTC.

    reason: why it was not done; of a step that was, its notes and what its result has as `note`.
    """

    status: Status
    reason: str = ""
    seconds: float = 0.0
    finished: str = ""
    sources: str = ""
    result: dict[str, Any] = {}


class State(msgspec.Struct, kw_only=True):
    """The content of `verify.json`."""

    schema: int = 1
    steps: dict[str, Outcome] = {}


def load(out: Path) -> State:
    """The state in `out`, empty where there is none. ValueError names a file that cannot be read."""
    path = out / "verify.json"
    if not path.exists():
        return State()
    try:
        return msgspec.json.decode(path.read_bytes(), type=State)
    except msgspec.DecodeError as error:
        raise ValueError(
            f"{path.name} is no verification state ({error}): move it away or use another --out"
        ) from error


def sources_hash(parts: Sequence[str], root: Path = ROOT) -> str:
    """Hash of the sources below `parts`: files, folders or patterns relative to `root`."""
    digest = hashlib.sha256()
    for top in (path for part in parts for path in sorted(root.glob(part))):
        files = sorted(top.rglob("*")) if top.is_dir() else [top]
        for path in files:
            if path.suffix in {".py", ".c", ".h", ".cu", ".cuh", ".txt"} and path.is_file():
                digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


class Context:
    """What a step is given: where the sources are, where results go, how much time is left."""

    def __init__(self, out: Path, state: State, budget_s: float | None = None, root: Path = ROOT) -> None:
        self.out, self.state, self.root = out, state, root
        self.deadline = time.monotonic() + budget_s if budget_s else float("inf")
        self.env = {"PYTHONUNBUFFERED": "1", "GEMM_CUBIN_CACHE": str(root / "build" / "cubins")}
        self.no_gpu: str | None = None
        """Why no CUDA device is usable, "" where one is; None until it was asked."""
        self.sources = ""
        """Hash of what the step in progress depends on."""
        self.notes: list[str] = []
        """What is worth saying of the step in progress once it is done."""
        self.stopped, self.logging = threading.Event(), threading.Lock()
        """Set where this run is interrupted: all programs that it waits for end then. The log is shared."""
        self.kernels: list[str] = []
        """Tests and sanitizers run for these kernels only, and are unfinished then; empty: for all."""
        self.expected: dict[str, str] = {}
        """Step -> hash of its sources as they are now; an outcome of others no longer counts."""

    @property
    def left_s(self) -> float:
        """Seconds of the time budget that are left (inf without one)."""
        return self.deadline - time.monotonic()

    def outcome(self, step: str) -> Outcome | None:
        """What became of an earlier step, None when it has not been run on the sources as they are now."""
        outcome = self.state.steps.get(step)
        stale = outcome is not None and self.expected.get(step, outcome.sources) != outcome.sources
        return None if stale else outcome

    def result(self, step: str) -> dict[str, Any]:
        """What an earlier step found, empty when it has not been done on the sources as they are now."""
        outcome = self.outcome(step)
        return outcome.result if outcome else {}

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run this Python with `arguments` from the checkout; output goes to log.txt too."""
        return self.run([sys.executable, *arguments], watch=None, **environment)

    def run(
        self, command: Sequence[str], *, watch: verify_process.Watch | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command from the checkout within the time that is left; OutOfTime when that ends.

        watch: told now and then what it has printed so far.
        """
        env = {**os.environ, **self.env, **environment}
        due = max(self.deadline, time.monotonic() + 1.0)
        done, stopped = verify_process.run(
            command,
            cwd=self.root,
            env=env,
            stop=lambda: self.stopped.is_set() or time.monotonic() > due,
            watch=watch,
        )
        self.log(command, environment, done)
        if stopped:
            raise OutOfTime(f"{Path(command[0]).name} did not end within the time budget")
        return done

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """What tasks return that run programs side by side; ends their programs where it is interrupted.

        All have ended before a fault is raised, and want of time only where there is none.
        """
        with ThreadPoolExecutor(max(1, len(tasks))) as pool:
            futures: list[Future[T]] = [pool.submit(task) for task in tasks]
            try:
                wait(futures)
            except BaseException:
                self.stopped.set()
                raise
        faults = [error for future in futures if (error := future.exception())]
        for error in sorted(faults, key=lambda fault: isinstance(fault, OutOfTime)):
            raise error
        return [future.result() for future in futures]

    def log(
        self, command: Sequence[str], environment: dict[str, str], done: subprocess.CompletedProcess[str]
    ) -> None:
        """Append what was run and what it printed to log.txt, without absolute paths of this machine."""
        words = [f"{key}={value}" for key, value in environment.items()] + list(command)
        text = f"$ {' '.join(words)}\n{done.stdout}{done.stderr}[exit {done.returncode}]\n\n"
        for path, name in ((sys.executable, "python"), (str(self.out), "OUT"), (str(self.root), ".")):
            text = text.replace(path, name)
        with self.logging, (self.out / "log.txt").open("a") as log:
            log.write(text)


def names(text: str, kernel: str) -> bool:
    """Does the text, such as a test's name, speak of this kernel, and of no other whose name begins so?"""
    return re.search(re.escape(kernel) + r"(?![\w/])", text) is not None


class Kept:
    """Lines of JSON in the results folder while a step is under way, written by several processes at once.

    A line is one write that begins and ends it: one that a process left torn is ignored and takes no other
    with it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[dict[str, Any]]:
        """What is there."""
        found = []
        for line in self.path.read_bytes().splitlines() if self.path.exists() else ():
            try:
                found.append(msgspec.json.decode(line, type=dict[str, Any]))
            except msgspec.DecodeError:  # torn, or blank
                continue
        return found

    def append(self, entries: Iterable[dict[str, Any]]) -> None:
        """Add lines."""
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            for entry in entries:
                os.write(file, b"\n" + msgspec.json.encode(entry) + b"\n")
        finally:
            os.close(file)

    def discard(self) -> None:
        """The step has ended."""
        self.path.unlink(missing_ok=True)


def run_step(context: Context, name: str, step: Callable[[Context], dict[str, Any]], sources: str) -> Outcome:
    """Run one step and record its outcome at once; whatever it raises is an outcome too."""
    start = time.monotonic()
    status: Status = "done"
    reason, result = "", {}
    context.sources, context.notes = sources, []
    try:
        result = step(context)
        reason = "; ".join(filter(None, [*context.notes, result.pop("note", "")]))
    except Skipped as skip:
        status, reason = "skipped", str(skip)
    except OutOfTime as end:
        status, reason = "unfinished", str(end)
    except Failed as failure:
        status, reason, result = "failed", str(failure), failure.result
    except Exception as error:  # the run goes on with the next step
        status, reason = "failed", f"{type(error).__name__}: {error}"
    outcome = Outcome(
        status=status,
        reason=reason,
        seconds=round(time.monotonic() - start, 1),
        finished=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        sources=sources,
        result=result,
    )
    context.state.steps[name] = outcome
    atomic_write(context.out / "verify.json", readable(context.state))
    return outcome
