"""What makes a command that measures resumable: its journal, and the words that go on with it."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from .. import machine
from ..exits import Exit, Stop
from ..journal import Journal, RecordError
from ..record import Run

MAY_DIFFER = ("options.time_budget_s",)
"""Fields in which a run may differ from the one it goes on with."""


def journal_path(experiment: str, key: str) -> Path:
    """Where the groups of a request are kept while it runs."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "gemm-crossover" / f"{experiment}-{key}.jsonl"


def open_journal(path: Path, experiment: str, asked: dict[str, Any], resume: bool) -> Journal:
    """A fresh journal, or the one to go on with. Stop (usage) where it belongs to another run or machine."""
    here = machine.describe()
    head = Run(
        experiment=experiment,
        options=asked,
        machine={name: here[name] for name in ("fingerprint", "threads", "cuda")},
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if resume:
            return Journal.resume(path, head, ignore=MAY_DIFFER)
        return Journal.create(path, head, ignore=MAY_DIFFER, replacing=say_replaced)
    except RecordError as error:
        raise Stop(str(error), Exit.USAGE) from None
    except OSError as error:
        raise Stop(
            f"the journal {path} cannot be written: {error.strerror or error}; name another by --journal"
        ) from None


def say_replaced(groups: int) -> None:
    """The note before the journal of an interrupted run makes way."""
    click.echo(
        f"note: the journal of an interrupted run of this question (comparison groups finished: {groups}) is "
        "replaced, and all is measured afresh; with --resume the same command goes on instead",
        err=True,
    )


def kept_in(
    path: Path, experiment: str, asked: dict[str, Any], resume: bool, must: bool = False
) -> Journal | None:
    """The journal at `path`; None, and a note, where it cannot be written and need not (`must`, `resume`)."""
    try:
        return open_journal(path, experiment, asked, resume)
    except Stop as stop:
        if must or resume or stop.code == Exit.USAGE:
            raise
        click.echo(f"note: --resume will not work: {stop}", err=True)
        return None


def program() -> str:
    """How this command line was started, to be typed again: `gemm-crossover`, or `python3 -m suite`."""
    start = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv[1:])]
    return shlex.join(start) if start[-2:] == ["-m", "suite"] else "gemm-crossover"


@contextlib.contextmanager
def resumable(journal: Journal | None, command: str) -> Iterator[None]:
    """Turns an interruption into the message that says what is kept and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        if journal is None:
            raise
        again = command if "--resume" in command.split() else f"{command} --resume"
        kept = len(journal.done)
        raise Stop(
            f"interrupted: {kept} comparison groups are kept; go on with: {again}", Exit.INTERRUPTED
        ) from None
    finally:
        with contextlib.suppress(OSError):  # what is buffered no longer fits on a full disk
            if journal is not None:
                journal.close()
