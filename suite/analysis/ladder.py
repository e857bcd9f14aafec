"""What a climbed ladder says: for each rung its rate, its part of the roof, and what it gained."""

from __future__ import annotations

from typing import Any

import msgspec

from ..record import Cell, Run
from ..stats import interval


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One rung at one size. Without a time `flop_s` is 0, and `cell.skip_reason` says why.

    spread: half of the 95 % interval of the time, over the time. share: of the roof that was measured on as
    many threads in the same rounds. gain: over the rung before, for one beside the ladder over its own rung;
    None where one of the two has no time.
    """

    rung: dict[str, Any]
    cell: Cell
    flop_s: float = 0.0
    spread: float = 0.0
    share: float | None = None
    gain: float | None = None


class _Rung(msgspec.Struct):
    name: str
    title: str
    idea: str
    changes: str
    look_at: str
    beside: bool


class _Options(msgspec.Struct):
    rungs: list[_Rung]
    levels: list[tuple[str, str]]
    columns: list[tuple[str, str]]


def check(run: Run) -> None:
    """ValueError unless the record says which rungs there were, and which one each cell is."""
    try:
        known = {rung.name for rung in msgspec.convert(run.options, _Options).rungs}
    except msgspec.ValidationError as error:
        raise ValueError(f"not a ladder: options: {error}") from None
    for number, cell in enumerate(run.cells):
        if cell.config.get("rung") not in known:
            raise ValueError(f"not a ladder: `$.cells[{number}].config.rung` is none of {sorted(known)}")


def groups(run: Run) -> list[tuple[str, int]]:
    """(dtype, size) of every group of the run, in the order measured."""
    return list(dict.fromkeys((cell.problem.dtype, cell.problem.m) for cell in run.cells))


def dtypes(run: Run) -> list[str]:
    """The types of the run."""
    return list(dict.fromkeys(dtype for dtype, _ in groups(run)))


def sizes(run: Run, dtype: str) -> list[int]:
    """The sizes of one type, ascending."""
    return sorted(size for found, size in groups(run) if found == dtype)


def steps(run: Run, dtype: str, size: int) -> list[Step]:
    """The rungs of one group from the bottom to the top."""
    cells = {
        cell.config["rung"]: cell
        for cell in run.cells
        if cell.problem.dtype == dtype and cell.problem.m == size
    }
    found: list[Step] = []
    below = 0.0
    for rung in run.options["rungs"]:
        if rung["name"] in cells:
            step = _step(rung, cells[rung["name"]], below)
            below = below if rung["beside"] else step.flop_s
            found.append(step)
    return found


def _step(rung: dict[str, Any], cell: Cell, below: float) -> Step:
    if not cell.samples_s:
        return Step(rung=rung, cell=cell)
    time_s = interval(cell.times_s)
    rate = cell.problem.flops / time_s.mid
    roof = cell.config.get("roof_flop_s")
    return Step(
        rung=rung,
        cell=cell,
        flop_s=rate,
        spread=time_s.half_width / time_s.mid,
        share=rate / roof if roof else None,
        gain=rate / below if below else None,
    )


def unmeasured(run: Run) -> dict[str, str]:
    """Rungs without a time at any size, and the reason at the smallest."""
    timed = {cell.config["rung"] for cell in run.cells if cell.samples_s}
    reasons: dict[str, str] = {}
    for cell in run.cells:
        if cell.config["rung"] not in timed:
            reasons.setdefault(cell.config["rung"], cell.skip_reason)
    return reasons


def wrong(run: Run) -> list[Cell]:
    """Cells whose result the gate refused."""
    return [cell for cell in run.cells if cell.gate is not None and not cell.gate.ok]
