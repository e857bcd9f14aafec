"""The operands the gate tries, and what each must give: the integers, the fingerprints and the random data.

A trial fills the operands in place, always with the same values for the same problem and seed, and says which
entries of C must come out how.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from backends.arithmetic import MATHS
from backends.base import Problem
from backends.operands import Operands

from .reference import BLOCK, Check, Entries, Sums, product

FULL = 512**3
"""Multiplications up to which every entry of C is compared with its own reference value."""

BUDGET = 2**27
"""Multiplications spent on the picked rows of C above that, and as many on the picked columns."""

STORAGE_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
FREIVALDS_RANGE = 1000


class Views(NamedTuple):
    """The operands as stacks A (batch, M, K), B (batch, K, N), C (batch, M, N), writing through."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray


def views(p: Problem, operands: Operands) -> Views:
    """Of `operands`: a gemv is a product with one column, the vectors of the other ops are (1, 1, N)."""
    a, b, c = operands
    if p.op in ("vector_add", "copy"):
        b = a if b is None else b
        return Views(a[None, None], b[None, None], c[None, None])
    assert b is not None
    a = a.swapaxes(-1, -2) if p.trans_a else a
    if p.op == "gemv":
        return Views(a[None], b[None, :, None], c[None, :, None])
    b = b.swapaxes(-1, -2) if p.trans_b else b
    return Views(a, b, c) if p.batch > 1 else Views(a[None], b[None], c[None])


def bits(u: float) -> int:
    """Significand bits of a type with unit roundoff `u`."""
    return round(-math.log2(u))


class Setting(NamedTuple):
    """What all trials of one problem share; `tile`: rows and columns of C that one kernel block computes."""

    problem: Problem
    seed: int = 0
    tile: tuple[int, int] = (128, 128)
    flushes_denormals: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K) as a matrix product."""
        p = self.problem
        return (p.m, 1, p.n) if p.op == "gemv" else (p.m, p.n, p.k)

    @property
    def multiplications(self) -> int:
        return self.problem.batch * math.prod(self.shape)

    @property
    def operand_bits(self) -> int:
        arithmetic = MATHS[self.problem.math]
        return bits(arithmetic.u_in or arithmetic.u_acc)

    @property
    def accumulator_bits(self) -> int:
        return bits(MATHS[self.problem.math].u_acc)

    def generator(self, name: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])


def filled(view: np.ndarray, make: Callable[[tuple[int, ...]], np.ndarray]) -> None:
    """view[...] = make(shape), a block of rows at a time, as they lie in memory."""
    if view.ndim > 1 and abs(view.strides[-1]) > abs(view.strides[-2]):
        view = view.swapaxes(-1, -2)
    if view.size <= BLOCK:
        view[...] = make(view.shape)
        return
    for item in view:
        step = max(1, BLOCK // max(1, item.shape[-1]))
        for start in range(0, len(item), step):
            rows = item[start : start + step]
            rows[...] = make(rows.shape)


def edge_picks(rng: np.random.Generator, size: int, tile: int, most: int) -> np.ndarray:
    """Both sides of every tile edge, first and last included; beyond `most` a seeded choice of them."""
    starts = np.arange(0, size, max(1, tile))
    edges = np.unique(np.concatenate([starts, starts[1:] - 1, [size - 1]]))
    if len(edges) <= most:
        return edges
    keep = np.unique([0, starts[-1], size - 1])[-most:]
    others = rng.permutation(np.setdiff1d(edges, keep))[: max(0, most - len(keep))]
    return np.sort(np.concatenate([keep, others]))


def at_once(makers: Sequence[Callable[[], Check]]) -> list[Check]:
    """What they return, each worked out by a thread: NumPy does so without Python's lock."""
    with ThreadPoolExecutor(len(makers)) as pool:
        return list(pool.map(lambda make: make(), makers))


class Scalars(NamedTuple):
    """|alpha| and |beta| as multiples of one power of two; `exact`: they are whole and small."""

    alpha: int
    beta: int
    exact: bool


def scalars(alpha: float, beta: float) -> Scalars:
    """Small: at most 64 each, the power of two within 2^-20 to 2^20."""
    if not all(x == 0 or 2.0**-20 <= abs(x) <= 2.0**20 for x in (alpha, beta)):
        return Scalars(1, 1, False)
    unit = max(Fraction(alpha).denominator, Fraction(beta).denominator)
    whole = [abs(int(Fraction(x) * unit)) for x in (alpha, beta)]
    common = math.gcd(*whole) or 1
    common &= -common
    small = max(whole) // common <= 64
    return Scalars(whole[0] // common, whole[1] // common, True) if small else Scalars(1, 1, False)


class Whole(NamedTuple):
    """Integer operands +-1..most, a share `density` of them not 0, so that every sum in C is exact."""

    most: int
    density: float


def whole_numbers(setting: Setting) -> Whole:
    """The largest range for which sums stay exact in the accumulator, and the result in the storage type.

    K most^2 |alpha| <= a quarter of what the accumulator counts to; eight standard deviations of a sum of K
    products lie within what the storage type counts to.
    """
    k = max(1, setting.shape[2])
    by = max(1, scalars(setting.problem.alpha, setting.problem.beta).alpha)
    counts_to = 2.0 ** (setting.accumulator_bits - 2) / by
    spread = 2.0 ** STORAGE_BITS[setting.problem.dtype] / (16 * by)
    for most in range(7, 0, -1):
        mean_square = (most + 1) * (2 * most + 1) / 6
        if k * most * most <= counts_to and math.sqrt(k) * mean_square <= spread:
            return Whole(most, 1.0)
    return Whole(1, min(1.0, math.sqrt(counts_to / k), spread / math.sqrt(k)))


def added_numbers(setting: Setting) -> Whole:
    """Integers for C such that beta * C takes at most a quarter of what the storage type counts to."""
    by = max(1, scalars(setting.problem.alpha, setting.problem.beta).beta)
    return Whole(int(min(4, max(1, 2.0 ** (STORAGE_BITS[setting.problem.dtype] - 2) / by))), 1.0)


Checks = list[tuple[str, Check]]
"""Each check with the part of the gate it belongs to: exact, fingerprint or bound."""


class Trial:
    """One run: `fill` before it; `checks`, of the operands as filled, say what C must be after it."""

    name = ""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def fill(self, v: Views) -> None:
        """Write A, B and, where beta is not 0, C."""
        raise NotImplementedError

    def checks(self, v: Views) -> Checks:
        """What the run must produce from the operands as filled."""
        raise NotImplementedError

    def fill_c(self, v: Views, make: Callable[[tuple[int, ...]], np.ndarray]) -> None:
        """C to be added to, or NaN where beta = 0 forbids reading it."""
        filled(v.c, make if self.setting.problem.beta != 0 else (lambda shape: np.full(shape, np.nan)))

    def added(self, c: np.ndarray, dtype: type = np.float64) -> np.ndarray | float:
        """beta * C, read before the run."""
        beta = self.setting.problem.beta
        return beta * c.astype(dtype) if beta != 0 else 0.0


def integers(rng: np.random.Generator, shape: tuple[int, ...], whole: Whole) -> np.ndarray:
    """+-1..most, and zeros so that a share `density` is left."""
    numbers = rng.integers(-whole.most, whole.most, size=shape, dtype=np.int8)
    numbers += numbers >= 0
    return numbers if whole.density == 1 else numbers * (rng.random(shape, dtype=np.float32) < whole.density)


class Poison(Trial):
    """A run whose result is NaN wherever written: what is left of it on the device shows in the next one."""

    name = "poison"

    def fill(self, v: Views) -> None:
        for array in v:
            array.fill(np.nan)

    def checks(self, v: Views) -> Checks:
        return []


class ZeroAlpha(Trial):
    """alpha = 0: C = beta * C although A and B are NaN."""

    name = "alpha = 0"

    def fill(self, v: Views) -> None:
        v.a.fill(np.nan)
        v.b.fill(np.nan)
        rng = self.setting.generator(self.name)
        self.fill_c(v, lambda shape: integers(rng, shape, added_numbers(self.setting)))

    def checks(self, v: Views) -> Checks:
        exact = scalars(0.0, self.setting.problem.beta).exact
        want = np.zeros(v.c.shape) + self.added(v.c)
        tolerance = 0.0 if exact else 2 * MATHS[self.setting.problem.math].u_acc * np.abs(want)
        return [("exact", Entries(want, tolerance))]


class Integers(Trial):
    """Integer operands: C must match bit for bit.

    `accumulator`: the first and last products of every sum are a power of two and its opposite, which only an
    accumulator of the stated width carries beside the small ones.
    """

    def __init__(self, setting: Setting, part: str, *, accumulator: bool) -> None:
        super().__init__(setting)
        self.part, self.accumulator = part, accumulator
        self.full = setting.multiplications <= FULL
        self.name = "accumulator width" if part == "fingerprint" else "integers"
        self.scalars = scalars(setting.problem.alpha, setting.problem.beta)

    def fill(self, v: Views) -> None:
        rng, whole = self.setting.generator(self.name), whole_numbers(self.setting)
        other = self.setting.generator(f"{self.name}, B")
        with ThreadPoolExecutor(1) as beside:
            b = beside.submit(filled, v.b, lambda shape: integers(other, shape, whole))
            filled(v.a, lambda shape: integers(rng, shape, whole))
            b.result()
        self.fill_c(v, lambda shape: integers(rng, shape, added_numbers(self.setting)))
        if self.accumulator and v.a.shape[2] >= 3:
            high, low = self._powers()
            v.a[:, :, 0], v.a[:, :, -1] = high, -high
            v.b[:, 0], v.b[:, -1] = low, low

    def _powers(self) -> tuple[float, float]:
        """Two powers of two: their product needs all but a few of the accumulator's bits beside a 1.

        20 bits at most for tensor-core arithmetic, whose alignment may drop the last ones; 30 where the check
        is by sums, which must be exact in float64 themselves.
        """
        room = self.setting.accumulator_bits - 2 - max(1, self.scalars.alpha).bit_length()
        if MATHS[self.setting.problem.math].u_in:
            room = min(room, 20)
        room = room if self.full else min(room, 30)
        return 2.0 ** (room // 2), 2.0 ** (room - room // 2)

    def checks(self, v: Views) -> Checks:
        alpha = self.setting.problem.alpha
        if self.full:
            want = alpha * product(v.a, v.b) + self.added(v.c)
            return [(self.part, Entries(want, self._tolerance(v)))]
        makers: list[Callable[[], Check]] = [
            lambda: self._sums(v),
            lambda: self._picked(v, 1),
            lambda: self._picked(v, 2),
        ]
        return [(self.part, check) for check in at_once(makers)]

    def _tolerance(self, v: Views) -> np.ndarray | float:
        """Nothing where alpha and beta are small multiples of a power of two; else that of centred data."""
        if self.scalars.exact:
            return 0.0
        size = abs(self.setting.problem.alpha) * product(v.a, v.b, absolute=True)
        return relative_bound(self.setting) * (size + np.abs(self.added(v.c)))

    def _sums(self, v: Views) -> Sums:
        rng = self.setting.generator("v")
        shape = (v.b.shape[2], 1)
        vector = rng.integers(1, FREIVALDS_RANGE, size=shape) * rng.choice([-1.0, 1.0], size=shape)
        want = self._image(v, vector)
        if self.scalars.exact:
            return Sums(vector, want)
        return Sums(vector, want, relative_bound(self.setting) * self._image(v, vector, absolute=True))

    def _image(self, v: Views, vector: np.ndarray, *, absolute: bool = False) -> np.ndarray:
        """(alpha A B + beta C) @ vector, or the same of absolute values."""
        alpha, beta = self.setting.problem.alpha, self.setting.problem.beta
        if absolute:
            alpha, beta = abs(alpha), abs(beta)
        stack = np.broadcast_to(vector[None], (len(v.b), *vector.shape))
        image = alpha * product(v.a, product(v.b, stack, absolute=absolute), absolute=absolute)
        return image + (beta * product(v.c, stack, absolute=absolute) if beta != 0 else 0.0)

    def _picked(self, v: Views, axis: int) -> Entries:
        """Whole rows (axis 1) or columns (axis 2) of C beside the tile edges."""
        setting = self.setting
        size, tile = v.c.shape[axis], setting.tile[axis - 1]
        most = max(2, BUDGET * size // setting.multiplications)
        picks = edge_picks(setting.generator(f"edges {axis}"), size, tile, most)
        part = picked(v, axis, picks)
        want = setting.problem.alpha * product(part.a, part.b) + self.added(part.c)
        return Entries(want, self._tolerance(part), None, axis, picks)


def picked(v: Views, axis: int, picks: np.ndarray) -> Views:
    """The operands of those rows (axis 1) or columns (axis 2) of C."""
    if axis == 1:
        return Views(v.a[:, picks], v.b, v.c[:, picks])
    return Views(v.a, v.b[:, :, picks], v.c[:, :, picks])


def relative_bound(setting: Setting) -> float:
    """How far C may be off on centred data, as a multiple of |alpha| |A||B| + |beta| |C|.

    2 u_in + 2 (K + 3) u_acc covers any order of summation; for fp32 and fp64 never more than 16 u, and for
    3xtf32 16 u + 4 u_in, as rounding errors of centred sums do not grow with K. tf32 gets 4 u_in: tensor
    cores read float32 operands by cutting off bits, which errs twice as far as rounding and shows where K is
    below about 10.
    """
    arithmetic = MATHS[setting.problem.math]
    operands = 4 if setting.problem.math == "tf32" else 2
    bound = operands * arithmetic.u_in + 2 * (setting.shape[2] + 3) * arithmetic.u_acc
    if arithmetic.u_in < 2.0**-20:
        bound = min(bound, 16 * arithmetic.u_acc + 4 * arithmetic.u_in)
    return bound
