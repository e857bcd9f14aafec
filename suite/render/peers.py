"""The tables of a `peers` run: the bars, and every figure by class; terminal and Markdown show the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from backends.base import Problem

from ..analysis.peers import OURS, Bar, Column, Entry, Result, columns, entries, judged, left_out
from ..journal import compact
from ..peers_plan import CLASSES, order_of
from ..peers_rounds import NEAR_BEST, SETTLED_WITHIN
from ..record import Run
from . import markdown, tidy
from .figures import significant
from .tables import Shown
from .terminal import show_table

PYTHON_COLUMNS = (
    "size", "gemm, µs", "prepared, µs", "np.matmul, µs", "np.matmul / gemm", "np.matmul / prepared",
)  # fmt: skip

FRACTION = "(3/5) behind a figure: it comes from 3 of the 5 problems of its kind."
UNSETTLED = (
    f"~: a figure that never settled: its two best rounds differ by more than {100 * SETTLED_WITHIN:.0f} %, "
    f"or it has only one; so marked are ours and the peers within {100 * NEAR_BEST:.0f} % of the best."
)
ROOFS = {"fma": "of the FMA peak", "read": "of the read bandwidth"}

TITLES = {
    "rectangles": "Rectangles",
    "gemv": "Matrix times vector",
    "batch": "Batches",
    "python": "Called from Python",
}


def show(run: Run, out: Console, *, quiet: bool = False) -> None:
    """Print the run; quiet: the bars alone."""
    out.print(Text(headline(run), style="bold"))
    for table in ([] if quiet else by_class(run)) + [bars(run)]:
        show_table(out, table.title, table.columns, table.rows, note="\n".join(table.notes))


def check(run: Run) -> None:
    """ValueError unless the run has what the tables show."""
    for number, cell in enumerate(run.cells):
        if cell.samples_s and not min(cell.samples_s) > 0:
            raise ValueError(f"a time that is not above 0 - at `$.cells[{number}].samples_s`")
        if cell.threads is None:
            raise ValueError(f"Object missing its number of threads - at `$.cells[{number}].threads`")


def makers(run: Run) -> dict[str, Callable[[], bytes]]:
    """For each kind of export the function that makes its bytes."""
    return {
        "json": lambda: compact(run),
        "csv": lambda: tidy.render(run),
        "markdown": lambda: to_markdown(run),
    }


def to_markdown(run: Run) -> bytes:
    """All tables as Markdown, the bars first."""
    tables = [bars(run), *by_class(run)]
    return "\n".join([f"{headline(run)}\n", *(markdown.table(table) for table in tables)]).encode()


def headline(run: Run) -> str:
    """Machine, instruction set, libraries and date in one line."""
    cpu = run.machine.get("cpu", {})
    usable = run.machine.get("threads", {}).get("usable", "?")
    pinned = held_to(run)
    held = f", ours and every peer {pinned}" if pinned else ""
    label = f"{run.options['label']}: " if run.options.get("label") else ""
    named = f"{cpu.get('model', 'unknown CPU')}, {usable} CPUs{held}"
    return f"{label}{named}; {', '.join(libraries(run))}; measured {run.created[:10]}"


def held_to(run: Run) -> str:
    """`held to AVX2`; empty where every library took what the processor has."""
    return f"held to {run.options['isa'].upper()}" if run.options.get("isa") else ""


def libraries(run: Run) -> list[str]:
    """Every peer with its version and kernels, as the record has them."""
    found: dict[str, str] = {}
    for cell in run.cells:
        if cell.backend.startswith("cblas:"):
            version = cell.kernel.partition(" ")[2]
            kernels = cell.config.get("kernels", "")
            found[cell.backend] = f"{short(cell.backend)} {version}" + (f" ({kernels})" if kernels else "")
    return [found[name] for name in sorted(found)]


def short(backend: str) -> str:
    """The name as columns have it."""
    return backend.removeprefix("cblas:") if backend != OURS else "ours"


def bars(run: Run) -> Shown:
    """Every bar with its figure, met or not, for each type and number of threads."""
    results = judged(run)
    shown = sorted({column for _, found in results for column in found})
    rows = tuple(
        (title(bar.kind), bar.words, _asked(bar, found), *(_verdict(bar, found.get(c)) for c in shown))
        for bar, found in results
    )
    every = [result for _, found in results for result in found.values()]
    notes = [f"{sum(result.met for result in every)} of {len(every)} bars are met; means are geometric."]
    notes += [FRACTION] if any(result.of > 1 for result in every) else []
    notes += settling(entries(run))
    notes += [f"Not found here: {name}: {why}" for name, why in run.options.get("absent", {}).items()]
    notes += [f"Not measured: {name}: {why}" for name, why in run.options.get("twice", {}).items()]
    notes += [f"NOT COUNTED: {backend} in {group}: {reason}" for group, backend, reason in left_out(run)]
    for option, what in (("unmeasured", "the time budget"), ("too_large", "into the memory")):
        if left := run.options.get(option, []):
            count = f"{len(left)} group{'s' if len(left) > 1 else ''}"
            notes.append(f"{count} did not fit {what}: {_first(left)}")
    heads = ("class", "figure", "bar", *map(column_name, shown))
    return Shown(_titled("Ours against the best peer", held_to(run)), heads, rows, tuple(notes))


def settling(found: Sequence[Entry]) -> list[str]:
    """How many rounds there were, and how many comparisons rest on a figure that never settled."""
    if not found:
        return []
    least, most = (pick(entry.rounds for entry in found) for pick in (min, max))
    rounds = f"{least} to {most} rounds" if least < most else f"{most} round{'s' if most > 1 else ''}"
    count = sum(bool(entry.unsettled) for entry in found)
    what = f"{len(found)} comparison{'s' if len(found) > 1 else ''} of {rounds}"
    return [f"{what}; in {count} a figure that counts never settled (~)."]


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _asked(bar: Bar, found: dict[Column, Result]) -> str:
    """`≥ 1.05`, `≥ 88 %`."""
    return " / ".join(dict.fromkeys(f"≥ {_figure(bar, result.least)}" for result in found.values()))


def _verdict(bar: Bar, result: Result | None) -> str:
    """`1.73 met (3/5)`; empty where the bar says nothing of the column."""
    if result is None:
        return ""
    share = f" ({result.count}/{result.of})" if result.of > 1 else ""
    return f"{_figure(bar, result.value)} {'met' if result.met else 'NOT MET'}{share}"


def _figure(bar: Bar, value: float) -> str:
    """Rounded down, so that no figure looks as if it reached what it missed."""
    hundredths = math.floor(100 * value + 1e-9)
    return f"{hundredths} %" if bar.percent else f"{hundredths / 100:.2f}"


def column_name(column: Column) -> str:
    """`f32, 1 thread`."""
    dtype, threads = column
    return f"{dtype.replace('float', 'f')}, {threads} thread{'s' if threads > 1 else ''}"


def title(kind: str) -> str:
    """A class as people call it."""
    return TITLES.get(kind, {"768-up": "from 768"}.get(kind, kind.replace("-", " to ")))


def by_class(run: Run) -> list[Shown]:
    """A table for each class, type and number of threads."""
    found = sorted(entries(run), key=lambda entry: order_of(entry.problem))
    return [
        table(kind, column, own, held_to(run))
        for kind in CLASSES
        for column in columns(found)
        if (own := [e for e in found if e.kind == kind and (e.problem.dtype, e.threads) == column])
    ]


def table(kind: str, column: Column, own: Sequence[Entry], held: str = "") -> Shown:
    """The figures of one class, each with its share of the roof, and the ratio to the best peer."""
    name = _titled(f"{title(kind)}, {column_name(column)}", held)
    roofs = {entry.roof for entry in own if entry.roof_s}
    notes = tuple(f"In brackets: part {ROOFS[roof]} of the same round." for roof in ROOFS if roof in roofs)
    notes += (UNSETTLED,) if any(entry.unsettled for entry in own) else ()
    if kind == "python":
        return Shown(name, PYTHON_COLUMNS, tuple(_python_row(entry) for entry in own), notes)
    peers = sorted({peer for entry in own for peer in entry.peers_s})
    unit = "GB/s" if kind == "gemv" else "GFLOP/s"
    heads = ("size", f"ours, {unit}", *map(short, peers), "best peer", "ours / best")
    return Shown(name, heads, tuple(_row(entry, peers) for entry in own), notes)


def _titled(name: str, held: str) -> str:
    return f"{name}, {held}" if held else name


def _row(entry: Entry, peers: Sequence[str]) -> tuple[str, ...]:
    work = entry.problem.bytes_min if entry.kind == "gemv" else entry.problem.flops
    times = {OURS: entry.ours_s, **{peer: entry.peers_s.get(peer) for peer in peers}}
    return (
        size(entry.problem),
        *(_with_share(entry, name, time_s, lambda s: work / s / 1e9) for name, time_s in times.items()),
        short(entry.best_peer),
        f"{_mark(entry, *times)}{entry.ratio:.2f}",
    )


def _mark(entry: Entry, *names: str) -> str:
    """`~` where the figure of one of these never settled."""
    return "~" if entry.unsettled & {*names} else ""


def _with_share(entry: Entry, name: str, time_s: float | None, figure: Callable[[float], float]) -> str:
    """`~118 (51 %)`: a figure of a time, and what part of the roof it is; empty without a time."""
    if time_s is None:
        return ""
    share = f" ({100 * entry.roof_s / time_s:.0f} %)" if entry.roof_s else ""
    return f"{_mark(entry, name)}{significant(figure(time_s))}{share}"


def _python_row(entry: Entry) -> tuple[str, ...]:
    best, prepared = entry.best_peer, entry.prepared_s
    theirs = entry.peers_s[best]
    times = {OURS: entry.ours_s, "prepared": prepared, best: theirs}
    return (
        size(entry.problem),
        *(_with_share(entry, name, time_s, lambda s: 1e6 * s) for name, time_s in times.items()),
        f"{_mark(entry, OURS, best)}{theirs / entry.ours_s:.2f}",
        "" if prepared is None else f"{_mark(entry, 'prepared', best)}{theirs / prepared:.2f}",
    )


def size(p: Problem) -> str:
    """`64`, `64×64×4096`, `4096×4096 T`, `256 of 8`."""
    if p.op == "gemv":
        return f"gemv {'T' if p.trans_a else 'N'} {p.m}" + ("" if p.m == p.n else f"×{p.n}")
    if p.batch > 1:
        return f"{p.batch} of {p.m}"
    return str(p.m) if p.m == p.n == p.k else f"{p.m}×{p.n}×{p.k}"
