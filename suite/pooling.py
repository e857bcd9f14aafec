"""Two visits to one comparison group as one: more samples, and the drift between the visits among them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec

from .analysis.controls import DELAYS_KEY, delays_of
from .record import Cell


def pooled(before: Sequence[Cell], after: Sequence[Cell]) -> list[Cell]:
    """The cells of the later visit; where the same candidate stood in the earlier one, its samples too.

    Rounds and visits of the later one are numbered on from the earlier, so that pairs stay pairs. Where
    another candidate was chosen now, the earlier one's samples have no pair any more and are left out; where
    none has a time now, the earlier one stays, beside the reason. What the later visit did not ask about
    stays as it was: other transfer modes, controls it could not afford, who lost the pilots, who was skipped.
    """
    shift = 1 + max((max(cell.round_of, default=-1) for cell in before), default=-1)
    visit = 1 + max((max(cell.visit_of, default=0) for cell in before if cell.samples_s), default=-1)
    earlier = {_slot(cell): cell for cell in sorted(before, key=lambda cell: bool(cell.samples_s))}
    asked = {(cell.transfer, cell.reuse) for cell in after}
    again = {_slot(cell) for cell in after}
    timed_again = {_slot(cell) for cell in after if cell.samples_s}
    standing = _standing(before, after)
    kept = [
        cell
        for cell in before
        if (cell.transfer, cell.reuse) not in asked
        or (_aside(cell) and _slot(cell) not in again)
        or (not _aside(cell) and _base(cell) in standing and _slot(cell) not in timed_again)
    ]
    return [_joined(earlier.get(_slot(cell)), cell, shift, visit) for cell in after] + kept


def _standing(before: Sequence[Cell], after: Sequence[Cell]) -> set[Hashable]:
    """The candidates of the later visit, and the earlier ones of a side that has none with a time now."""
    now, then = ([c for c in cells if c.role == "candidate" and c.samples_s] for cells in (after, before))
    sides = {_side(cell) for cell in now}
    return {_base(cell) for cell in (*now, *(cell for cell in then if _side(cell) not in sides))}


def _side(cell: Cell) -> Hashable:
    return cell.device, cell.transfer, cell.reuse


def _base(cell: Cell) -> Hashable:
    """The candidate that a cell is, or is a control of."""
    return (_side(cell), *_who(cell))


def _aside(cell: Cell) -> bool:
    return cell.role == "pilot" or not cell.samples_s


def _slot(cell: Cell) -> Hashable:
    return cell.role, cell.device, cell.transfer, cell.reuse, cell.calls_from, *_who(cell)


def _who(cell: Cell) -> tuple[Hashable, ...]:
    return cell.backend, cell.threads, cell.kernel_hash


def _joined(first: Cell | None, second: Cell, shift: int, visit: int) -> Cell:
    second = msgspec.structs.replace(
        second,
        round_of=tuple(round_ + shift for round_ in second.round_of),
        visit_of=(visit,) * len(second.samples_s),
        slow_visits=(visit,) if second.slow_visits else (),
    )
    if first is None or not first.samples_s or not second.samples_s or first.scaled_by != second.scaled_by:
        return second
    if second.role == "control_delay":
        delays = {**delays_of(first), str(visit): delays_of(second)[str(visit)]}
        second = msgspec.structs.replace(second, config={**second.config, DELAYS_KEY: delays})
    return msgspec.structs.replace(
        second,
        samples_s=first.samples_s + second.samples_s,
        round_of=first.round_of + second.round_of,
        inner=first.inner + second.inner,
        visit_of=(first.visit_of or (0,) * len(first.samples_s)) + second.visit_of,
        slow_visits=first.slow_visits + second.slow_visits,
        throttled=first.throttled + second.throttled,
        outliers=first.outliers + second.outliers,
        gate=second.gate or first.gate,
        flags=tuple(dict.fromkeys((*first.flags, *second.flags))),
    )
