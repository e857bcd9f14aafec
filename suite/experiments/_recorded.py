"""Sets a CPU measured here against a recorded machine."""

from __future__ import annotations

from typing import Any

import msgspec

from .. import plan, profiles, sweep
from ..exits import Exit, Stop
from ..record import Cell, Run, group_arithmetic
from ..request import Request


def overlay(asked: Request, profile: Run) -> tuple[Request, list[Cell], dict[str, Any]]:
    """What to measure here, the profile's cells that answer `asked`, and what the record says of the profile.

    The sizes to measure are the recorded ones in the range asked for, so that every point has both sides.
    Stop (NO_VERDICT) where the profile has nothing of the question; it then says what it has.
    """
    cells = [cell for cell in profile.cells if wanted(asked, cell)]
    sizes = sweep.shape_sizes(asked, cells)
    if not sizes:
        raise Stop(
            f"the recorded profile {profile.options.get('name', '')!r} has no {words(asked)}: "
            f"it has {'; '.join(contents(profile))}",
            Exit.NO_VERDICT,
        )
    chosen = set(sizes)
    shape = plan.family(asked.shape, asked.op)
    kept = [cell for cell in cells if fits(cell, shape, chosen)]
    about = profiles.headline(profile) | {"fingerprint": profile.machine.get("fingerprint", "")}
    local = msgspec.structs.replace(
        asked, sizes=sizes, host_memory=("pageable",) if "pageable" in asked.host_memory else ()
    )
    return local, kept, {"profile": about}


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


def words(asked: Request) -> str:
    """The question in words."""
    arithmetics = ", ".join(f"{s.dtype} in {s.math}" for s in asked.sweeps)
    sizes = f"{asked.sizes[0]} to {asked.sizes[-1]}" if len(asked.sizes) > 1 else str(asked.sizes[0])
    return (
        f"{asked.op} {arithmetics}, shape {asked.shape}, sizes {sizes}, {'/'.join(asked.host_memory)} memory"
    )


def contents(profile: Run) -> list[str]:
    """What a profile holds: one text for each operation and arithmetic, with its largest dimensions."""
    found: dict[str, list[int]] = {}
    for cell in profile.cells:
        p = cell.problem
        found.setdefault(f"{p.op} {' in '.join(group_arithmetic(cell))}", []).append(max(p.m, p.n, p.k))
    return [f"{name} to {max(sizes)}" for name, sizes in found.items()]
