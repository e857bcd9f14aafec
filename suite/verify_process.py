"""Programs that the hardware run starts: each in a session of its own, so that all of it ends with it.

compute-sanitizer and pytest have processes of their own below them, which the death of the first one leaves
alone. Output goes to files without a name: a pipe has to be read to its end, and a survivor holds it open.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

POLL_S = 0.05
WATCH_S = 0.5
"""How often somebody who watches is told what a program has printed."""

GRACE_S = 3.0
"""Between being asked to end and being ended: time to close a journal and to stop workers."""

Watch = Callable[[str], None]


def run(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stop: Callable[[], bool],
    watch: Watch | None = None,
) -> tuple[subprocess.CompletedProcess[str], bool]:
    """Run a command to its end, or until `stop`, asked all the time, says so; was it stopped?

    watch: told now and then all that it has printed on standard output so far, which may end within a line.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            stopped = _wait(process.pid, stop, _told(out, watch))
        finally:
            end(process)
        code = -1 if stopped else process.returncode
        return subprocess.CompletedProcess(command, code, printed(out), printed(err)), stopped


def _wait(pid: int, stop: Callable[[], bool], watching: Iterator[None]) -> bool:
    """Wait for the end of a process, which is not reaped; was it to be stopped before?"""
    while not ended(pid):
        if stop():
            return True
        next(watching)
        time.sleep(POLL_S)
    return False


def _told(file: IO[bytes], watch: Watch | None) -> Iterator[None]:
    """Each `next` tells `watch` what is new, if it is time."""
    seen, due = 0, 0.0
    while True:
        if watch and time.monotonic() >= due and (size := os.fstat(file.fileno()).st_size) > seen:
            seen, due = size, time.monotonic() + WATCH_S
            watch(printed(file))
        yield


def printed(file: IO[bytes]) -> str:
    """What stands in a file that its writers have not closed: their place in it must stay."""
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode(errors="replace")


def ended(pid: int) -> bool:
    """Has a child ended? It is left unreaped, so that its number, that of its group, is nobody else's."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, its group, and what has left the group but is still below it.

    Asked to end first, since a measuring command keeps what it has and stops its own workers then.
    """
    below = descendants(process.pid)
    try:
        if not ended(process.pid):
            _signal_group(process.pid, signal.SIGTERM)
            due = time.monotonic() + GRACE_S
            while not ended(process.pid) and time.monotonic() < due:
                time.sleep(POLL_S)
    finally:
        _signal_group(process.pid, signal.SIGKILL)
        for survivor in below:
            with contextlib.suppress(psutil.Error):
                survivor.kill()
        process.wait()


def descendants(pid: int) -> list[psutil.Process]:
    """The processes below one, in whatever group; they are known by when they began, too."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
