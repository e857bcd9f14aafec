"""A whole run in the terminal: points, plot, and the verdicts last, where the eye ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from ..record import Run
from . import plot, summary, tables
from .summary import Line
from .terminal import needed, show_table


def show(run: Run, out: Console, *, quiet: bool = False) -> list[Line]:
    """Print everything the run says; quiet: the verdict table alone. Returns the lines shown."""
    lines = summary.lines(run)
    recorded = tables.provenance(run)
    if not quiet:
        out.print(Text(machine_line(run)))
        for line in pointed(lines):
            _points(out, run, line)
        plot.show(out, lines, recorded)
    if recorded:
        out.print(Text(recorded, style="bold"))
    _verdicts(out, run, lines)
    return lines


def pointed(lines: Sequence[Line]) -> list[Line]:
    """Lines whose points are listed: of a recorded machine only where nothing else was asked for."""
    worth = summary.worth_points(lines)
    return [line for line in worth if line.comparison != "recorded"] or worth


def _points(out: Console, run: Run, line: Line) -> None:
    shown = fitted(tables.points(run, line), out.width)
    show_table(out, shown.title, shown.columns, shown.rows)
    for text in tables.candidates(line):
        out.print(Text(text))


def fitted(shown: tables.Shown, width: int) -> tables.Shown:
    """The table, its spare columns left out one by one until it fits; the title names them.

    Where even that does not fit, the table is whole: it will be shown line by line.
    """
    left_out: set[str] = set()
    fit = shown
    for name in shown.spare:
        if not fit.rows or needed(fit.columns, fit.rows) <= width:
            break
        left_out |= {name} & set(shown.columns)
        fit = shown.without(left_out)
    if not left_out:
        return shown
    if needed(fit.columns, fit.rows) > width:
        return shown
    title = f"{shown.title} (too narrow for: {', '.join(sorted(left_out))})"
    return msgspec.structs.replace(fit, title=title)


def _verdicts(out: Console, run: Run, lines: Sequence[Line]) -> None:
    shown = fitted(tables.verdicts(run, lines), out.width)
    show_table(out, shown.title, shown.columns, shown.rows, "\n".join(f"* {note}" for note in shown.notes))


def machine_line(run: Run) -> str:
    """CPU, usable threads and GPU of the machine measured on, in one line."""
    m: dict[str, Any] = run.machine
    gpus = m.get("gpus") or []
    gpu = gpus[0]["name"] if gpus else f"none usable ({m.get('gpu_reason') or 'unknown'})"
    threads = m.get("threads", {}).get("usable", "unknown")
    return f"CPU: {m.get('cpu', {}).get('model', 'unknown')}, {threads} threads usable. GPU: {gpu}."
