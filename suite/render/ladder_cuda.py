"""The GPU's climbed ladder in the terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from backends.base import Problem

from ..analysis.ladder_cuda import Group, Step, check, groups, problems, ragged, steps
from ..journal import compact
from ..ladder_cuda_plan import IN_BYTES, TITLES
from ..record import Clocks, Run
from . import figures, markdown, plot
from .comparison import fitted, machine_line
from .ladder import bars, explained
from .ladder_cuda_best import best_tables, of_ours
from .ladder_cuda_details import counted, details, notes
from .tables import Shown
from .terminal import show_table, utf8

__all__ = ["check", "makers", "show"]

CURVES = 12
"""Curves in one plot at most: those of the fastest rungs."""


def show(run: Run, out: Console, *, quiet: bool = False) -> None:
    """Print the run; quiet: only the rates."""
    if recorded(run):
        out.print(Text(recorded(run), style="bold"))
    if not quiet:
        out.print(Text(machine_line(run)))
        _table(out, explained(run), wraps=True)
        for group in groups(run):
            for problem in detailed(run, group):
                _table(out, details(run, group, problem))
        for group in groups(run):
            _plots(out, run, group)
    for shown in overviews(run):
        _table(out, shown)


def overviews(run: Run) -> list[Shown]:
    """The fastest variants, every part's rates over its problems, then what starting a kernel costs."""
    return [*best_tables(run), *(overview(run, group) for group in groups(run)), *launches(run)]


def recorded(run: Run) -> str:
    """The line that says where recorded figures come from; empty for a run of this machine."""
    if not any(cell.provenance == "recorded" for cell in run.cells):
        return ""
    gpu = (run.machine.get("gpus") or [{}])[0].get("name", "unknown GPU")
    return f"RECORDED: {gpu}, measured {run.created[:10]}"


def _table(out: Console, shown: Shown, wraps: bool = False) -> None:
    shown = shown if wraps else fitted(shown, out.width)
    text = "\n".join(f"* {note}" for note in shown.notes)
    show_table(out, shown.title, shown.columns, shown.rows, text, wraps=wraps)


def detailed(run: Run, group: Group) -> list[Problem]:
    """The problems that have a table of their own: every whole square one, of another part the last."""
    found = problems(run, group)
    return found if group[0] == "square" else found[-1:]


def label(part: str, p: Problem) -> str:
    """What tells a problem from the others of its part."""
    if part == "long_k":
        return f"{p.m}×{p.n}×{p.k}"
    if part == "batched":
        return f"{p.batch} of {p.m}"
    power = p.n.bit_length() - 1
    return f"2^{power}" if part in ("vector_add", "copy") and p.n == 1 << power else str(p.n)


def heading(group: Group) -> str:
    """`float32 in fp32, M = N = K`."""
    part, dtype, arithmetic = group
    return f"{dtype} in {arithmetic}, {TITLES.get(part, part)}"


def overview(run: Run, group: Group) -> Shown:
    """The rate of every rung on every problem of a part, with what it is a part of."""
    part = group[0]
    found = {p: (ragged if part == "ragged" else steps)(run, group, p) for p in problems(run, group)}
    names = [r["name"] for r in run.options["rungs"] if any(_of(s, r["name"]) for s in found.values())]
    rows = tuple((name, *(_figure(part, _of(s, name)) for s in found.values())) for name in names)
    if part not in ("square", "ragged"):  # whose rungs are steps, of which the last is the fastest
        rows += (("fastest of ours", *map(of_ours, found.values())),)
    unit = "GB/s" if part in IN_BYTES else "TFLOP/s"
    meaning = ", ".join(words for _, words in _shares(part))
    title = f"{heading(group)}: {unit} ({meaning})"
    return Shown(title, ("rung", *(label(part, p) for p in found)), rows, tuple(notes(run, group)))


def _of(found: list[Step], name: str) -> Step | None:
    return next((step for step in found if step.rung["name"] == name), None)


def _shares(part: str) -> list[tuple[str, str]]:
    """The shares an overview shows: field of a step, and how it is called."""
    whole = [("of_whole", "% of the nearest whole size")] if part == "ragged" else []
    third = ("share", "% of copying" if part in IN_BYTES else "% of the roof")
    return [*whole, ("of_reference", "% of cuBLAS"), *([] if whole else [third])]


def _figure(part: str, step: Step | None) -> str:
    if step is None or not step.time_s:
        return "—"
    rate = step.byte_s / 1e9 if part in IN_BYTES else step.flop_s / 1e12
    values = [getattr(step, field) for field, _ in _shares(part)]
    shares = ", ".join(f"{value * 100:.0f}" if value is not None else "—" for value in values)
    return f"{figures.significant(rate)} ({shares})"


def launches(run: Run) -> list[Shown]:
    """What starting a kernel costs; nothing where it was not measured."""
    cost = run.options.get("launch")
    if not cost:
        return []
    rows = (
        ("a launch from Python, not waited for", figures.time(cost["launch_s"])),
        ("a launch and the wait for it (latency)", figures.time(cost["latency_s"])),
        ("a node of a graph (throughput)", figures.time(cost["node_s"])),
    )
    queued = cost.get("queued_by", "graph")
    said = () if queued == "graph" else (f"no graph could be made: {queued}",)
    return [Shown("starting an empty kernel", ("what", "time"), rows, said)]


def _plots(out: Console, run: Run, group: Group) -> None:
    """Rates over size as curves, and as bars at the last problem."""
    found = curves(run, group)
    if found and out.width >= plot.NARROWEST:
        level = max(step.cell.config.get("roof_flop_s", 0.0) for step in _last(run, group)) / 1e12
        out.print(Text(f"{heading(group)}: TFLOP/s over size; the line is the peak", style="bold"))
        text = plot.draw(found, min(out.width, 110), level=level or None)
        out.print(Text(text if utf8(out) else text.translate(plot.ASCII), no_wrap=True))
        for curve in found:
            out.print(Text(f"  {curve.letter}  {curve.name}"))
    if any(step.time_s for step in _last(run, group)):
        mark = "█" if utf8(out) else "#"
        out.print(Text(f"{heading(group)}, {label(group[0], problems(run, group)[-1])}", style="bold"))
        out.print(Text(_bars(run, group, min(40, out.width - 44), mark), no_wrap=True))


def _last(run: Run, group: Group) -> list[Step]:
    return steps(run, group, problems(run, group)[-1])


def _bars(run: Run, group: Group, width: int, mark: str) -> str:
    in_bytes = group[0] in IN_BYTES
    unit, scale = ("GB/s", 1e9) if in_bytes else ("TFLOP/s", 1e12)
    found = [(s.rung["name"], (s.byte_s if in_bytes else s.flop_s) / scale) for s in _last(run, group)]
    return f"{unit}, logarithmic\n{bars(found, max(4, width), mark)}"


def curves(run: Run, group: Group) -> list[plot.Curve]:
    """TFLOP/s over size of the fastest rungs; of the square part alone, and with two sizes at least."""
    sizes = problems(run, group)
    if group[0] != "square" or len(sizes) < 2:
        return []
    points: dict[str, dict[int, float]] = {}
    for problem in sizes:
        for step in steps(run, group, problem):
            if step.time_s:
                points.setdefault(step.rung["name"], {})[problem.m] = step.flop_s / 1e12
    fastest = sorted(points, key=lambda name: -max(points[name].values()))[:CURVES]
    kept = [name for name in points if name in fastest]
    return [
        plot.Curve("abcdefghijklmnopqrstuvwxyz"[i], name, tuple(points[name]), tuple(points[name].values()))
        for i, name in enumerate(kept)
    ]


def makers(run: Run) -> dict[str, Callable[[], bytes]]:
    """For each kind of export the function that makes its bytes."""
    return {
        "json": lambda: compact(run),
        "csv": lambda: to_csv(run),
        "markdown": lambda: to_markdown(run),
    }


def to_markdown(run: Run) -> bytes:
    """Machine, rates, then every problem that has a table."""
    label_ = f"**{recorded(run)}**\n\n" if recorded(run) else ""
    about = f"{machine_line(run)} Measured {run.created[:10]} with gemm-crossover {run.tool_version}.\n"
    parts = [label_ + about, *map(markdown.table, overviews(run)), markdown.table(explained(run))]
    for group in groups(run):
        parts += [markdown.table(details(run, group, p)) for p in detailed(run, group)]
    return "\n".join(parts).encode()


CSV_COLUMNS = (
    "part", "op", "dtype", "math", "m", "n", "k", "batch", "trans_a", "rung", "beside", "samples", "time_s",
    "spread", "latency_s", "flop_s", "byte_s", "share_of_roof", "of_cublas", "of_whole_size", "gain",
    "roof_flop_s", "roof_instruction", "roof_byte_s", "flop_per_byte_tile", "registers", "shared_bytes",
    "occupancy", "local_bytes", "max_error", "gate", "verified", "skip_reason",
    "sm_mhz_first", "sm_mhz_last", "temperature_c", "power_w", "throttle",
)  # fmt: skip


def to_csv(run: Run) -> bytes:
    """One row for each rung and problem, SI units; empty where there is no figure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for group in groups(run):
        for problem in problems(run, group):
            for step in (ragged if group[0] == "ragged" else steps)(run, group, problem):
                writer.writerow(_csv_row(group[0], step))
    return text.getvalue().encode()


def _csv_row(part: str, step: Step) -> list[object]:
    cell, p, gate, config = step.cell, step.cell.problem, step.cell.gate, step.cell.config
    spread = step.spread if step.time_s and math.isfinite(step.spread) else None
    row: list[object] = [part, p.op, p.dtype, p.math, p.m, p.n, p.k, p.batch, p.trans_a]
    row += [step.rung["name"], step.rung["beside"], len(cell.samples_s), step.time_s or None, spread]
    row += [step.latency_s, step.flop_s or None, step.byte_s or None, step.share, step.of_reference]
    row += [step.of_whole, step.gain]
    row += [config.get(key) for key in ("roof_flop_s", "roof_instruction", "roof_byte_s")]
    row += [config.get("flop_per_byte", {}).get("tile"), config.get("registers"), counted(config, "shared")]
    row += [config.get("occupancy"), config.get("local_bytes"), gate.max_error if gate else None]
    row += ["not run" if gate is None else "ok" if gate.ok else f"failed: {gate.failed}"]
    return [*row, cell.verified, cell.skip_reason, *_csv_clocks(cell.clocks or Clocks())]


def _csv_clocks(c: Clocks) -> list[object]:
    return [c.before_mhz, c.after_mhz, c.temperature_c, c.power_w, " ".join(c.throttle)]
