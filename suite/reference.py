"""Right answers for the gate, by a path that is no BLAS: products, Freivalds' sums, and comparisons.

Everything here works on stacks: A (batch, M, K), B (batch, K, N), C (batch, M, N).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

WIDE: Any = np.longdouble if np.finfo(np.longdouble).eps < np.finfo(np.float64).eps else np.float64
"""The type float64 results are judged in: long double where it is wider."""

BLOCK = 1 << 22
"""Entries converted at a time, so that a reference never doubles the memory of its operands."""


def product(a: np.ndarray, b: np.ndarray, dtype: Any = np.float64, *, absolute: bool = False) -> np.ndarray:
    """A @ B in `dtype` (of |A| and |B| when `absolute`), by einsum without optimisation.

    Exact when all partial sums are integers the type holds.
    """

    def wide(x: np.ndarray) -> np.ndarray:
        x = x.astype(dtype)
        return np.abs(x) if absolute else x

    if a.size + b.size <= BLOCK:
        return np.einsum("bik,bkj->bij", wide(a), wide(b), optimize=False)
    out = np.zeros((a.shape[0], a.shape[1], b.shape[2]), dtype)
    narrow = b.shape[2] <= 4
    for a_i, b_i, out_i in zip(a, b, out, strict=True):
        (_narrow_into if narrow else _wide_into)(out_i, a_i, b_i, wide)
    return out


def _narrow_into(out: np.ndarray, a: np.ndarray, b: np.ndarray, wide: Callable) -> None:
    """One dot product per entry: fast for a few columns."""
    columns = wide(b).T.copy()
    for rows in _pieces(a.shape[0], a.shape[1]):
        block = wide(a[rows])
        for j, column in enumerate(columns):
            out[rows, j] = np.einsum("ik,k->i", block, column, optimize=False)


def _wide_into(out: np.ndarray, a: np.ndarray, b: np.ndarray, wide: Callable) -> None:
    for part in _pieces(b.shape[0], max(b.shape[1], a.shape[0])):
        out += np.einsum("ik,kj->ij", wide(a[:, part]), wide(b[part]), optimize=False)


def _pieces(count: int, width: int) -> Iterator[slice]:
    step = max(1, BLOCK // max(1, width))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


class Verdict(NamedTuple):
    """`complaint` is empty when all is right; `error` the largest |error| / scale, where there is a scale."""

    complaint: str
    error: float | None = None


class Entries(NamedTuple):
    """Entries of C that must lie within `tolerance` of `want`: all of them, or the `picks` along one axis."""

    want: np.ndarray
    tolerance: Any = 0.0
    scale: np.ndarray | None = None
    axis: int = 0
    picks: np.ndarray | None = None

    def judge(self, c: np.ndarray) -> Verdict:
        got = (c if self.picks is None else np.take(c, self.picks, self.axis)).astype(self.want.dtype)
        with np.errstate(all="ignore"):
            error = np.abs(got - self.want)
            wrong = ~(error <= self.tolerance)
            relative = None if self.scale is None else _largest(error, self.scale)
        return Verdict(self._complaint(got, wrong) if wrong.any() else "", relative)

    def _complaint(self, got: np.ndarray, wrong: np.ndarray) -> str:
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        place = list(at)
        if self.picks is not None:
            place[self.axis] = int(self.picks[at[self.axis]])
        found, right = float(got[at]), float(self.want[at])
        share = f"{int(wrong.sum())} of {wrong.size} entries checked are wrong"
        return f"C{_shown(place, got.ndim)} is {found!r}, must be {right!r}{self._margin(at)}; {share}"

    def _margin(self, at: tuple[int, ...]) -> str:
        allowed = float(np.broadcast_to(self.tolerance, self.want.shape)[at])
        return f" within {allowed:.3g}" if allowed else ""


def _shown(place: list[int], axes: int) -> list[int]:
    return place[1:] if axes == 3 and place[0] == 0 else place


def _largest(error: np.ndarray, scale: np.ndarray) -> float | None:
    there = scale > 0
    worst = float(np.max(error[there] / scale[there], initial=0.0))
    return worst if np.isfinite(worst) else None


class Sums(NamedTuple):
    """Freivalds' check: C @ v must be A @ (B @ v), here in exact integers; every row of C is covered.

    R. Freivalds, Fast probabilistic algorithms, MFCS 1979. No entry of v is 0, so a single wrong entry of a
    row always shows.
    """

    v: np.ndarray
    want: np.ndarray
    tolerance: Any = 0.0

    def judge(self, c: np.ndarray) -> Verdict:
        with np.errstate(all="ignore"):
            got = product(c, np.broadcast_to(self.v[None], (c.shape[0], *self.v.shape)))
            wrong = ~(np.abs(got - self.want) <= self.tolerance)
        if not wrong.any():
            return Verdict("")
        rows = wrong.any(axis=2)
        place = _shown([int(i) for i in np.argwhere(rows)[0]], 3)
        return Verdict(
            f"row {place} of C is not the product's: {int(rows.sum())} of {rows.size} rows are wrong"
        )


Check = Entries | Sums


class ReferenceCache:
    """References of the problems seen last, so that the candidates of one problem share them."""

    def __init__(self, problems: int = 2) -> None:
        self._problems = problems
        self._known: OrderedDict[Any, dict[str, list[tuple[str, Check]]]] = OrderedDict()

    def of(self, key: Any) -> dict[str, list[tuple[str, Check]]]:
        """The checks known for `key` by trial name, to be read and added to."""
        checks = self._known.setdefault(key, {})
        self._known.move_to_end(key)
        while len(self._known) > self._problems:
            self._known.popitem(last=False)
        return checks
