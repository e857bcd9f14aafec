"""The table of all rungs on one problem of the GPU's ladder, and the notes below its tables."""

from __future__ import annotations

import math
from typing import Any

from backends.base import Problem

from ..analysis.ladder_cuda import REFERENCE, Group, Step, problems, steps
from ..ladder_cuda_plan import IN_BYTES, PRODUCTS, SHAPED, TITLES
from ..record import Cell, Run
from . import figures
from .tables import Shown


def details(run: Run, group: Group, problem: Problem) -> Shown:
    """Everything about the rungs on one problem."""
    part, dtype, arithmetic = group
    unit = "GB/s" if part in IN_BYTES else "TFLOP/s"
    columns = (
        "rung", unit, "± %", "% of cuBLAS", "% of roof", "gain", "FLOP/B", "DRAM MB", "FLOP/B DRAM", "L2 MB",
        "FLOP/B L2", "regs", "shared KiB", "occupancy", "spills B", "time", "latency", "max error", "flags",
    )  # fmt: skip
    found = steps(run, group, problem)
    rows = tuple((*_speed(step, part), *_facts(step), *_rest(step)) for step in found)
    spare = ("flags", "± %", "time", "shared KiB", "gain", "latency", "max error", "spills B")
    shape = f"{problem.m}×{problem.n}×{problem.k}" if problem.op == "gemm" else f"{problem.m}×{problem.n}"
    batch = f", {problem.batch} products" if problem.batch > 1 else ""
    title = f"{dtype} in {arithmetic}, {TITLES.get(part, part)}: {shape}{batch}"
    return Shown(title, columns, rows, tuple(_reasons(found)), spare).filled()


def _speed(step: Step, part: str) -> tuple[str, ...]:
    name = step.rung["name"] + ("" if step.cell.verified else " UNVERIFIED")
    if not step.time_s:
        return name, "—", "", "", "", ""
    rate = step.byte_s / 1e9 if part in IN_BYTES else step.flop_s / 1e12
    return (
        name,
        figures.significant(rate),
        f"{step.spread * 100:.1f}" if math.isfinite(step.spread) else "",
        _percent(step.of_reference),
        _percent(step.share),
        f"×{figures.significant(step.gain)}" if step.gain and step.rung["name"] != REFERENCE else "",
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share * 100:.1f}"


def _facts(step: Step) -> tuple[str, ...]:
    """The model, the counters beside it, and what the compiler made of the kernel."""
    config, counters = step.cell.config, step.cell.config.get("counters", {})
    flops = step.cell.problem.flops
    tile = config.get("flop_per_byte", {}).get("tile")
    return (
        figures.significant(tile) if tile else "",
        *_traffic(flops, counters.get("dram_bytes")),
        *_traffic(flops, counters.get("l2_bytes")),
        str(config.get("registers", "")),
        f"{shared / 1024:.1f}" if (shared := counted(config, "shared")) else "",
        f"{config['occupancy'] * 100:.0f} %" if "occupancy" in config else "",
        str(config.get("local_bytes", "")),
    )


def _traffic(flops: int, moved: float | None) -> tuple[str, str]:
    if not moved:
        return "", ""
    return figures.significant(moved / 1e6), figures.significant(flops / moved) if flops else ""


def counted(config: dict[str, Any], what: str) -> int | None:
    """Static and dynamic shared memory of a block in bytes; None where it is not known, as of cuBLAS."""
    keys = [key for key in (f"static_{what}_bytes", f"dynamic_{what}_bytes") if key in config]
    return sum(config[key] for key in keys) if keys else None


def _rest(step: Step) -> tuple[str, ...]:
    gate = step.cell.gate
    error = f"{gate.max_error:.1e}" if gate and gate.ok and gate.max_error is not None else ""
    return (
        figures.time(step.time_s) if step.time_s else "",
        figures.time(step.latency_s) if step.latency_s else "",
        error,
        " ".join(step.cell.flags),
    )


def _reasons(found: list[Step]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for step in found:
        if not step.time_s:
            reasons.setdefault(step.cell.skip_reason, []).append(step.rung["name"])
    return [f"skipped: {', '.join(names)}: {reason}" for reason, names in reasons.items()]


def notes(run: Run, group: Group) -> list[str]:
    """What the figures of a part are, and what has none or is wrong."""
    cells = [cell for p in problems(run, group) for cell in (step.cell for step in steps(run, group, p))]
    found = [_peak_note(cells, group), *_absent_peaks(run, group), clock_note(cells)]
    other = {cell.config.get("computed_in") for cell in cells if cell.config["rung"] == REFERENCE}
    if other and other != {group[2]}:
        found.append(f"cuBLAS has no {group[2]}: it stands here in {', '.join(sorted(map(str, other)))}.")
    found.append(_apart_note(run, group[0]))
    found += [
        f"WRONG RESULT, not timed: {cell.config['rung']}: {cell.skip_reason}"
        for cell in cells
        if cell.gate is not None and not cell.gate.ok
    ]
    skipped = dict.fromkeys(
        f"skipped: {cell.config['rung']}: {cell.skip_reason}"
        for cell in cells
        if not cell.samples_s and (cell.gate is None or cell.gate.ok)
    )
    return [note for note in (*found, *skipped) if note]


def _absent_peaks(run: Run, group: Group) -> list[str]:
    """Why a peak of this arithmetic, or that of copying, was not measured."""
    absent: dict[str, str] = run.options.get("absent_peaks", {})
    kinds = ("bytes",) if group[0] in IN_BYTES else (group[2], "bytes")
    return [f"No peak of {n}: {why}" for n, why in absent.items() if n.partition(",")[0] in kinds]


def clock_note(cells: list[Cell]) -> str:
    """SM clocks, temperature and power that were read after the rounds of these cells."""
    seen = list(dict.fromkeys(cell.clocks for cell in cells if cell.clocks and cell.samples_s))
    rates = [rate for c in seen for rate in (c.before_mhz, c.after_mhz) if rate is not None]
    if not rates:
        return "Clocks, temperature and power could not be read." if any(c.samples_s for c in cells) else ""
    low, high = min(rates), max(rates)
    said = f"SM clock after the rounds {low if low == high else f'{low} to {high}'} MHz"
    if nominal := max((c.nominal_mhz for c in seen if c.nominal_mhz), default=0):
        said += f" (at most {nominal})"
    if hottest := max((c.temperature_c for c in seen if c.temperature_c is not None), default=0):
        said += f", up to {hottest} °C"
    if power := max((c.power_w for c in seen if c.power_w is not None), default=0.0):
        said += f", up to {power:.0f} W"
    reasons = sorted({reason for c in seen for reason in c.throttle})
    return f"{said}; slowed down by {', '.join(reasons)}." if reasons else f"{said}; not slowed down."


def _apart_note(run: Run, part: str) -> str:
    """Which rungs that could compute a part's products are not in it, and why."""
    if part not in PRODUCTS:
        return ""
    made_for: dict[str, list[str]] = {}
    for rung in run.options["rungs"]:
        home = rung.get("made_for", "")
        if home not in ("", part) and not rung["beside"]:
            made_for.setdefault(home, []).append(rung["name"])
    there = ", ".join(f"{', '.join(names)} (made for part {home})" for home, names in made_for.items())
    said = [f"Not here: {there}."] if there else []
    if part in SHAPED:
        said.append("Of the rungs made for squares only those stand here whose CTA tile fits into C.")
    return " ".join(said)


def _peak_note(cells: list[Cell], group: Group) -> str:
    """The roofs, measured in the rounds of the largest problem."""
    config = next((cell.config for cell in reversed(cells) if cell.samples_s), {})
    if not config.get("roof_byte_s"):
        return ""
    copying = f"copying {config['roof_byte_s'] / 1e9:.0f} GB/s"
    if group[0] in IN_BYTES:
        return f"Peak measured in the same rounds: {copying}; data that stay in the L2 cache may pass it."
    peak = f"{config.get('roof_flop_s', 0.0) / 1e12:.1f} TFLOP/s by {config.get('roof_instruction', '')}"
    return f"Peaks measured in the same rounds: {peak}, {copying}; the roof is the lower of the two."
