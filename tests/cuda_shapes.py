"""Sizes that the GPU tests and the sanitizers put every kernel through, each with a layout of its own.

One problem a size: transpositions, scales and layouts take turns, so that all of them come up many times.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from backends._cuda_source import Kernel
from backends.base import Problem
from tests import cuda_cases as cases

PRIME = 131
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 61, 67, 127, 131, 251, 257)

Shape = tuple[int, int, int]
"""m, n, k of a product; of a gemv m and n; of a vector n."""


def sweep() -> list[Shape]:
    """Each of m, n and k is every size from 1 to 130 once, in three different orders."""
    return [(s, 37 * s % PRIME, 53 * s % PRIME) for s in range(1, PRIME)]


def primes() -> list[Shape]:
    """Prime sizes in each direction, large ones beside small ones."""
    return list(zip(PRIMES, PRIMES[::-1], PRIMES[7:] + PRIMES[:7], strict=True))


def beside_tile(kernel: Kernel) -> list[Shape]:
    """One below, at and one above the CTA tile in every direction, and the tile without any k."""
    tm, tn, tk = kernel.variant.tile
    around = itertools.product((-1, 0, 1), repeat=3)
    found = [(tm + i, tn + j, max(1, tk) + k) for i, j, k in around]
    return [*((max(1, m), max(1, n), k) for m, n, k in found), (tm, tn, 0), (1, 1, 0), (2 * tm + 1, tn, 1)]


def odd_k_tiles(kernel: Kernel) -> list[Shape]:
    """Odd numbers of K tiles, whole and one beside: what a pipeline of two, three or four stages ends on."""
    tm, tn, tk = kernel.variant.tile
    return [
        (tm + i, tn - i if tn > 1 else 1, count * tk + beside)
        for i, count in enumerate((1, 3, 5, 7, 9))
        for beside in (-1, 0, 1)
        if count * tk + beside > 0
    ]


def fitted(kernel: Kernel, shapes: Iterable[Shape]) -> list[Shape]:
    """The shapes as the op of a kernel has them; the sums of a gemv are as long as n."""
    op, (_, tn, _) = kernel.header.op, kernel.variant.tile
    if op == "gemm":
        return list(shapes)
    if op == "gemv":
        return list(dict.fromkeys((m, max(n, k), 1) for m, n, k in shapes))
    return list(dict.fromkeys((1, n + tn * (m % 3), 1) for m, n, _ in shapes))


def one_each(kernel: Kernel, dtype: str, shapes: Iterable[Shape]) -> Iterator[tuple[Problem, cases.Layout]]:
    """A problem and a layout for every shape."""
    layouts = itertools.cycle(cases.LAYOUTS)
    for turn, shape in enumerate(fitted(kernel, shapes)):
        every = list(cases.problems(kernel, dtype, [shape]))
        yield every[turn * 7 % len(every)], next(layouts)  # 7 has no factor in common with 16, 8 or 4


def math_of(kernel: Kernel, dtype: str) -> str:
    """The arithmetic a kernel does on a type."""
    return dict(zip(kernel.header.dtypes, kernel.header.math, strict=True))[dtype]


def rounds(kernel: Kernel) -> list[Shape]:
    """More tiles than a persistent grid has clusters, a last round that is cut and one that is not, edges.

    And narrow pieces one after the other, whose sums leave by one room for a slab in two.
    """
    (tm, tn, _), cluster = kernel.variant.tile, kernel.variant.cluster
    tall = tm * cluster
    narrow = (129 * tall, 40, 64) if tn > 128 else (8 * tm + 8, 300 * tn, 64)
    return [(9 * tall + 8, 8 * tn + 8, 72), (10 * tall + tm + 2, 10 * tn + tn // 2 + 6, 40), narrow]
