"""The gate's trials with full mantissas: fingerprints of the stated arithmetic, random data, vectors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from backends.arithmetic import DEFAULT_MATH, MATHS

from .reference import WIDE, Check, Entries, product
from .trials import (
    BUDGET,
    FULL,
    STORAGE_BITS,
    Checks,
    Setting,
    Trial,
    Views,
    Whole,
    at_once,
    filled,
    integers,
    picked,
    relative_bound,
    scalars,
)

FULL_WIDE, BUDGET_WIDE = 2**25, 2**23
"""As FULL and BUDGET, for long double, which is ten times slower."""

MOST_MARKS = 256
"""Most marked rows, and columns, of one random trial."""


def dense(rng: np.random.Generator, shape: tuple[int, ...], significand: int) -> np.ndarray:
    """+-[0.5, 1) with `significand` bits, the last one set: any shorter rounding changes every value."""
    integer = np.uint32 if significand < 32 else np.int64
    values = rng.integers(2 ** (significand - 1), 2**significand, size=shape, dtype=integer) | 1
    scale = rng.choice(np.array([-1.0, 1.0]) * 2.0**-significand, size=shape)
    return np.multiply(values, scale, out=scale)


class Marks:
    """Rows of A that pick one row of B each, and columns of B that pick one column of A each.

    C must repeat what they pick to the last bit, in every tile that such a row or column of C crosses.
    """

    def __init__(
        self, setting: Setting, rng: np.random.Generator, rows: np.ndarray, columns: np.ndarray
    ) -> None:
        self.setting, self.rows, self.columns = setting, rows, columns
        k = setting.shape[2]
        self.from_b = rng.permutation(len(rows)) % k
        self.from_a = rng.permutation(len(columns)) % k
        if len(rows) + len(columns) < k:
            self.from_b = rng.integers(0, k, len(rows))
            self.from_a = rng.integers(0, k, len(columns))

    def write(self, v: Views, rng: np.random.Generator, scale: float = 1.0) -> None:
        """Over operands of which A is `scale` times, and B 1/`scale` times, as large as usual."""
        size = self.setting.operand_bits
        v.b[:, self.from_b] = dense(rng, (len(v.b), len(self.rows), v.b.shape[2]), size) / scale
        v.a[:, :, self.from_a] = dense(rng, (*v.a.shape[:2], len(self.columns)), size) * scale
        v.a[:, _every(self.rows, v.a.shape[1])] = 0
        v.a[:, self.rows, self.from_b] = 1
        v.b[:, :, _every(self.columns, v.b.shape[2])] = 0
        v.b[:, self.from_a, self.columns] = 1
        if self.setting.problem.beta != 0:
            v.c[:, self.rows] = 0
            v.c[:, :, self.columns] = 0

    def checks(self, v: Views) -> Checks:
        alpha = self.setting.problem.alpha
        exact = scalars(alpha, 0.0) == (1, 0, True)
        allowed = 0.0 if exact else 3 * 2.0 ** -STORAGE_BITS[self.setting.problem.dtype]
        found: Checks = []
        for axis, picks, source in (
            (1, self.rows, v.b[:, self.from_b]),
            (2, self.columns, v.a[:, :, self.from_a]),
        ):
            if len(picks):
                want = alpha * source.astype(np.float64)
                found.append(("fingerprint", Entries(want, allowed * np.abs(want), None, axis, picks)))
        return found


def _every(picks: np.ndarray, size: int) -> np.ndarray | slice:
    """The picks as an index: all of them at once need no list."""
    return slice(None) if len(picks) == size else picks


class Selection(Trial):
    """A picks rows of B (axis 1) or B columns of A (axis 2): C is made of operands as stored, bit for bit."""

    def __init__(self, setting: Setting, axis: int) -> None:
        super().__init__(setting)
        self.axis, self.name = axis, f"operands of {'AB'[2 - axis]}"
        m, n, _ = setting.shape
        none = np.arange(0)
        rows, columns = (np.arange(m), none) if axis == 1 else (none, np.arange(n))
        self.marks = Marks(setting, setting.generator(f"picks {axis}"), rows, columns)

    def fill(self, v: Views) -> None:
        rng = self.setting.generator(self.name)
        source = v.b if self.axis == 1 else v.a  # the other one picks, all of it
        filled(source, lambda shape: rng.random(shape, dtype=np.float32) - 0.5)
        self.fill_c(v, np.zeros)
        self.marks.write(v, rng)

    def checks(self, v: Views) -> Checks:
        return self.marks.checks(v)


def tile_marks(setting: Setting, rng: np.random.Generator, axis: int) -> np.ndarray:
    """One row (axis 1) or column (axis 2) of C, at a random place, in each tile; at most MOST_MARKS."""
    size = setting.shape[axis - 1]
    step = max(setting.tile[axis - 1], 8, -(-size // MOST_MARKS))
    starts = np.arange(0, size, step)
    return starts + rng.integers(0, np.minimum(step, size - starts))


def magnitude(setting: Setting) -> float:
    """A power of two out of the range of the type below the stated one, as is its inverse; for fp16 1."""
    if "fp16" in (setting.problem.math, DEFAULT_MATH[setting.problem.dtype]):
        return 1.0
    return 2.0**160 if setting.problem.math == "fp64" else 2.0**40


class Random(Trial):
    """Centred random data: C within the rounding errors of the stated arithmetic; large ones are marked.

    A is large and B small, so that operands stored on the way in a type of less range show.
    """

    name = "random data"

    def __init__(self, setting: Setting, *, marked: bool) -> None:
        super().__init__(setting)
        self.wide = setting.accumulator_bits == 53
        rng = setting.generator("marks")
        none = np.arange(0)
        rows, columns = (tile_marks(setting, rng, axis) if marked else none for axis in (1, 2))
        self.marks = Marks(setting, rng, rows, columns)

    def fill(self, v: Views) -> None:
        rng = self.setting.generator(self.name)
        make = np.float64 if v.a.dtype == np.float64 else np.float32
        scale = magnitude(self.setting)
        other = self.setting.generator(f"{self.name}, B")
        with ThreadPoolExecutor(1) as beside:
            b = beside.submit(
                filled, v.b, lambda shape: (other.random(shape, dtype=make) - 0.5) / make(scale)
            )
            filled(v.a, lambda shape: (rng.random(shape, dtype=make) - 0.5) * make(scale))
            b.result()
        self.fill_c(v, lambda shape: rng.random(shape, dtype=make) - 0.5)
        self.marks.write(v, rng, scale)

    def checks(self, v: Views) -> Checks:
        found = self.marks.checks(v)
        if self.setting.multiplications <= (FULL_WIDE if self.wide else FULL):
            return [*found, ("bound", self._entries(v, 0, None))]

        def bound(axis: int) -> Check:
            picks = self._picks(axis)
            return self._entries(picked(v, axis, picks), axis, picks)

        return [*found, *(("bound", check) for check in at_once([lambda: bound(1), lambda: bound(2)]))]

    def _picks(self, axis: int) -> np.ndarray:
        size = self.setting.shape[axis - 1]
        most = (BUDGET_WIDE if self.wide else BUDGET // 2) * size // self.setting.multiplications
        unmarked = np.setdiff1d(np.arange(size), self.marks.rows if axis == 1 else self.marks.columns)
        rng = self.setting.generator(f"rows {axis}")
        return np.sort(rng.permutation(unmarked)[: max(2, most)])

    def _entries(self, v: Views, axis: int, picks: np.ndarray | None) -> Entries:
        wide: Any = WIDE if self.wide else np.float64
        p = self.setting.problem
        want = p.alpha * product(v.a, v.b, wide) + self.added(v.c, wide)
        size = abs(p.alpha) * product(v.a, v.b, absolute=True) + np.abs(self.added(v.c))
        bound = relative_bound(self.setting) * (2 if self.wide and wide is np.float64 else 1)
        return Entries(want, bound * size + smallest(self.setting), size, axis, picks)


def smallest(setting: Setting) -> float:
    """What underflow may add to an error: smallest normals where flushing is declared, half steps of fp16."""
    terms = setting.shape[2] + 1
    allowed = 0.0
    if setting.flushes_denormals:
        allowed += terms * float(np.finfo(np.float64 if setting.accumulator_bits == 53 else np.float32).tiny)
    return allowed + (terms * 2.0**-25 if setting.problem.math == "fp16" else 0.0)


class Vectors(Trial):
    """vector_add, copy: integers (exact), full mantissas beside zeros (fingerprint), random data (bound)."""

    def __init__(self, setting: Setting, part: str) -> None:
        super().__init__(setting)
        self.part, self.name = part, f"vectors: {part}"

    def fill(self, v: Views) -> None:
        rng = self.setting.generator(self.name)
        size = STORAGE_BITS[self.setting.problem.dtype]
        for array in (v.a, v.b):
            if self.part == "exact":
                array[...] = integers(rng, array.shape, Whole(7, 1.0))
            elif self.part == "fingerprint":
                array[...] = dense(rng, array.shape, size)
            else:
                array[...] = rng.random(array.shape) - 0.5
        if self.part == "fingerprint" and self.setting.problem.op == "vector_add":
            v.a[..., ::2], v.b[..., 1::2] = 0, 0
        v.c.fill(np.nan)

    def checks(self, v: Views) -> Checks:
        a, b = v.a.astype(np.float64), v.b.astype(np.float64)
        if self.setting.problem.op == "copy":
            return [(self.part, Entries(a))]
        arithmetic = MATHS[self.setting.problem.math]
        size = np.abs(a) + np.abs(b)
        bound = 2 * arithmetic.u_in + 8 * arithmetic.u_acc if self.part == "bound" else 0.0
        return [(self.part, Entries(a + b, bound * size, size if bound else None))]
