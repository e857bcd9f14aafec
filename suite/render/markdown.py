"""Comparison tables as Markdown, for READMEs and issues."""

from __future__ import annotations

from ..record import Run
from . import summary, tables
from .tables import Shown


def render(run: Run, points: bool = True) -> bytes:
    """Machine, verdicts and, unless `points` is off, the points of every line."""
    lines = summary.lines(run)
    parts = [_machine(run), table(tables.verdicts(run, lines))]
    for line in summary.worth_points(lines) if points else ():
        parts.append(table(tables.points(run, line)))
        parts += [f"- {text}\n" for text in tables.candidates(line)]
    return "\n".join(parts).encode()


def _machine(run: Run) -> str:
    gpus = run.machine.get("gpus") or []
    cpu = run.machine.get("cpu", {}).get("model", "unknown")
    here = f"CPU: {cpu}; GPU: {gpus[0]['name'] if gpus else 'none'}"
    recorded = tables.provenance(run)
    label = f"**{recorded}**\n\n" if recorded else ""
    return f"{label}{here}. Measured {run.created[:10]} with gemm-crossover {run.tool_version}.\n"


def table(shown: Shown) -> str:
    """One table with its title as a heading and its notes as a list."""
    head = [_row(shown.columns), _row(("---",) * len(shown.columns))]
    body = [_row(row) for row in shown.rows]
    notes = [f"- {note}" for note in shown.notes]
    return "\n".join([f"### {shown.title}", "", *head, *body, "", *notes, ""])


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
