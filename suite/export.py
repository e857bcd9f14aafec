"""Where results go: paths are checked before anything is measured, files are written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from .exits import Exit, Stop
from .journal import atomic_write

STDOUT = "-"

HELP = {
    "json": "Everything, with raw samples; `report` and `profiles build` read it. `-` is standard output.",
    "csv": "One row for each measured cell.",
    "markdown": "The tables (with -q the verdicts only).",
    "svg": "The plot (needs the extra `plot`; a path ending in .png gives PNG).",
}


def checked_target(text: str) -> str:
    """`-`, or the path of a file that can be created or replaced. ValueError says why it cannot."""
    if text == STDOUT:
        return text
    path = Path(text).expanduser()
    path = path.resolve() if path.is_symlink() else path
    folder = path.parent
    if not folder.is_dir():
        raise ValueError(f"{text!r}: the folder {str(folder)!r} does not exist: make it first")
    if path.is_dir():
        raise ValueError(f"{text!r} is a folder: name a file in it")
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{text!r} is not an ordinary file: name one, or use - for standard output")
    if path.exists() and not os.access(path, os.W_OK):
        raise ValueError(f"{text!r} is write-protected: choose another file")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".check-"):
            pass
    except OSError as error:
        raise ValueError(f"{text!r}: nothing can be written there: {error.strerror or error}") from error
    return str(path)


def check_distinct(targets: Mapping[str, str | Path | None]) -> None:
    """Stop (usage) where two kinds would go to one place: the later would wipe out the earlier."""
    taken: dict[str, str] = {}
    for kind, target in targets.items():
        if target is None:
            continue
        place = STDOUT if target == STDOUT else str(Path(target).absolute())
        if place in taken:
            raise Stop(f"{taken[place]} and {kind} both go to {str(target)!r}: name two files", Exit.USAGE)
        taken[place] = kind


def write_all(targets: dict[str, str | None], make: dict[str, Callable[[], bytes]]) -> None:
    """Writes each wanted kind; one that fails does not keep the others from being written.

    Raises Stop with every failure, after all have been tried.
    """
    failures = []
    for kind, target in targets.items():
        if target is None:
            continue
        try:
            content = make[kind]()
            if target == STDOUT:
                click.echo(content, nl=False)
            else:
                atomic_write(target, content)
        except OSError as error:
            failures.append(f"{kind} could not be written to {target!r}: {error.strerror or error}")
    if failures:
        raise Stop("; ".join(failures), Exit.ERROR)
