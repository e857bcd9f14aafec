"""The tables of a comparison as plain text cells; terminal and Markdown show the same ones.

What stands in them is listed in `columns`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from ..record import Run
from ..stats import interval
from . import cell_text, columns, figures
from .summary import Line


class Shown(msgspec.Struct, frozen=True):
    """A titled table with notes below it. `spare`: columns to leave out first where room is short."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()

    def without(self, left_out: Collection[str]) -> Shown:
        """The table without these columns."""
        kept = [i for i, column in enumerate(self.columns) if column not in left_out]
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows)
        return msgspec.structs.replace(self, columns=tuple(self.columns[i] for i in kept), rows=rows)

    def filled(self) -> Shown:
        """The table without columns that are empty in every row."""
        columns = list(zip(*self.rows, strict=True))
        return self.without(
            {name for name, cells in zip(self.columns, columns, strict=False) if not any(cells)}
        )

    def hoisted(self, names: Collection[str]) -> Shown:
        """Columns of these names that say the same in every row stand in the title instead."""
        columns = dict(zip(self.columns, zip(*self.rows, strict=True), strict=False))
        same = {name: columns[name][0] for name in names if len(set(columns.get(name, ()))) == 1}
        title = ": ".join([", ".join(same.values()), self.title]) if same else self.title
        return msgspec.structs.replace(self.without(same), title=title)


def provenance(run: Run) -> str:
    """The line that says where recorded figures come from; empty when everything was measured here."""
    used = run.options.get("profile")
    if not used:
        return ""
    return f"RECORDED: {used['gpu']} with {used['cpu']} ({used['label']}), measured {used['created'][:10]}"


def spare(listed: Iterable[columns.Column[Any]]) -> tuple[str, ...]:
    """The names of those that may be left out, in the order in which they are."""
    found = sorted((column for column in listed if column.spare), key=lambda column: column.spare)
    return tuple(dict.fromkeys(column.name for column in found))


def made(title: str, listed: Sequence[columns.Column[Any]], rows: Iterable[Any], run: Run) -> Shown:
    """The table of these columns for these rows."""
    body = tuple(tuple(column.cell(row, run) for column in listed) for row in rows)
    return Shown(title, tuple(column.name for column in listed), body, spare=spare(listed))


def verdicts(run: Run, lines: Sequence[Line]) -> Shown:
    """One row for each question: the answer, who stood there, and how fine the run can see."""
    shown = made("from which size is the GPU faster?", columns.VERDICT_COLUMNS, lines, run)
    notes = tuple(text for note in columns.NOTES for text in note(run, lines))
    return msgspec.structs.replace(shown, notes=notes).hoisted(("question", "host memory")).filled()


def points(run: Run, line: Line) -> Shown:
    """One row for each size of a line: both times with intervals, the speed-up, rates and the gate."""
    q = line.question
    figures_of = {"measured": "", "recorded": "RECORDED: ", "cross-machine": "cross-machine, GPU RECORDED: "}
    title = f"{figures_of[line.comparison]}{q.op} {q.arithmetic}, {q.mode}, {q.host_memory} host memory"
    return made(title, columns.POINT_COLUMNS, line.entries, run).filled()


def candidates(line: Line) -> list[str]:
    """For each side one sentence: who was tried on pilot rounds at the largest size, and how they ranked."""
    return [text for device in ("cpu", "cuda") if (text := _ranking(line, device))]


def _ranking(line: Line, device: str) -> str:
    cells = [cell for cell in line.pilots if cell.device == device]
    largest = max((cell.problem.flops for cell in cells), default=0)
    best: dict[str, tuple[float, str]] = {}
    for cell in cells:
        if cell.problem.flops == largest:
            timed = (interval(cell.times_s).mid, cell_text.who(cell))
            best[cell.backend] = min(best.get(cell.backend, timed), timed)
    ranked = sorted(best.values())
    if len(ranked) < 2:
        return ""
    p = next(cell.problem for cell in cells if cell.problem.flops == largest)
    parts = [f"{who} {figures.time(t)}" for t, who in ranked[:1]]
    parts += [f"{who} {figures.time(t)} ({t / ranked[0][0]:.2f} times as long)" for t, who in ranked[1:]]
    side = "CPU" if device == "cpu" else "GPU"
    sizes = f"{p.m}x{p.n}x{p.k}" if p.op == "gemm" else f"{p.m}x{p.n}"
    return f"{side} candidates at {sizes}, {line.question.mode} (pilot rounds): {', '.join(parts)}"
