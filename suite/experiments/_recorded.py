"""Sets a CPU measured here against a recorded machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from .. import plan, profiles, sweep
from ..record import Cell, Run, group_arithmetic
from ..request import Request, Sweep

NO_PINNED = "pinned host memory needs CUDA, so there is no line of this CPU for it"


class Overlay(msgspec.Struct, frozen=True):
    """What to measure here, the recorded cells beside it, what the record says of the profile, and notes."""

    local: Request
    cells: tuple[Cell, ...] = ()
    about: dict[str, Any] = {}
    notes: tuple[str, ...] = ()


def overlay(asked: Request, profile: Run) -> Overlay:
    """Sets the CPU here against what the profile has of the question; where it has nothing, the CPU alone.

    The sizes to measure are the recorded ones in the range asked for, so that every point has both sides; in
    `suite.sweep` those asked for come first.
    """
    cells = [cell for cell in profile.cells if wanted(asked, cell)]
    sizes = sweep.shape_sizes(asked, filter(is_answer, cells))
    shape = plan.family(asked.shape, asked.op)
    kept = tuple(cell for cell in cells if fits(cell, shape, set(sizes)))
    missing = lacking(asked, kept)
    notes = [lacks(asked, profile, missing)] if missing else []
    notes += [NO_PINNED] if "pinned" in asked.host_memory else []
    if not sizes:
        return Overlay(asked, notes=tuple(notes))
    about = profiles.headline(profile) | {"fingerprint": profile.machine.get("fingerprint", "")}
    local = msgspec.structs.replace(
        asked, sizes=sizes, host_memory=("pageable",) if "pageable" in asked.host_memory else ()
    )
    return Overlay(local, kept, {"profile": about}, tuple(notes))


def is_answer(cell: Cell) -> bool:
    """Whether it is a time of a GPU that a CPU can be set against."""
    return cell.role == "candidate" and cell.device == "cuda" and bool(cell.samples_s)


def wanted(asked: Request, cell: Cell) -> bool:
    """Whether a recorded cell belongs to the question, its size and shape aside."""
    p = cell.problem
    arithmetics = {(s.dtype, s.math) for s in asked.sweeps}
    right = p.op == asked.op and p.batch == asked.batch and group_arithmetic(cell) in arithmetics
    mode = (cell.transfer, cell.reuse) in asked.modes or cell.role.startswith("control")
    return right and mode and cell.host_memory in asked.host_memory


def fits(cell: Cell, shape: plan.Shape, sizes: set[int]) -> bool:
    """Whether it stands at one of these sizes of the shape."""
    try:
        return plan.size_of(cell.problem, shape) in sizes
    except ValueError:
        return False


def lacking(asked: Request, cells: Iterable[Cell]) -> dict[Sweep, list[str]]:
    """The transfer modes of each sweep that none of `cells` answers."""
    there = {
        (*group_arithmetic(cell), cell.host_memory, cell.transfer, cell.reuse)
        for cell in filter(is_answer, cells)
    }
    missing = {
        s: [in_words(*mode) for mode in asked.modes if (s.dtype, s.math, s.host_memory, *mode) not in there]
        for s in asked.sweeps
    }
    return {s: modes for s, modes in missing.items() if modes}


def in_words(transfer: str, reuse: int) -> str:
    """`once x10`; the number of runs only where it has a meaning."""
    return f"{transfer} x{reuse}" if transfer == "once" else transfer


def lacks(asked: Request, profile: Run, missing: dict[Sweep, list[str]]) -> str:
    """One sentence: what of the question the profile has no figures for, and what it has."""
    sizes = (
        f"sizes {asked.sizes[0]} to {asked.sizes[-1]}" if len(asked.sizes) > 1 else f"size {asked.sizes[0]}"
    )
    rows = [
        f"{s.dtype} in {s.math}, {s.host_memory} memory, {', '.join(modes)}" for s, modes in missing.items()
    ]
    return (
        f"the recorded machine {profile.options.get('name', '')!r} has no figures for {asked.op}, "
        f"shape {asked.shape}, {sizes}, batch {asked.batch}: {'; '.join(rows)}; no verdict there. "
        f"Recorded are {contents(profile)}"
    )


def contents(profile: Run) -> str:
    """What a profile holds: operations and arithmetics with their range of sizes, then shapes and modes."""
    found: dict[str, list[int]] = {}
    cells = [cell for cell in profile.cells if is_answer(cell)]
    for cell in cells:
        p = cell.problem
        found.setdefault(f"{p.op} {' in '.join(group_arithmetic(cell))}", []).append(max(p.m, p.n, p.k))
    modes = dict.fromkeys(in_words(cell.transfer, cell.reuse) for cell in cells)
    return "; ".join(
        [
            *(f"{name}, {min(sizes)} to {max(sizes)}" for name, sizes in found.items()),
            f"shape {', '.join(profile.options.get('shapes', ()))}",
            f"batch {', '.join(map(str, sorted({cell.problem.batch for cell in cells})))}",
            f"{', '.join(dict.fromkeys(cell.host_memory for cell in cells))} memory",
            ", ".join(modes),
        ]
    )
