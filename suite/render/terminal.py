"""Tables and lines for people: fit narrow terminals, need no colour and no TTY."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH_WITHOUT_TTY = 140
GAP = 2
"""Blank columns between two columns of a table."""


def console(stderr: bool = False, width: int | None = None) -> Console:
    """A console on standard output or error; where that is no terminal, COLUMNS or a fixed width holds."""
    stream = sys.stderr if stderr else sys.stdout
    if width is None and not stream.isatty():
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdigit() and int(columns) > 0 else WIDTH_WITHOUT_TTY
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
    return Console(file=stream, width=width, highlight=False, soft_wrap=False)


def show_table(
    out: Console,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    note: str = "",
    wraps: bool = False,
) -> None:
    """A table where it fits; else each row as lines of `column: value`. Nothing is cut off.

    wraps: the last column may take several lines, so the table fits where the others leave it enough room.
    """
    out.print(Text(title, style="bold"))
    if rows and needed(columns, rows, wraps) <= out.width:
        out.print(_table(columns, rows, wraps, ascii_only=not utf8(out)))
    else:
        for row in rows:
            _stack(out, columns, row)
    if note:
        out.print(Text(note))


def utf8(out: Console) -> bool:
    """Whether the stream can show more than ASCII."""
    return (out.encoding or "").lower().replace("-", "").startswith("utf")


def needed(columns: Sequence[str], rows: Sequence[Sequence[str]], wraps: bool = False) -> int:
    """Columns of the terminal that a table takes."""
    cells = [[Text(cell).cell_len for cell in row] for row in (columns, *rows)]
    widths = [max(column) for column in zip(*cells, strict=True)]
    if wraps:
        widths[-1] = min(widths[-1], 40)
    return sum(widths) + GAP * (len(columns) - 1)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], wraps: bool, ascii_only: bool) -> Table:
    style = box.ASCII2 if ascii_only else box.SIMPLE_HEAD
    table = Table(box=style, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for index, column in enumerate(columns):
        numeric = index > 0 and all(_is_numeric(row[index]) for row in rows)
        may_wrap = wraps and index == len(columns) - 1
        table.add_column(Text(column), justify="right" if numeric else "left", no_wrap=not may_wrap)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _is_numeric(text: str) -> bool:
    return not text or text[0].isdigit() or text in ("-", "—")


def _stack(out: Console, columns: Sequence[str], row: Sequence[str]) -> None:
    out.print(Text(row[0], style="bold"))
    for column, cell in zip(columns[1:], row[1:], strict=True):
        if cell:
            out.print(Text(f"  {column}: {cell}"))
