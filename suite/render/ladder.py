"""A climbed ladder in the terminal, as Markdown and as CSV; the same tables for every device."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from ..analysis import ladder as analysis
from ..analysis.ladder import Step, dtypes, groups, sizes, steps, wrong
from ..journal import compact
from ..record import Run
from . import figures, markdown
from .comparison import fitted, machine_line
from .tables import Shown
from .terminal import show_table, utf8

__all__ = ["check", "makers", "show"]

BAR = 40
"""Characters of the longest bar of the plot."""

NAME = 22


def _cuda(run: Run) -> Any:
    """The module that shows a run of the GPU's ladder; None for one of the CPU's."""
    if run.options.get("device") != "cuda":
        return None
    from . import ladder_cuda  # which takes its bars from here

    return ladder_cuda


def check(run: Run) -> None:
    """ValueError for a record that lacks what is shown of it."""
    other = _cuda(run)
    (other or analysis).check(run)


def show(run: Run, out: Console, *, quiet: bool = False) -> None:
    """Print the run; quiet: only the rates over the sizes."""
    if other := _cuda(run):
        other.show(run, out, quiet=quiet)
        return
    if not quiet:
        out.print(Text(machine_line(run)))
        _table(out, explained(run), wraps=True)
        for dtype, size in groups(run):
            _table(out, details(run, dtype, size))
        for dtype in dtypes(run):
            _chart(out, run, dtype)
    for dtype in dtypes(run):
        _table(out, overview(run, dtype))


def _table(out: Console, shown: Shown, wraps: bool = False) -> None:
    shown = shown if wraps else fitted(shown, out.width)
    notes = "\n".join(f"* {note}" for note in shown.notes)
    show_table(out, shown.title, shown.columns, shown.rows, notes, wraps=wraps)


def explained(run: Run) -> Shown:
    """What each rung changes."""
    measured = {cell.config["rung"] for cell in run.cells}
    rungs = [rung for rung in run.options["rungs"] if rung["name"] in measured and not rung["beside"]]
    rows = tuple((rung["name"], rung["changes"]) for rung in rungs)
    return Shown("the ladder: each rung changes one thing", ("rung", "what it changes"), rows)


def details(run: Run, dtype: str, size: int) -> Shown:
    """Everything about the rungs at one size."""
    levels, extra = run.options["levels"], run.options["columns"]
    columns = ("rung", "threads", "GFLOP/s", "± %", "% of peak", "gain")
    columns += (*(heading for heading, _ in levels), "max error", *(heading for heading, _ in extra), "flags")
    rows = []
    for step in steps(run, dtype, size):
        config = step.cell.config
        intensity = config.get("flop_per_byte", {})
        rows.append(
            (
                step.rung["name"],
                str(step.cell.threads or ""),
                *_speed(step),
                *(figures.significant(intensity[key]) if key in intensity else "" for _, key in levels),
                _error(step),
                *(str(config.get(key, "")) for _, key in extra),
                " ".join(step.cell.flags),
            )
        )
    spare = ("flags", "± %", "threads", *(heading for heading, _ in extra))
    title = f"{dtype}, M = N = K = {size}"
    return Shown(title, columns, tuple(rows), tuple(_notes(run, dtype, size)), spare).filled()


def _speed(step: Step) -> tuple[str, str, str, str]:
    if not step.flop_s:
        return "—", "", "", ""
    return (
        figures.significant(step.flop_s / 1e9),
        f"{step.spread * 100:.1f}" if math.isfinite(step.spread) else "",
        _percent(step.share),
        f"×{figures.significant(step.gain)}" if step.gain else "",
    )


def _percent(share: float | None) -> str:
    return figures.significant(share * 100, 2 if share < 0.1 else 3) if share else ""


def _error(step: Step) -> str:
    gate = step.cell.gate
    return f"{gate.max_error:.1e}" if gate and gate.ok and gate.max_error is not None else ""


def _notes(run: Run, dtype: str, size: int) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for step in steps(run, dtype, size):
        if not step.flop_s:
            reasons.setdefault(step.cell.skip_reason, []).append(step.rung["name"])
    return [f"not timed: {', '.join(names)}: {reason}" for reason, names in reasons.items()]


def overview(run: Run, dtype: str) -> Shown:
    """GFLOP/s of every rung over the sizes."""
    at = [steps(run, dtype, size) for size in sizes(run, dtype)]
    names = [rung["name"] for rung in run.options["rungs"]]
    titles = {rung["name"]: rung["title"] for rung in run.options["rungs"]}
    by_name = [{step.rung["name"]: step for step in found} for found in at]
    rows = tuple(
        (name, titles[name], *(_rate_and_share(found.get(name)) for found in by_name))
        for name in names
        if any(name in found for found in by_name)
    )
    columns = ("rung", "title", *map(str, sizes(run, dtype)))
    title = f"{dtype}: GFLOP/s (% of the peak on as many threads) by size"
    return Shown(title, columns, rows, tuple(_facts(run)), ("title",))


def _rate_and_share(step: Step | None) -> str:
    if step is None or not step.flop_s:
        return "—"
    share = f" ({_percent(step.share)} %)" if step.share else ""
    return f"{figures.significant(step.flop_s / 1e9)}{share}"


def _facts(run: Run) -> list[str]:
    notes = [
        "The peak: independent multiply-adds in registers, the best of the same rounds.",
        "Gain: over the rung above; of /auto, as the compiler vectorises it, over that rung without vectors.",
        "Every rung timed was first shown to compute right results; max error is relative to |A||B|.",
    ]
    bad = [f"WRONG RESULT, not timed: {cell.config['rung']}: {cell.skip_reason}" for cell in wrong(run)]
    return notes + bad


def _chart(out: Console, run: Run, dtype: str) -> None:
    size = sizes(run, dtype)[-1]
    found = steps(run, dtype, size)
    if not any(step.flop_s for step in found):
        return
    out.print(Text(f"{dtype}, {size}: GFLOP/s, logarithmic", style="bold"))
    out.print(Text(chart(found, min(BAR, out.width - NAME - 12), "█" if utf8(out) else "#"), no_wrap=True))


def chart(found: Sequence[Step], width: int, mark: str) -> str:
    """A bar for each rung in GFLOP/s."""
    return bars([(step.rung["name"], step.flop_s / 1e9) for step in found], width, mark)


def bars(rates: Sequence[tuple[str, float]], width: int, mark: str) -> str:
    """A bar for each name by the logarithm of its rate: `width` marks for the largest, 1 for the smallest.

    0 stands for no rate.
    """
    logs = [math.log(rate) for _, rate in rates if rate]
    low, high = min(logs), max(logs)
    lines = []
    for name, rate in rates:
        part = (math.log(rate) - low) / ((high - low) or 1) if rate else 0
        bar = mark * (1 + round(part * (width - 1))) if rate else ""
        label = figures.significant(rate) if rate else "not timed"
        lines.append(f"{name:<{NAME}} {bar} {label}")
    return "\n".join(lines)


def makers(run: Run) -> dict[str, Callable[[], bytes]]:
    """For each kind of export the function that makes its bytes."""
    if other := _cuda(run):
        return other.makers(run)
    return {
        "json": lambda: compact(run),
        "csv": lambda: to_csv(run),
        "markdown": lambda: to_markdown(run),
    }


def to_markdown(run: Run) -> bytes:
    """Machine, overview, then every size."""
    parts = [f"{machine_line(run)} Measured {run.created[:10]} with gemm-crossover {run.tool_version}.\n"]
    parts += [markdown.table(overview(run, dtype)) for dtype in dtypes(run)]
    parts += [markdown.table(explained(run))]
    parts += [markdown.table(details(run, dtype, size)) for dtype, size in groups(run)]
    return "\n".join(parts).encode()


CSV_COLUMNS = (
    "dtype", "m", "n", "k", "rung", "title", "beside", "threads", "samples", "flop_s", "spread",
    "roof_flop_s", "share_of_roof", "gain", "max_error", "gate", "skip_reason",
)  # fmt: skip


def to_csv(run: Run) -> bytes:
    """One row for each cell, SI units; empty where there is no figure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    levels, extra = ([key for _, key in run.options[name]] for name in ("levels", "columns"))
    writer.writerow((*CSV_COLUMNS, *(f"flop_per_byte_{key}" for key in levels), *extra))
    for dtype, size in groups(run):
        for step in steps(run, dtype, size):
            writer.writerow(_csv_row(step, levels, extra))
    return text.getvalue().encode()


def _csv_row(step: Step, levels: Sequence[str], extra: Sequence[str]) -> list[object]:
    cell, p, gate = step.cell, step.cell.problem, step.cell.gate
    row: list[object] = [p.dtype, p.m, p.n, p.k, step.rung["name"], step.rung["title"], step.rung["beside"]]
    row += [cell.threads, len(cell.samples_s), step.flop_s or None, step.spread if step.flop_s else None]
    row += [cell.config.get("roof_flop_s"), step.share, step.gain, gate.max_error if gate else None]
    row += ["not run" if gate is None else "ok" if gate.ok else f"failed: {gate.failed}", cell.skip_reason]
    row += [cell.config.get("flop_per_byte", {}).get(key) for key in levels]
    return row + [cell.config.get(key) for key in extra]
