"""What a run says, row by row: the one source of every table, plot and export.

A line is one question (operation, arithmetic, transfer mode, host memory) with its answer. Without a GPU a
question has two lines: `recorded` (the recorded machine's own answer) and `cross-machine` (the CPU measured
here against the recorded GPU).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from .. import plan
from ..analysis import across, visits
from ..analysis import crossover as analysis
from ..analysis.controls import group_resolution, run_resolution
from ..analysis.ratio import UNKNOWN, Ratio
from ..record import Cell, Run, group_arithmetic

Comparison = Literal["measured", "recorded", "cross-machine"]

CONFIDENCE = 0.95

NO_GPU_TIME = "no GPU time"


class Question(msgspec.Struct, frozen=True):
    """One row asked for."""

    op: str
    shape: str
    dtype: str
    math: str
    batch: int
    host_memory: str
    transfer: str
    reuse: int
    calls_from: str = "python"
    threads: int | None = None
    """The thread count the CPU side is held to; None: its best."""

    @property
    def mode(self) -> str:
        """`once x10`; the number of runs only where it has a meaning, the caller where it is not Python."""
        runs = f" x{self.reuse}" if self.transfer == "once" else ""
        return f"{self.transfer}{runs}{', from C' if self.calls_from == 'c' else ''}"

    @property
    def arithmetic(self) -> str:
        """`float32`; both sides' where the CPU side computes in another: see `plan.words`."""
        return plan.words(self.dtype, self.math)

    def side(self, device: str) -> tuple[str, str]:
        """(dtype, math) in which this side computes."""
        asked = (self.dtype, self.math)
        return plan.cpu_arithmetic(*asked) if device == "cpu" else asked

    @property
    def mixed(self) -> bool:
        """Whether the two sides compute in different arithmetics."""
        return self.side("cpu") != self.side("cuda")


class Entry(msgspec.Struct, frozen=True):
    """One size of a line: the two candidates' cells where they were timed, their ratio, a remark on them."""

    size: int
    cpu: Cell | None
    gpu: Cell | None
    ratio: Ratio
    note: str = ""


class Line(msgspec.Struct, frozen=True):
    """One question with its answer. `why` says what is missing where there is no verdict."""

    question: Question
    comparison: Comparison
    entries: tuple[Entry, ...]
    crossover: analysis.Crossover
    pilots: tuple[Cell, ...] = ()
    why: str = ""

    @property
    def decided(self) -> bool:
        """Whether the question has a verdict."""
        return self.crossover.kind in ("crosses", "<= smallest", "> largest")

    @property
    def recorded(self) -> bool:
        """Whether any figure of it was not measured in this run."""
        return self.comparison != "measured"

    @property
    def cells(self) -> list[Cell]:
        """The candidates' cells of all its sizes."""
        return [cell for entry in self.entries for cell in (entry.cpu, entry.gpu) if cell]

    @property
    def flagged(self) -> dict[str, int]:
        """How many of its cells are noisy, throttled and so on."""
        cells = self.cells
        flags = sorted({flag for cell in cells for flag in cell.flags})
        return {flag: sum(flag in cell.flags for cell in cells) for flag in flags}


def lines(run: Run) -> list[Line]:
    """Every question of the run, in the order of its cells; two lines each where a profile was used."""
    measured = [cell for cell in run.cells if cell.provenance == "measured"]
    recorded = [cell for cell in run.cells if cell.provenance == "recorded"]
    found = []
    for question in questions(run):
        own, theirs = _of(question, measured), _of(question, recorded)
        if theirs:
            found.append(_line(run, question, "recorded", theirs, theirs))
        if own and theirs:
            found.append(_line(run, question, "cross-machine", own, theirs))
        elif own:
            found.append(_line(run, question, "measured", own, own))
    shown = [line for line in found if line.crossover.points or line.question.calls_from == "python"]
    return [_explained(line, run.machine.get("gpu_reason", "")) for line in shown]


def _explained(line: Line, gpu_reason: str) -> Line:
    if line.why == NO_GPU_TIME and gpu_reason:
        return msgspec.structs.replace(line, why=f"{NO_GPU_TIME}: {gpu_reason}")
    return line


def worth_points(lines: Sequence[Line]) -> list[Line]:
    """Lines with points to show: without GPU times all modes of one arithmetic have the same CPU times."""
    with_gpu = [line for line in lines if line.crossover.points]
    if with_gpu:
        return with_gpu
    first: dict[tuple[str, ...], Line] = {}
    for line in lines:
        q = line.question
        first.setdefault((q.op, q.shape, q.dtype, q.math, q.host_memory), line)
    return list(first.values())


def questions(run: Run) -> list[Question]:
    """The distinct questions that the cells of a run answer, ordered as first met."""
    shapes = run.options.get("shapes") or [run.options.get("shape", "square")]
    found: dict[Question, None] = {}
    for cell in run.cells:
        for shape in shapes:
            if not cell.role.startswith("control") and _size(cell, shape) is not None:
                p = cell.problem
                where = (*group_arithmetic(cell), p.batch, cell.host_memory)
                found[Question(p.op, shape, *where, cell.transfer, cell.reuse, cell.calls_from)] = None
    return list(found)


_family = functools.lru_cache(maxsize=64)(plan.family)


def _size(cell: Cell, shape: str) -> int | None:
    try:
        return plan.size_of(cell.problem, _family(shape, cell.problem.op))
    except ValueError:
        return None


def _of(question: Question, cells: Iterable[Cell]) -> list[Cell]:
    """Every cell of the question's comparison groups, those of other modes and the controls included."""
    q = question
    wanted = (q.op, q.dtype, q.math, q.batch, q.host_memory)
    return [cell for cell in cells if _group_of(cell) == wanted and _size(cell, q.shape) is not None]


def _group_of(cell: Cell) -> tuple[str, str, str, int, str]:
    p = cell.problem
    return p.op, *group_arithmetic(cell), p.batch, cell.host_memory


def _line(run: Run, question: Question, comparison: Comparison, cpu: list[Cell], gpu: list[Cell]) -> Line:
    entries = tuple(_entries(question, comparison, cpu, gpu))
    points = [
        analysis.Point(e.size, e.ratio, e.cpu.backend, e.gpu.backend, e.cpu.threads)
        for e in entries
        if e.cpu and e.gpu
    ]
    sizes = [entry.size for entry in entries]
    spacing = max(_spacing(sizes), _coarse_spacing(run, sizes) if comparison == "measured" else 1.0)
    limit = max(_run_limit(cells) for cells in (cpu, gpu))
    found = analysis.crossover(points, spacing=spacing, resolution=limit)
    asked = [cell for cell in (cpu if cpu is gpu else [*cpu, *gpu]) if _asked(question, cell)]
    pilots = tuple(cell for cell in asked if cell.role == "pilot" and cell.samples_s)
    return Line(question, comparison, entries, found, pilots, "" if points else _why(entries, asked))


def _spacing(sizes: Iterable[int]) -> float:
    return max((b / a for a, b in pairwise(sizes)), default=1.0)


def _coarse_spacing(run: Run, measured: Sequence[int]) -> float:
    """That of the sizes the run was asked for, as far as they were measured; 1 where it does not tell them.

    The search refines between them in places: what it measured is closer there than what it looked at anyway.
    """
    asked = sorted({*run.options.get("sizes", ())} & {*measured})
    return _spacing(asked)


def _run_limit(cells: list[Cell]) -> float:
    groups = analysis.by_group(cells).values()
    return run_resolution([group_resolution(group, CONFIDENCE) for group in groups]).ratio


def _entries(question: Question, comparison: Comparison, cpu: list[Cell], gpu: list[Cell]) -> Iterator[Entry]:
    left, right = _candidates(question, cpu, "cpu"), _candidates(question, gpu, "cuda")
    limits = [analysis.resolutions(cells, CONFIDENCE) for cells in (cpu, gpu)]
    pairs: dict[int, tuple[Cell, Cell, float]] = {}
    for size in sorted({*left} & {*right}):
        one, other = left[size], right[size]
        coarsest = max(limits[0][one.group].ratio, limits[1][other.group].ratio)
        pairs[size] = (one, other, coarsest if math.isfinite(coarsest) else 1.0)
    found = _ratios(pairs, comparison)
    for size in sorted({*left, *right}):
        yield Entry(size, left.get(size), right.get(size), found.get(size, UNKNOWN))


def _ratios(pairs: dict[int, tuple[Cell, Cell, float]], comparison: Comparison) -> dict[int, Ratio]:
    """Size -> ratio: from paired rounds and visits where both sides were measured on one machine."""
    if comparison == "cross-machine":
        return {size: across.unpaired(a, b, CONFIDENCE, limit) for size, (a, b, limit) in pairs.items()}
    seen = {size: visits.seen(a, b, CONFIDENCE, limit) for size, (a, b, limit) in pairs.items()}
    return visits.ratios({size: one for size, one in seen.items() if one is not None}, CONFIDENCE)


def _candidates(question: Question, cells: Iterable[Cell], device: str) -> dict[int, Cell]:
    """By size; a cell in another arithmetic than its side's is none."""
    right = ("candidate", device, *question.side(device))
    return {
        _size(cell, question.shape) or 0: cell
        for cell in cells
        if (cell.role, cell.device, cell.problem.dtype, cell.problem.math) == right
        and cell.samples_s
        and _asked(question, cell)
    }


def _asked(question: Question, cell: Cell) -> bool:
    q = question
    return (cell.transfer, cell.reuse, cell.calls_from) == (q.transfer, q.reuse, q.calls_from)


def _why(entries: Iterable[Entry], cells: Iterable[Cell]) -> str:
    """Which side has no time at any size that the other has, and the reasons its cells give."""
    missing = "cuda" if all(entry.gpu is None for entry in entries) else "cpu"
    reasons = {
        f"{cell.backend}: {cell.skip_reason}": None
        for cell in cells
        if cell.device == missing and cell.skip_reason
    }
    return "; ".join(reasons) or (NO_GPU_TIME if missing == "cuda" else "no CPU time")
