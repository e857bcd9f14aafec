"""Constants from times: least squares of the relative error, none of the constants negative.

A time is a sum of terms, each a constant times something known of the problem (1, K, FLOP, bytes). A negative
constant has no meaning and extrapolates to nonsense, so those that would be negative are 0. There are few
terms: every choice of those that are not 0 is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

MOST_TERMS = 6
"""2^6 choices of terms, each a small system: well under a millisecond for ten times."""

APART = 1e-9
"""Least determinant of the products of columns of length 1: below it they are the same direction."""

GAIN = 0.02
"""A term more must lower the root mean square of the relative error by this much; else it is not there."""


def nonnegative(
    terms: Sequence[Sequence[float]], times: Sequence[float], weights: Sequence[float] | None = None
) -> tuple[tuple[float, ...], float]:
    """(constants, root mean square of the relative error) of times[i] = sum of constants[j] * terms[i][j].

    weights: what an error is relative to (the times when None). ValueError for no times, for one that is not
    positive where it is what errors are relative to, and for more than MOST_TERMS terms.
    """
    scale = np.asarray(times if weights is None else weights, dtype=float)
    table = np.asarray(terms, dtype=float)
    if table.ndim != 2 or not len(table) or table.shape[1] > MOST_TERMS or not (scale > 0).all():
        raise ValueError(f"a fit takes positive times and 1 to {MOST_TERMS} terms, got {table.shape}")
    rows, wanted = table / scale[:, None], np.asarray(times, dtype=float) / scale
    norms = np.sqrt((rows**2).sum(axis=0))
    rows = rows / np.where(norms > 0, norms, 1.0)
    best, terms_in, least = np.zeros(rows.shape[1]), 0, float(np.sqrt(np.mean(wanted**2)))
    for chosen, found, error in _every_choice(rows, wanted):
        if error < least - GAIN * max(0, len(chosen) - terms_in):
            best = np.zeros(rows.shape[1])
            best[chosen] = found / norms[chosen]
            terms_in, least = len(chosen), error
    return tuple(float(value) for value in best), least


def _every_choice(rows: np.ndarray, wanted: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """(terms, their constants, error), the fewest terms first: those without a negative constant.

    Never more terms than times, nor two that cannot be told apart. By normal equations, since columns of
    length 1 leave them well enough conditioned, all choices of one number of terms at once.
    """
    gram, right, square = rows.T @ rows, rows.T @ wanted, float(wanted @ wanted)
    for count in range(1, min(rows.shape) + 1):
        choices = np.array(list(combinations(range(rows.shape[1]), count)))
        systems = gram[choices[:, :, None], choices[:, None, :]]
        apart = np.linalg.det(systems) > APART
        found = np.linalg.solve(systems[apart], right[choices[apart]][..., None])[..., 0]
        for chosen, system, constants in zip(choices[apart], systems[apart], found, strict=True):
            if (constants >= 0).all():
                rest = square - 2 * constants @ right[chosen] + constants @ system @ constants
                yield chosen, constants, float(np.sqrt(max(0.0, rest) / len(wanted)))
