"""How good a model is where it was not fitted: errors at the other sizes, and the crossovers it foretells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import NamedTuple

from suite.record import Cell

from .calibration import MOST_SIZES, Key, observed, spread
from .model import Model

STEP = 1.02
"""Ratio of neighbouring sizes at which a crossover is looked for."""


class Judged(NamedTuple):
    """Relative errors of predicted times of one side in one transfer mode, at sizes not fitted on."""

    key: Key
    transfer: str
    fitted: int
    held_out: int
    median: float
    worst: float


def judged(model: Model, cells: Iterable[Cell], most: int = MOST_SIZES) -> list[Judged]:
    """One for each side and mode of `cells`, from the sizes that `calibration.fitted` left out."""
    found = []
    for key, seen in observed(cells).items():
        used = {one.problem for one in spread(seen, most)}
        errors: dict[str, list[float]] = {}
        for one in seen:
            for (transfer, reuse), seconds in one.seconds.items():
                told = model.predict(one.problem, key[0], transfer, reuse, key[4], key[5])  # type: ignore[arg-type]
                if told is not None and one.problem not in used:
                    errors.setdefault(transfer, []).append(abs(told.time_s / seconds - 1))
        for transfer, off in errors.items():
            found.append(Judged(key, transfer, len(used), len(off), median(off), max(off)))
    return found


def crossing(wins: Callable[[int], bool | None], low: int, high: int) -> int | None:
    """The size in low … high from which `wins` holds up to `high`; None where it does not hold there.

    Looked for in steps of STEP, so good to 2 %. A size of which `wins` knows nothing is no win.
    """
    stable = None
    for size in reversed(scan(low, high, STEP)):
        if not wins(size):
            break
        stable = size
    return stable


def scan(low: int, high: int, step: float) -> Sequence[int]:
    """Sizes from low to high, each the step's multiple of the one before, or one more."""
    sizes = [low]
    while sizes[-1] < high:
        sizes.append(min(high, max(sizes[-1] + 1, round(sizes[-1] * step))))
    return sizes
