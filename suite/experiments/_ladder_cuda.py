"""The GPU's side of the command `ladder`: what is climbed, and what is shown where there is no GPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from .. import ladder, ladder_counters, ladder_cuda_launch, ladder_cuda_plan
from ..exits import Exit, Stop
from ..journal import load_run
from ..ladder_cuda import RECORDS, CudaLadder, made_for
from ..ladder_cuda_measure import CudaClimb, Spoiled
from ..ladder_cuda_plan import CudaRequest
from ..ladder_measure import Climb
from ..record import Cell, Run

DEFAULT_BUDGET_S = 300.0


def request_of(given: dict[str, Any]) -> CudaRequest:
    """What the options ask for. Stop (usage) where nothing goes together."""
    dtypes = given["dtype"] or ("float32",)
    try:
        return ladder_cuda_plan.checked_sizes(
            CudaRequest(
                sizes=given["sizes"] or ladder_cuda_plan.SIZES,
                ragged=given["ragged"] or ladder_cuda_plan.RAGGED,
                dtypes=dtypes,
                arithmetics=ladder_cuda_plan.arithmetics(dtypes, given["math"]),
                parts=given["part"] or tuple(ladder_cuda_plan.TITLES),
                rungs=given["rung"],
                time_budget_s=given["time_budget"] or DEFAULT_BUDGET_S,
                seed=given["seed"],
            )
        )
    except ValueError as error:
        raise Stop(str(error), Exit.USAGE) from None


def climb_of(asked: CudaRequest, provider: CudaLadder) -> CudaClimb:
    """The climb of this request; Stop (usage) for an unknown rung, or one that is in no part asked for."""
    known = [rung.name for rung in provider.rungs()]
    for name in asked.rungs:
        if name not in known:
            raise Stop(f"rung {name!r} is unknown: use one of {', '.join(known)}", Exit.USAGE)
    if not asked.problems:
        words = ", ".join(f"{dtype} in {math}" for dtype, math in asked.arithmetics)
        raise Stop(f"no rung asked for computes {', '.join(asked.parts)} for {words}", Exit.USAGE)
    return CudaClimb(asked, provider)


def options_of(climb: CudaClimb) -> dict[str, Any]:
    """As it stands in the record."""
    asked, provider = climb.asked, climb.provider
    concerned = [rung for rung in climb.chosen() if ladder_cuda_plan.any_concern(rung, asked.problems)]
    return {
        **msgspec.json.decode(msgspec.json.encode(asked)),  # as a journal gives it back
        "rungs": [rung.facts() | {"made_for": made_for(rung)} for rung in concerned],
        "levels": [list(pair) for pair in provider.levels],
        "columns": [list(pair) for pair in provider.columns],
        "broken": provider.broken(),
    }


def plan_lines(climb: CudaClimb) -> list[str]:
    """What --dry-run prints."""
    asked = climb.asked
    found = [ladder_cuda_plan.part_of(asked, problem) for problem in asked.problems]
    parts = {part: found.count(part) for part in asked.parts if part in found}
    return [
        f"cuda: {', '.join(f'{dtype} in {math}' for dtype, math in asked.arithmetics)}",
        f"problems: {', '.join(f'{part} {count}' for part, count in parts.items())}",
        f"rungs: {', '.join(rung['name'] for rung in options_of(climb)['rungs'])}",
        f"estimated time: about {asked.time_budget_s:.0f} s, and longer where the checks of results take it",
    ]


# --- when CUDA is lost -------------------------------------------------------------------------------


def go_on(climb: Climb, spoiled: Spoiled, spent_s: float) -> Run:
    """Begin again in a fresh process, without the rung that spoiled this one; it does not come back.

    Where nothing could be kept, or no rung is to blame, what was measured is all there is.
    """
    click.echo(f"note: {spoiled}", err=True)
    if climb.journal is None or spoiled.cell is None:
        return spoiled.run
    left = max(1.0, climb.asked.time_budget_s - spent_s)
    kept = ("--resume", "--journal", str(climb.journal.path), "--time-budget", f"{left:.0f}")
    replace_process([sys.executable, *sys.orig_argv[1:], *kept])
    return spoiled.run


def replace_process(words: list[str]) -> None:
    """By one that runs these words: the way to a CUDA context of its own."""
    sys.stdout.flush()
    os.execv(words[0], words)


# --- without a GPU -----------------------------------------------------------------------------------


def recorded(asked: CudaRequest, reason: str, folder: Path = RECORDS) -> Run:
    """The shipped climb, as far as it was asked for. Stop where there is none: the reason and the cure."""
    runs = [load_run(path) for path in sorted(folder.glob("*.json"))]
    if not runs:
        raise Stop(f"no GPU to climb on: {reason} (no recorded climb is shipped with this version)")
    run = runs[-1]
    cells = tuple(msgspec.structs.replace(c, provenance="recorded") for c in _wanted(asked, run))
    if not cells:
        raise Stop(f"no GPU to climb on: {reason} (the recorded climb has nothing of that: {contents(run)})")
    names = {cell.config["rung"] for cell in cells}
    rungs = [rung for rung in run.options["rungs"] if rung["name"] in names]
    return msgspec.structs.replace(run, cells=cells, options={**run.options, "rungs": rungs})


def _wanted(asked: CudaRequest, run: Run) -> Iterator[Cell]:
    """The cells of the parts, arithmetics and rungs asked for, at whatever sizes were recorded."""
    for cell in run.cells:
        named = not asked.rungs or cell.config["rung"] in (*asked.rungs, "cublas")
        how = (cell.problem.dtype, cell.problem.math)
        if named and how in asked.arithmetics and cell.config.get("part") in asked.parts:
            yield cell


def contents(run: Run) -> str:
    """The arithmetics of a recorded climb."""
    found = dict.fromkeys(f"{cell.problem.dtype} in {cell.problem.math}" for cell in run.cells)
    return f"it holds {', '.join(found)}"


def launch_cost(measure: Callable[[], Any]) -> dict[str, Any]:
    """What starting a kernel costs, for the record; empty, and a note, where it cannot be measured."""
    try:
        return msgspec.to_builtins(measure())
    except Exception as error:
        click.echo(f"note: what a launch costs was not measured: {error}", err=True)
        return {}


def completed(run: Run, counters: bool) -> Run:
    """The run with what a launch costs and, where asked for, with counters beside every model."""
    run = msgspec.structs.replace(
        run, options={**run.options, "launch": launch_cost(ladder_cuda_launch.measure)}
    )
    if not counters:
        return run
    counted, said = ladder_counters.count(run)
    if said:
        click.echo(f"note: {said}", err=True)
    return counted


def provider() -> CudaLadder:
    """The GPU's ladder."""
    found = ladder.provider("cuda")
    assert isinstance(found, CudaLadder)
    return found
