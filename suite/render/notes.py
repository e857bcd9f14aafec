"""What is said below the table of verdicts: how it was timed, what is missing, what holds for every row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..record import Cell, Run
from .summary import CONFIDENCE, Line

FLAG_WORDS = {
    "time_budget": "ended by the time budget",
    "below_resolution": "below the resolution",
    "clocks_unread": "without readable clocks",
}


def conditions(run: Run) -> str:
    """What was timed, in one line: it holds for every figure of the run."""
    timings = sorted({cell.timing for cell in run.cells if cell.samples_s}) or ["latency"]
    meaning = {
        "latency": "latency (one call, then wait)",
        "throughput": "throughput (queued calls, one wait)",
    }
    caches = sorted({cell.cache_state for cell in run.cells if cell.samples_s}) or ["hot"]
    return f"{' and '.join(meaning[t] for t in timings)}, {' and '.join(caches)} caches, called from Python"


def timed(run: Run, lines: Sequence[Line]) -> Iterable[str]:
    """What was timed."""
    yield f"Timed: {conditions(run)}."


def win(run: Run, lines: Sequence[Line]) -> Iterable[str]:
    """What a win is."""
    yield (
        f"A win: the whole {CONFIDENCE:.0%} interval of t_cpu/t_gpu lies above 1, and the ratio is one that "
        "the controls can tell from 1."
    )


def one_visit(run: Run, lines: Sequence[Line]) -> Iterable[str]:
    """What intervals across machines leave out."""
    if any(line.comparison == "cross-machine" for line in lines):
        yield (
            "Cross-machine: the CPU here was visited once at each size and shares no round with the recorded "
            "GPU. These intervals leave out what drifts between visits: near 1 their verdicts are too sure."
        )


def incomplete(run: Run, lines: Sequence[Line]) -> Iterable[str]:
    """What the time did not suffice for, or what ended the run before."""
    if "lost" in run.options:
        yield f"INCOMPLETE: {run.options['lost']}. What was whole by then is shown."
    elif not run.complete:
        left = "; ".join(run.options.get("unmeasured", ())) or "some sizes"
        yield f"INCOMPLETE, the time budget was spent: not measured: {left}."


def remarks(run: Run, lines: Sequence[Line]) -> Iterable[str]:
    """What must be known of single rows, and of all of them."""
    several = len({line.question.op for line in lines}) > 1
    named = [(f"{line.question.op} " if several else "") + _short_name(line) for line in lines]
    yield from _remarks([(name, tuple(_line_notes(line))) for name, line in zip(named, lines, strict=True)])


def _remarks(notes: Sequence[tuple[str, Sequence[str]]]) -> Iterable[str]:
    """What is true of every row once, and the rest row by row."""
    told = dict.fromkeys(text for _, texts in notes for text in texts)
    shared = [text for text in told if len(notes) > 1 and all(text in texts for _, texts in notes)]
    if shared:
        yield f"every row: {'; '.join(shared)}."
    for name, texts in notes:
        if own := [text for text in texts if text not in shared]:
            yield f"{name}: {'; '.join(own)}."


def _short_name(line: Line) -> str:
    q = line.question
    mark = "" if line.comparison == "measured" else f" ({line.comparison})"
    return f"{q.arithmetic} {q.mode} {q.host_memory}{mark}"


def _line_notes(line: Line) -> Iterable[str]:
    found = line.crossover
    if line.why:
        yield f"no verdict: {line.why}"
    if line.question.mixed:
        yield _precision(line)
    if found.isolated_losses:
        yield f"isolated losses at {', '.join(map(str, found.isolated_losses))}"
    if found.undecided:
        yield f"undecided at {', '.join(map(str, found.undecided))}"
    if len(found.points) > 1 and found.spacing > 1:
        yield found.completeness
    if counts := [f"{count} {FLAG_WORDS.get(flag, flag)}" for flag, count in line.flagged.items()]:
        yield f"of {len(line.cells)} timings {', '.join(counts)}"
    if said := _samples(line):
        yield said


def _samples(line: Line) -> str:
    """How many samples stand apart or were taken with a clock held down; they count like the others."""
    cells = line.cells
    total = sum(len(cell.samples_s) for cell in cells)
    counts = {
        "outliers": sum(cell.outliers for cell in cells),
        "taken with the clock held down": sum(cell.throttled for cell in cells),
    }
    said = ", ".join(f"{count} {words}" for words, count in counts.items() if count)
    slow = sum(bool(cell.slow_visits) for cell in cells)
    how = "none was dropped" if not slow else "visits made wholly so count only where there are no others"
    return f"of {total} samples {said}; {how}" if said else ""


def _precision(line: Line) -> str:
    """What must be known of a comparison of two arithmetics."""
    (cpu, cpu_math), (gpu, gpu_math) = line.question.side("cpu"), line.question.side("cuda")
    copied = "" if cpu == gpu else f"; the same values were stored as {cpu} for the CPU beforehand, untimed"
    return (
        f"REDUCED PRECISION, as asked for: the CPU computes in {cpu_math}, the GPU in {gpu_math}, "
        f"each checked in its own arithmetic{copied}"
    )


def gate(run: Run, lines: Sequence[Line]) -> Iterable[str]:
    """Whose results were checked, and whose were wrong."""
    yield from _gate_notes(run.cells)


def _gate_notes(cells: Sequence[Cell]) -> Iterable[str]:
    unchecked = sorted({cell.backend for cell in cells if cell.samples_s and cell.gate is None})
    if unchecked:
        yield f"NOT CHECKED for right results: {', '.join(unchecked)}."
    elif cells:
        yield "Every backend timed was first shown to compute right results in the stated arithmetic."
    failed = {
        (cell.backend, cell.gate.failed, cell.gate.detail): cell.problem
        for cell in cells
        if cell.gate and not cell.gate.ok
    }
    for (backend, part, detail), p in failed.items():
        yield f"WRONG RESULT, not timed: {backend} at {p.m}x{p.n}x{p.k} failed the gate ({part}): {detail}"
