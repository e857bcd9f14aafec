"""What a climb of the GPU's ladder says: for each rung and problem its rate, and what it is a part of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from backends.base import Problem

from ..record import Cell, Run
from ..stats import interval

REFERENCE = "cublas"

Group = tuple[str, str, str]
"""Part, dtype, arithmetic."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One rung on one problem. Without a time `time_s` is 0, and `cell.skip_reason` says why.

    time_s: of one run among many; latency_s: of one launch from Python and the wait for it. spread: half of
    the 95 % interval of time_s, over it. share: of the roof, the shortest time that the measured peaks allow.
    of_reference: rate over that of cuBLAS. gain: rate over the rung before, for a variant over its own rung.
    of_whole: FLOP/s over those of the same rung at the nearest whole size. None where there is nothing to
    compare with.
    """

    rung: dict[str, Any]
    cell: Cell
    time_s: float = 0.0
    latency_s: float | None = None
    spread: float = 0.0
    share: float | None = None
    of_reference: float | None = None
    gain: float | None = None
    of_whole: float | None = None

    @property
    def flop_s(self) -> float:
        """Rate of arithmetic; 0 without a time."""
        return self.cell.problem.flops / self.time_s if self.time_s else 0.0

    @property
    def byte_s(self) -> float:
        """Rate of the least traffic; 0 without a time."""
        return self.cell.problem.bytes_min / self.time_s if self.time_s else 0.0


def groups(run: Run) -> list[Group]:
    """Every part of one arithmetic after the other, in the order asked for; the measuring went by size."""
    found = dict.fromkeys(_group(cell) for cell in run.cells)
    maths = [tuple(how) for how in run.options.get("arithmetics", [])]
    parts = run.options.get("parts", [])
    return sorted(found, key=lambda group: (_rank(maths, group[1:]), _rank(parts, group[0])))


def _rank(order: Sequence[Any], one: Any) -> int:
    return order.index(one) if one in order else len(order)


def _group(cell: Cell) -> Group:
    return cell.config.get("part", "square"), cell.problem.dtype, cell.problem.math


def problems(run: Run, group: Group) -> list[Problem]:
    """The problems of a group, in the order measured."""
    return list(dict.fromkeys(cell.problem for cell in run.cells if _group(cell) == group))


def steps(run: Run, group: Group, problem: Problem) -> list[Step]:
    """The rungs on one problem from the bottom to the top."""
    cells = [cell for cell in run.cells if _group(cell) == group and cell.problem == problem]
    queued = {cell.config["rung"]: cell for cell in cells if cell.timing == "throughput"}
    single = {cell.config["rung"]: cell for cell in cells if cell.timing == "latency"}
    reference = _seconds(queued.get(REFERENCE))
    found: list[Step] = []
    below = 0.0
    for rung in run.options["rungs"]:
        if rung["name"] not in queued:
            continue
        step = _step(rung, queued[rung["name"]], single.get(rung["name"]), reference, below)
        below = below if rung["beside"] or rung["name"] == REFERENCE else step.time_s
        found.append(step)
    return found


def _seconds(cell: Cell | None) -> float:
    return interval(cell.times_s).mid if cell is not None and cell.samples_s else 0.0


def _step(rung: dict[str, Any], cell: Cell, single: Cell | None, reference: float, below: float) -> Step:
    if not cell.samples_s:
        return Step(rung=rung, cell=cell)
    time_s = interval(cell.times_s)
    least = least_s(cell)
    return Step(
        rung=rung,
        cell=cell,
        time_s=time_s.mid,
        latency_s=_seconds(single) or None,
        spread=time_s.half_width / time_s.mid,
        share=least / time_s.mid if least else None,
        of_reference=reference / time_s.mid if reference else None,
        gain=below / time_s.mid if below else None,
    )


def least_s(cell: Cell) -> float:
    """The shortest time that the measured peaks allow: of arithmetic, or of moving each byte once."""
    config, p = cell.config, cell.problem
    times = [p.flops / rate for rate in [config.get("roof_flop_s")] if rate]
    times += [p.bytes_min / rate for rate in [config.get("roof_byte_s")] if rate]
    return max(times, default=0.0)


def ragged(run: Run, group: Group, problem: Problem) -> list[Step]:
    """The rungs on one ragged problem, each with its part of the rate at the nearest whole size."""
    whole = ("square", *group[1:])
    sizes = [p.m for p in problems(run, whole)]
    if not sizes:
        return steps(run, group, problem)
    near = min(sizes, key=lambda size: abs(size - problem.m))
    beside = next(p for p in problems(run, whole) if p.m == near)
    rates = {step.rung["name"]: step.flop_s for step in steps(run, whole, beside)}
    return [
        msgspec.structs.replace(step, of_whole=step.flop_s / rates[step.rung["name"]])
        if step.flop_s and rates.get(step.rung["name"])
        else step
        for step in steps(run, group, problem)
    ]


def check(run: Run) -> None:
    """ValueError unless the record says which rungs there were, and which one each cell is."""
    rungs = run.options.get("rungs")
    if not isinstance(rungs, list) or not all(isinstance(r, dict) and "name" in r for r in rungs):
        raise ValueError("not a ladder: options: Object missing required field `rungs`")
    known = {rung["name"] for rung in rungs}
    for number, cell in enumerate(run.cells):
        if cell.config.get("rung") not in known:
            raise ValueError(f"not a ladder: `$.cells[{number}].config.rung` is none of {sorted(known)}")
