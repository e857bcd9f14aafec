"""The GPU's ladder at a glance: at every size the fastest variant of each rung, named if no default."""

from __future__ import annotations

from backends.base import Problem

from ..analysis.ladder_cuda import Group, Step, bests, fastest_of_ours, groups, problems, stem_of, variant_of
from ..record import Run
from . import figures
from .tables import Shown

Column = tuple[Group, Problem]


def best_tables(run: Run) -> list[Shown]:
    """One table for each arithmetic: rungs down, square and ragged sizes across."""
    hows = dict.fromkeys(group[1:] for group in groups(run) if group[0] in ("square", "ragged"))
    return [best_table(run, *how) for how in hows]


def best_table(run: Run, dtype: str, math: str) -> Shown:
    """TFLOP/s; in brackets what that is a part of, of a ragged size beside the nearest whole one first."""
    columns = columns_of(run, dtype, math)
    found = [{stem_of(step): step for step in bests(run, *column)} for column in columns]
    names = [r["name"] for r in run.options["rungs"] if any(r["name"] in steps for steps in found)]
    rows = tuple((name, *(figure(steps.get(name)) for steps in found)) for name in names)
    said = "% of cuBLAS" + (
        "; ragged: % of the nearest whole size, % of cuBLAS"
        if any(g[0] == "ragged" for g, _ in columns)
        else ""
    )
    title = f"{dtype} in {math}, M = N = K, the fastest variant of each rung: TFLOP/s ({said})"
    return Shown(title, ("rung", *(str(p.m) for _, p in columns)), rows)


def columns_of(run: Run, dtype: str, math: str) -> list[Column]:
    """The square and ragged problems of an arithmetic by size."""
    parts: list[Group] = [("square", dtype, math), ("ragged", dtype, math)]
    return sorted(((g, p) for g in parts for p in problems(run, g)), key=lambda column: column[1].m)


def figure(step: Step | None) -> str:
    """`51.0 (97, 101) sliced`; a dash without a time."""
    if step is None or not step.time_s:
        return "—"
    shares = [share for share in (step.of_whole, step.of_reference) if share is not None]
    inside = f" ({', '.join(f'{share * 100:.0f}' for share in shares)})" if shares else ""
    return " ".join(filter(None, [figures.significant(step.flop_s / 1e12) + inside, variant_of(step)]))


def of_ours(found: list[Step]) -> str:
    """The name of our fastest rung on a problem, with its part of cuBLAS's rate: `20_gemv_split 230 %`."""
    step = fastest_of_ours(found)
    if step is None:
        return "—"
    share = f" {step.of_reference * 100:.0f} %" if step.of_reference else ""
    return f"{step.rung['name']}{share}"
