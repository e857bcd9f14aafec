"""What stands in each cell of the two tables of a comparison: functions of one line, or of one size of it."""

from __future__ import annotations

from ..record import Cell
from ..stats import interval
from . import figures
from .summary import CONFIDENCE, Entry, Line

# -- of a line: a row of the table of verdicts


def question(line: Line) -> str:
    """`gemm float32, square, batch 4`."""
    q = line.question
    batch = f", batch {q.batch}" if q.batch > 1 else ""
    return f"{q.op} {q.arithmetic}, {q.shape}{batch}"


def first_win(line: Line) -> str:
    """The smallest size at which the GPU wins."""
    if line.crossover.first_win is not None:
        return str(line.crossover.first_win)
    return "none" if line.crossover.points else "—"


def stable(line: Line) -> str:
    """The size from which it keeps winning, or what is known in its place."""
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


def band(line: Line) -> str:
    """The two sizes between which the truth lies, and how far apart they are."""
    low, high = line.crossover.band
    if low is None or high is None:
        return "—"
    return f"{low} … {high} ({(high / low - 1) * 100:.0f} %)"


def side(line: Line, device: str) -> str:
    """Who stood on that side (cpu or gpu) where the GPU begins to win, else at the largest size."""
    found = line.crossover
    cells = [cell for entry in line.entries if (cell := getattr(entry, device))]
    if not cells:
        return "unavailable"
    backend, threads = (found.cpu, found.cpu_threads) if device == "cpu" else (found.gpu, None)
    backend, threads = (backend, threads) if backend else (cells[-1].backend, cells[-1].threads)
    cells = [cell for cell in cells if cell.backend == backend]
    mark = "" if all(cell.verified for cell in cells) else " UNVERIFIED"
    count = f", {threads} thread{'s' if threads != 1 else ''}" if threads else ""
    return f"{backend}{count}{mark}"


def told_apart(line: Line) -> str:
    """The smallest ratio that the controls could tell from 1."""
    found = line.crossover
    return f"{found.resolution:.3f}" if found.resolution < float("inf") else "no control"


def provenance(line: Line) -> str:
    """Which of its figures are not of this run."""
    return {
        "measured": "",
        "recorded": "RECORDED",
        "cross-machine": "cross-machine, RECORDED",
    }[line.comparison]


# -- of one size of a line: a row of its table of points


def dimensions(entry: Entry) -> str:
    """MxNxK, MxN for a gemv."""
    some = entry.cpu or entry.gpu
    p = some.problem if some else None
    return f"{p.m}x{p.n}x{p.k}" if p and p.op == "gemm" else f"{p.m}x{p.n}" if p else ""


def speed_up(entry: Entry) -> str:
    """t_cpu / t_gpu."""
    return figures.significant(entry.ratio.mid) if both(entry) else ""


def ratio_interval(entry: Entry) -> str:
    """The interval of t_cpu / t_gpu."""
    return figures.interval(entry.ratio.low, entry.ratio.high) if both(entry) else ""


def verdict(entry: Entry) -> str:
    """Who is faster."""
    words = {"win": "GPU", "loss": "CPU", "undecided": "undecided"}
    return words[entry.ratio.verdict] if both(entry) else ""


def both(entry: Entry) -> bool:
    """Whether both sides have a time."""
    return entry.cpu is not None and entry.gpu is not None


def gates(entry: Entry) -> str:
    """Whether results were checked; each outcome once."""
    return " / ".join(dict.fromkeys(_gate(cell) for cell in (entry.cpu, entry.gpu) if cell))


def flags(entry: Entry) -> str:
    """All flags of its cells."""
    return " ".join(sorted({flag for cell in (entry.cpu, entry.gpu) if cell for flag in cell.flags}))


def time(cell: Cell | None) -> str:
    """The time of one call."""
    return "" if cell is None else figures.time(interval(cell.times_s, CONFIDENCE).mid)


def half_width(cell: Cell | None) -> str:
    """Half the interval of the time, in per cent of it."""
    if cell is None:
        return ""
    found = interval(cell.times_s, CONFIDENCE)
    wide = found.half_width / found.mid * 100 if found.mid else float("inf")
    return f"{wide:.1f}" if wide < 1e4 else "—"


def rate(cell: Cell | None) -> str:
    """GFLOP/s."""
    if cell is None:
        return ""
    return figures.rate(cell.problem.flops * cell.reuse, interval(cell.times_s, CONFIDENCE).mid)


def who(cell: Cell | None) -> str:
    """The backend and its threads."""
    if cell is None:
        return ""
    count = f" x{cell.threads}" if cell.threads else ""
    return f"{cell.backend}{count}{'' if cell.verified else ' UNVERIFIED'}"


def _gate(cell: Cell) -> str:
    return "not run" if cell.gate is None else "ok" if cell.gate.ok else f"FAILED {cell.gate.failed}"
