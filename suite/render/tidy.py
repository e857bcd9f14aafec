"""Runs as tidy CSV: one row for each measured cell, SI units in the column names."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

from ..plan import words
from ..record import Cell, Run, group_arithmetic
from ..stats import interval


def _time(cell: Cell, part: str) -> Any:
    if len(cell.times_s) == 1 and part == "mid":
        return cell.times_s[0]
    return getattr(interval(cell.times_s), part) if len(cell.times_s) > 1 else ""


def _gate(cell: Cell) -> str:
    if cell.gate is None:
        return "not run"
    return "ok" if cell.gate.ok else f"failed: {cell.gate.failed}"


def _gflop_s(cell: Cell) -> Any:
    middle = _time(cell, "mid")
    return cell.problem.flops * cell.reuse / middle / 1e9 if middle else ""


_PROBLEM = ("op", "m", "n", "k", "batch", "dtype", "math", "alpha", "beta", "trans_a", "trans_b")
_CELL = (
    "provenance", "role", "device", "backend", "kernel", "verified", "threads", "threads_observed",
    "transfer", "reuse", "host_memory", "cache_state", "timing", "calls_from",
)  # fmt: skip
_MADE: dict[str, Callable[[Cell], Any]] = {
    "visits": lambda cell: cell.config.get("visits", ""),
    "call": lambda cell: cell.config.get("call", ""),
    "samples": lambda cell: len(cell.samples_s),
    "time_s": lambda cell: _time(cell, "mid"),
    "time_low_s": lambda cell: _time(cell, "low"),
    "time_high_s": lambda cell: _time(cell, "high"),
    "gflop_s": _gflop_s,
    "empty_s": lambda cell: cell.empty_s,
    "compile_s": lambda cell: cell.compile_s,
    "alloc_s": lambda cell: cell.alloc_s,
    "gate": _gate,
    "flags": lambda cell: " ".join(cell.flags),
    "skip_reason": lambda cell: cell.skip_reason,
    "group": lambda cell: cell.group,
    "group_arithmetic": lambda cell: words(*group_arithmetic(cell)),
}


def render(run: Run) -> bytes:
    """The cells of `run` as CSV with a header; time and rate are empty where a cell has no samples."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_PROBLEM, *_CELL, *_MADE, "held_to", "machine"))
    held_to = run.options.get("isa", "")
    machine = run.machine.get("fingerprint", "")
    recorded = run.options.get("profile", {}).get("fingerprint", "")
    for cell in run.cells:
        values = [getattr(cell.problem, name) for name in _PROBLEM]
        values += [getattr(cell, name) for name in _CELL]
        values += [make(cell) for make in _MADE.values()]
        writer.writerow([*values, held_to, recorded if cell.provenance == "recorded" else machine])
    return text.getvalue().encode()
