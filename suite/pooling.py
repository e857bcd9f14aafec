"""Two visits to one comparison group as one: more samples, and the drift between the visits among them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec

from .record import Cell


def pooled(before: Sequence[Cell], after: Sequence[Cell]) -> list[Cell]:
    """The cells of the later visit; where the same candidate stood in the earlier one, its samples too.

    Rounds of the later visit are numbered on from the earlier, so that pairs stay pairs. Where another
    candidate was chosen now, the earlier one's samples have no pair any more and are left out.
    """
    shift = 1 + max((max(cell.round_of, default=-1) for cell in before), default=-1)
    earlier = {_slot(cell): cell for cell in before}
    return [_joined(earlier.get(_slot(cell)), cell, shift) for cell in after]


def _slot(cell: Cell) -> Hashable:
    return cell.role, cell.device, cell.transfer, cell.reuse, cell.calls_from, *_who(cell)


def _who(cell: Cell) -> tuple[Hashable, ...]:
    return cell.backend, cell.threads, cell.kernel_hash


def _joined(first: Cell | None, second: Cell, shift: int) -> Cell:
    rounds = tuple(round_ + shift for round_ in second.round_of)
    if first is None or not first.samples_s or not second.samples_s or first.scaled_by != second.scaled_by:
        return msgspec.structs.replace(second, round_of=rounds)
    return msgspec.structs.replace(
        second,
        samples_s=first.samples_s + second.samples_s,
        round_of=first.round_of + rounds,
        inner=first.inner + second.inner,
        flags=tuple(dict.fromkeys((*first.flags, *second.flags))),
    )
