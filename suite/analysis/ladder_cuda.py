"""What a climb of the GPU's ladder says: for each rung and problem its rate, and what it is a part of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def nearest_whole(run: Run, group: Group, problem: Problem) -> Problem | None:
    """The square problem of the same arithmetic that is nearest in size; None where there is none."""
    squares = problems(run, ("square", *group[1:]))
    return min(squares, key=lambda p: abs(p.m - problem.m), default=None)


def ragged(run: Run, group: Group, problem: Problem) -> list[Step]:
    """The rungs on one ragged problem, each with its part of the rate at the nearest whole size."""
    near = nearest_whole(run, group, problem)
    beside = steps(run, ("square", *group[1:]), near) if near else []
    return _of_whole(steps(run, group, problem), {step.rung["name"]: step.flop_s for step in beside}, name_of)


def _of_whole(found: list[Step], rates: dict[str, float], key: Callable[[Step], str]) -> list[Step]:
    return [
        msgspec.structs.replace(step, of_whole=step.flop_s / rates[key(step)])
        if step.flop_s and rates.get(key(step))
        else step
        for step in found
    ]


def name_of(step: Step) -> str:
    """`07_warp_tile/sliced`."""
    return str(step.rung["name"])


def stem_of(step: Step) -> str:
    """`07_warp_tile`: what its variants have in common."""
    return name_of(step).partition("/")[0]


def variant_of(step: Step) -> str:
    """`sliced`; empty for the default."""
    return name_of(step).partition("/")[2]


def bests(run: Run, group: Group, problem: Problem) -> list[Step]:
    """The fastest variant of every rung on this problem; its gain is over the fastest one of the rung before.

    A rung without a time at any variant stands there with its default's reason.
    """
    fastest: dict[str, Step] = {}
    for step in steps(run, group, problem):
        before = fastest.setdefault(stem_of(step), step)
        if step.time_s and not 0 < before.time_s <= step.time_s:
            fastest[stem_of(step)] = step
    found: list[Step] = []
    below = 0.0
    for step in fastest.values():
        gain = below / step.time_s if below and step.time_s else None
        found.append(msgspec.structs.replace(step, gain=gain))
        below = step.time_s
    near = nearest_whole(run, group, problem) if group[0] == "ragged" else None
    beside = bests(run, ("square", *group[1:]), near) if near else []
    return _of_whole(found, {stem_of(step): step.flop_s for step in beside}, stem_of)


def fastest_of_ours(found: Sequence[Step]) -> Step | None:
    """The fastest rung but cuBLAS; None where none has a time."""
    ours = [step for step in found if step.time_s and name_of(step) != REFERENCE]
    return min(ours, key=lambda step: step.time_s, default=None)


def check(run: Run) -> None:
    """ValueError unless the record says which rungs there were, and which one each cell is."""
    rungs = run.options.get("rungs")
    if not isinstance(rungs, list) or not all(isinstance(r, dict) and "name" in r for r in rungs):
        raise ValueError("not a ladder: options: Object missing required field `rungs`")
    known = {rung["name"] for rung in rungs}
    for number, cell in enumerate(run.cells):
        if cell.config.get("rung") not in known:
            raise ValueError(f"not a ladder: `$.cells[{number}].config.rung` is none of {sorted(known)}")
