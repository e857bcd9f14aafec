"""What `peers` measures: the classes of problems, and which of them a time budget pays for.

A point is a problem in a class; a group is a point on a number of threads, called from C or from Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from backends.base import Problem

from .peers_timing import LONG_S, SAMPLE_S, SAMPLES, WARM_S

SQUARES = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
RECTANGLES = (
    (4096, 4096, 64), (64, 64, 4096), (4096, 64, 4096), (64, 4096, 4096), (1023, 1025, 1027), (37, 53, 4099),
)  # fmt: skip
THIN = ((1, 1024, 1024), (1024, 1, 1024), (1, 4096, 4096), (4096, 1, 4096))
GEMV = (256, 512, 1024, 2048, 4096, 8192, 16384)
BATCHED = (4, 8, 16, 32)
BATCH = 256
FROM_PYTHON = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)

SQUARE_CLASSES = {"4-16": 16, "24-96": 96, "128-512": 512, "768-up": 1 << 62}
"""Class -> its largest M = N = K."""

CLASSES = (*SQUARE_CLASSES, "rectangles", "gemv", "batch", "python")

VISIT_S = WARM_S + SAMPLES * SAMPLE_S + 0.01
"""A visit: warming, samples, and the change of side."""

CHECK_S = 0.02

BARRED = (32, 64, 256, 512, 2048)
"""Sizes that bars are set for one by one: `suite.analysis.peers`."""


class Group(msgspec.Struct, frozen=True):
    """One comparison: every library on one problem, on `threads` threads."""

    problem: Problem
    threads: int
    calls_from: str = "c"
    expected_s: float = 0.0
    """Of one call, about."""

    @property
    def key(self) -> str:
        """Names the group in the record; it begins as the keys of other experiments do."""
        p = self.problem
        sizes = f"{p.op}/{p.m}x{p.n}x{p.k}/{p.batch}/{p.dtype}/{p.math}"
        return f"{sizes}/{'t' if p.trans_a else 'n'}n/{self.threads}/{self.calls_from}"

    @property
    def kind(self) -> str:
        """Its class."""
        return "python" if self.calls_from == "python" else class_of(self.problem)


class Turn(msgspec.Struct, frozen=True):
    """One round of a group."""

    group: Group
    round_: int = 0
    names: tuple[str, ...] = ()
    """The libraries to visit, as cells name them; none: all there are."""

    def asks(self, name: str) -> bool:
        """Is the library of that name to be visited?"""
        return not self.names or name in self.names


KEY = re.compile(r"(gemm|gemv)/(\d+)x(\d+)x(\d+)/(\d+)/(\w+)/(\w+)/([tn])n/(\d+)/(c|python)")


def group_of(key: str) -> Group | None:
    """The group that a key names; None for anything else."""
    found = KEY.fullmatch(key)
    if found is None:
        return None
    op, m, n, k, batch, dtype, math, trans, threads, calls_from = found.groups()
    sizes = {"m": int(m), "n": int(n), "k": int(k), "batch": int(batch)}
    problem = Problem(op=op, dtype=dtype, math=math, trans_a=trans == "t", **sizes)  # type: ignore[arg-type]
    return Group(problem, int(threads), calls_from)


def class_of(p: Problem) -> str:
    """The size class of a problem."""
    if p.batch > 1:
        return "batch"
    if p.op == "gemv" or 1 in (p.m, p.n):
        return "gemv"
    if not p.m == p.n == p.k:
        return "rectangles"
    return next(name for name, most in SQUARE_CLASSES.items() if p.m <= most)


def problems(dtype: str, kind: str, sizes: Sequence[int] = ()) -> list[Problem]:
    """The problems of a class; sizes: others for M = N = K, a square gemv, a batch and Python's calls."""
    if kind == "gemv":
        square = [
            Problem(op="gemv", m=s, n=s, dtype=dtype, trans_a=t) for s in sizes or GEMV for t in (False, True)
        ]
        return square + ([] if sizes else [_gemm(dtype, *shape) for shape in THIN])
    if kind == "rectangles":
        return [] if sizes else [_gemm(dtype, *shape) for shape in RECTANGLES]
    if kind == "batch":
        return [_gemm(dtype, s, s, s, BATCH) for s in sizes or BATCHED if s <= max(BATCHED)]
    squares = [_gemm(dtype, s, s, s) for s in sizes or (FROM_PYTHON if kind == "python" else SQUARES)]
    return squares if kind == "python" else [p for p in squares if class_of(p) == kind]


def takes(kind: str) -> str:
    """In words: the sizes that a class takes."""
    if kind == "rectangles":
        return "rectangles take none"
    if kind == "batch":
        return f"batch takes those up to {max(BATCHED)}"
    most = list(SQUARE_CLASSES.values())
    if kind in SQUARE_CLASSES:
        index = list(SQUARE_CLASSES).index(kind)
        low = most[index - 1] + 1 if index else 1
        return f"{kind} takes those from {low}" + (f" to {most[index]}" if index < len(most) - 1 else "")
    return f"{kind} takes any"


def _gemm(dtype: str, m: int, n: int, k: int, batch: int = 1) -> Problem:
    return Problem(m=m, n=n, k=k, dtype=dtype, batch=batch)


def groups(
    dtype: str, threads: Sequence[int], classes: Iterable[str] = CLASSES, sizes: Sequence[int] = ()
) -> list[Group]:
    """Every group of one dtype, by class and size."""
    return [
        Group(problem, count, "python" if kind == "python" else "c")
        for kind in classes
        for problem in problems(dtype, kind, sizes)
        for count in threads
    ]


def operand_elements(p: Problem) -> tuple[int, int, int]:
    """Elements of A, B (or x) and C (or y)."""
    if p.op == "gemv":
        return p.m * p.n, p.n, p.m
    return p.batch * p.m * p.k, p.batch * p.k * p.n, p.batch * p.m * p.n


class Rates(msgspec.Struct, frozen=True):
    """What the machine does in a second: FLOP on one thread, and bytes read."""

    flops: float
    bytes_read: float


def call_s(group: Group, rates: Rates) -> float:
    """Seconds that one call about takes."""
    p = group.problem
    speed = 0.8 * rates.flops * (1 + 0.7 * (group.threads - 1))
    return max(p.flops / speed, p.bytes_min / rates.bytes_read if class_of(p) == "gemv" else 0.0)


def cost_s(group: Group, libraries: int, rates: Rates) -> float:
    """Seconds that one round of a group about takes: each library among the others, and alone."""
    call = call_s(group, rates)
    visits = 2 * (3 if group.calls_from == "python" else libraries)
    return visits * (VISIT_S + (1.2 if call >= LONG_S else 2.5) * call) + CHECK_S


def affordable(wanted: Sequence[Group], budget_s: float, libraries: int, rates: Rates) -> list[Group]:
    """The groups to measure: thinned out, evenly in every class, until a round of each fits the budget.

    The ends of each class, and what bars are set for, stay longest and come first; then cheap ones before
    dear ones. Where not even these fit they are begun all the same, as far as time goes.
    """
    costs = {group: cost_s(group, libraries, rates) for group in wanted}
    level = _levels(wanted)
    kept, spent = [], 0.0
    for group in sorted(wanted, key=lambda group: (level[group], costs[group])):
        if level[group] == 0 or spent + costs[group] <= budget_s:
            kept.append(group)
            spent += costs[group]
    return kept


def _levels(wanted: Sequence[Group]) -> dict[Group, int]:
    """How early a group goes: 0 for the ends of its class, then by halving the gaps between."""
    found: dict[Group, int] = {}
    series: dict[tuple[object, ...], list[Group]] = {}
    for group in wanted:
        p = group.problem
        series.setdefault((group.kind, p.op, p.dtype, p.trans_a, group.threads), []).append(group)
    for members in series.values():
        for index, group in enumerate(members):
            barred = class_of(group.problem) in SQUARE_CLASSES and group.problem.m in BARRED
            found[group] = 0 if barred else _level(index, len(members))
    return found


def order_of(p: Problem) -> tuple[object, ...]:
    """Sorts problems as tables list them."""
    return p.op, p.trans_a, p.batch > 1, p.m * p.n * p.k, p.m, p.n


def _level(index: int, count: int) -> int:
    low, high, depth = 0, count - 1, 0
    while index not in (low, high):
        middle, depth = (low + high) // 2, depth + 1
        if index == middle:
            return depth
        low, high = (middle, high) if index > middle else (low, middle)
    return depth
