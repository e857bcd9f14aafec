"""The tables of a comparison as plain text cells; terminal and Markdown show the same ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from ..record import Cell, Run
from ..stats import interval
from . import figures
from .summary import CONFIDENCE, Entry, Line


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


def conditions(run: Run) -> str:
    """What was timed, in one line: it holds for every figure of the run."""
    timings = sorted({cell.timing for cell in run.cells if cell.samples_s}) or ["latency"]
    meaning = {
        "latency": "latency (one call, then wait)",
        "throughput": "throughput (queued calls, one wait)",
    }
    caches = sorted({cell.cache_state for cell in run.cells if cell.samples_s}) or ["hot"]
    return f"{' and '.join(meaning[t] for t in timings)}, {' and '.join(caches)} caches, called from Python"


def verdicts(run: Run, lines: Sequence[Line]) -> Shown:
    """One row for each question: the answer, who stood there, and how fine the run can see."""
    columns = [
        "question", "host memory", "transfer", "first win", "stable from", "band", "CPU side",
        "GPU side", "told apart", "figures",
    ]  # fmt: skip
    rows = [_verdict_row(line) for line in lines]
    shown = Shown(
        "from which size is the GPU faster?", tuple(columns), tuple(rows), tuple(_notes(run, lines))
    )
    return shown.hoisted(("question", "host memory")).filled()


def _figures(line: Line) -> str:
    return {
        "measured": "",
        "recorded": "RECORDED",
        "cross-machine": "cross-machine, RECORDED",
    }[line.comparison]


def _verdict_row(line: Line) -> tuple[str, ...]:
    found, q = line.crossover, line.question
    batch = f", batch {q.batch}" if q.batch > 1 else ""
    return (
        f"{q.op} {q.arithmetic}, {q.shape}{batch}",
        f"{q.host_memory} host memory",
        q.mode,
        _first_win(line),
        _stable(line),
        _band(line),
        _side(found.cpu, found.cpu_threads, line, "cpu"),
        _side(found.gpu, None, line, "gpu"),
        f"{found.resolution:.3f}" if found.resolution < float("inf") else "no control",
        _figures(line),
    )


FLAG_WORDS = {
    "time_budget": "ended by the time budget",
    "below_resolution": "below the resolution",
    "clocks_unread": "without readable clocks",
}


def _first_win(line: Line) -> str:
    if line.crossover.first_win is not None:
        return str(line.crossover.first_win)
    return "none" if line.crossover.points else "—"


def _stable(line: Line) -> str:
    found = line.crossover
    sizes = [point.size for point in found.points]
    if found.kind == "nothing measured":
        return "no verdict"
    if len(sizes) == 1 and line.decided:
        faster = "GPU" if found.kind == "<= smallest" else "CPU"
        return f"{faster} faster at {sizes[0]}"
    return {
        "crosses": str(found.stable_from),
        "<= smallest": f"≤ {sizes[0]} (smallest)",
        "> largest": f"> {sizes[-1]} (largest)",
        "undecided": "undecided" if found.stable_from is None else f"{found.stable_from}, below undecided",
    }[found.kind]


def _band(line: Line) -> str:
    low, high = line.crossover.band
    if low is None or high is None:
        return "—"
    return f"{low} … {high} ({(high / low - 1) * 100:.0f} %)"


def _side(backend: str, threads: int | None, line: Line, side: str) -> str:
    cells = [cell for entry in line.entries if (cell := getattr(entry, side))]
    if not cells:
        return "unavailable"
    backend, threads = (backend, threads) if backend else (cells[-1].backend, cells[-1].threads)
    cells = [cell for cell in cells if cell.backend == backend]
    mark = "" if all(cell.verified for cell in cells) else " UNVERIFIED"
    count = f", {threads} thread{'s' if threads != 1 else ''}" if threads else ""
    return f"{backend}{count}{mark}"


def _notes(run: Run, lines: Sequence[Line]) -> Iterable[str]:
    yield f"Timed: {conditions(run)}."
    yield (
        f"A win: the whole {CONFIDENCE:.0%} interval of t_cpu/t_gpu lies above 1, and the ratio is one that "
        "the controls can tell from 1."
    )
    if not run.complete:
        left = "; ".join(run.options.get("unmeasured", ())) or "some sizes"
        yield f"INCOMPLETE, the time budget was spent: not measured: {left}."
    several = len({line.question.op for line in lines}) > 1
    named = [(f"{line.question.op} " if several else "") + _short_name(line) for line in lines]
    yield from _remarks([(name, tuple(_line_notes(line))) for name, line in zip(named, lines, strict=True)])
    yield from _gate_notes(run.cells)


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


def _precision(line: Line) -> str:
    """What must be known of a comparison of two arithmetics."""
    (cpu, cpu_math), (gpu, gpu_math) = line.question.side("cpu"), line.question.side("cuda")
    copied = "" if cpu == gpu else f"; the same values were stored as {cpu} for the CPU beforehand, untimed"
    return (
        f"REDUCED PRECISION, as asked for: the CPU computes in {cpu_math}, the GPU in {gpu_math}, "
        f"each checked in its own arithmetic{copied}"
    )


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


def points(line: Line) -> Shown:
    """One row for each size of a line: both times with intervals, the speed-up, rates and the gate."""
    columns = (
        "size", "MxNxK", "t_cpu", "± %", "t_gpu", "± %", "speed-up", "interval", "verdict", "CPU GFLOP/s",
        "GPU GFLOP/s", "CPU", "GPU", "gate", "flags",
    )  # fmt: skip
    q = line.question
    figures_of = {"measured": "", "recorded": "RECORDED: ", "cross-machine": "cross-machine, GPU RECORDED: "}
    title = f"{figures_of[line.comparison]}{q.op} {q.arithmetic}, {q.mode}, {q.host_memory} host memory"
    rows = tuple(_point_row(entry) for entry in line.entries)
    spare = ("MxNxK", "gate", "flags", "CPU GFLOP/s", "GPU GFLOP/s", "± %", "CPU", "GPU", "interval")
    return Shown(title, columns, rows, spare=spare).filled()


def _point_row(entry: Entry) -> tuple[str, ...]:
    some = entry.cpu or entry.gpu
    p = some.problem if some else None
    both = entry.cpu is not None and entry.gpu is not None
    r = entry.ratio
    return (
        str(entry.size),
        f"{p.m}x{p.n}x{p.k}" if p and p.op == "gemm" else f"{p.m}x{p.n}" if p else "",
        *_timed(entry.cpu),
        *_timed(entry.gpu),
        figures.significant(r.mid) if both else "",
        figures.interval(r.low, r.high) if both else "",
        {"win": "GPU", "loss": "CPU", "undecided": "undecided"}[r.verdict] if both else "",
        _rate(entry.cpu),
        _rate(entry.gpu),
        _who(entry.cpu),
        _who(entry.gpu),
        " / ".join(dict.fromkeys(_gate(cell) for cell in (entry.cpu, entry.gpu) if cell)),
        " ".join(sorted({flag for cell in (entry.cpu, entry.gpu) if cell for flag in cell.flags})),
    )


def _timed(cell: Cell | None) -> tuple[str, str]:
    if cell is None:
        return "", ""
    found = interval(cell.times_s, CONFIDENCE)
    wide = found.half_width / found.mid * 100 if found.mid else float("inf")
    return figures.time(found.mid), f"{wide:.1f}" if wide < 1e4 else "—"


def _rate(cell: Cell | None) -> str:
    if cell is None:
        return ""
    return figures.rate(cell.problem.flops * cell.reuse, interval(cell.times_s, CONFIDENCE).mid)


def _who(cell: Cell | None) -> str:
    if cell is None:
        return ""
    count = f" x{cell.threads}" if cell.threads else ""
    return f"{cell.backend}{count}{'' if cell.verified else ' UNVERIFIED'}"


def _gate(cell: Cell) -> str:
    return "not run" if cell.gate is None else "ok" if cell.gate.ok else f"FAILED {cell.gate.failed}"


def candidates(line: Line) -> list[str]:
    """For each side one sentence: who was tried on pilot rounds at the largest size, and how they ranked."""
    return [text for device in ("cpu", "cuda") if (text := _ranking(line, device))]


def _ranking(line: Line, device: str) -> str:
    cells = [cell for cell in line.pilots if cell.device == device]
    largest = max((cell.problem.flops for cell in cells), default=0)
    best: dict[str, tuple[float, str]] = {}
    for cell in cells:
        if cell.problem.flops == largest:
            timed = (interval(cell.times_s).mid, _who(cell))
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
