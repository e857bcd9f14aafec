"""The columns and notes of a comparison, in order. To add one: a line here, its code in a module of its own.

A cell is a pure function of its row and of the whole run; "" where it has nothing to say: a column that is
empty in every row is not shown. Rows are many: what a cell needs of all cells of a run is worked out once a
run. A note is a function of the run and its lines and yields whole sentences, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..record import Run
from . import cell_text, model, notes
from .summary import Entry, Line

Row = TypeVar("Row")


@dataclass(frozen=True)
class Column(Generic[Row]):
    """spare: 0 stands always; where room is short the others are left out, the lowest number first."""

    name: str
    spare: int
    cell: Callable[[Row, Run], str]


Note = Callable[[Run, Sequence[Line]], Iterable[str]]

VERDICT_COLUMNS: list[Column[Line]] = [
    Column("question", 0, lambda line, run: cell_text.question(line)),
    Column("host memory", 0, lambda line, run: f"{line.question.host_memory} host memory"),
    Column("transfer", 0, lambda line, run: line.question.mode),
    Column("first win", 0, lambda line, run: cell_text.first_win(line)),
    Column("stable from", 0, lambda line, run: cell_text.stable(line)),
    Column("band", 0, lambda line, run: cell_text.band(line)),
    Column("CPU side", 0, lambda line, run: cell_text.side(line, "cpu")),
    Column("GPU side", 0, lambda line, run: cell_text.side(line, "gpu")),
    Column("told apart", 0, lambda line, run: cell_text.told_apart(line)),
    Column("figures", 0, lambda line, run: cell_text.provenance(line)),
    Column("predicted", 2, model.predicted),
]

POINT_COLUMNS: list[Column[Entry]] = [
    Column("size", 0, lambda entry, run: str(entry.size)),
    Column("MxNxK", 10, lambda entry, run: cell_text.dimensions(entry)),
    Column("t_cpu", 0, lambda entry, run: cell_text.time(entry.cpu)),
    Column("± %", 60, lambda entry, run: cell_text.half_width(entry.cpu)),
    Column("t_gpu", 0, lambda entry, run: cell_text.time(entry.gpu)),
    Column("± %", 60, lambda entry, run: cell_text.half_width(entry.gpu)),
    Column("speed-up", 0, lambda entry, run: cell_text.speed_up(entry)),
    Column("interval", 90, lambda entry, run: cell_text.ratio_interval(entry)),
    Column("verdict", 0, lambda entry, run: cell_text.verdict(entry)),
    Column("CPU GFLOP/s", 40, lambda entry, run: cell_text.rate(entry.cpu)),
    Column("GPU GFLOP/s", 50, lambda entry, run: cell_text.rate(entry.gpu)),
    Column("CPU", 70, lambda entry, run: cell_text.who(entry.cpu)),
    Column("GPU", 80, lambda entry, run: cell_text.who(entry.gpu)),
    Column("gate", 20, lambda entry, run: cell_text.gates(entry)),
    Column("flags", 30, lambda entry, run: cell_text.flags(entry)),
    Column("note", 5, lambda entry, run: entry.note),
    Column("why", 1, model.why),
]

NOTES: list[Note] = [
    notes.timed,
    notes.win,
    notes.one_visit,
    notes.incomplete,
    notes.remarks,
    notes.gate,
    model.note,
]
