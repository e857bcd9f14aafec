"""Ours against the best peer: what the cells of a `peers` run say. Pure functions of records.

A library's figure is its least disturbed round, the median of that round's samples, and the better of its
interleaved and its lone visits; so is ours. A ratio is time of the best peer / time of ours: above 1 ours is
faster. Whether a figure has settled: `suite.peers_rounds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from backends.arithmetic import ITEMSIZE
from backends.base import Problem

from ..peers_plan import Group, group_of
from ..peers_rounds import OURS, ROOF, Way, contenders, way_of
from ..record import Cell, Run

NUMPY = "numpy"


class Entry(msgspec.Struct, frozen=True):
    """One problem on a number of threads: seconds of ours, of every peer, and at the roof, if measured."""

    problem: Problem
    threads: int
    calls_from: str
    ours_s: float
    peers_s: dict[str, float]
    roof_s: float | None = None
    roof: str = ""
    prepared_s: float | None = None
    unsettled: frozenset[str] = frozenset()
    """Of ours, `prepared` and the peers near the best: those whose figure never settled."""
    rounds: int = 1

    @property
    def group(self) -> Group:
        """What was compared."""
        return Group(self.problem, self.threads, self.calls_from)

    @property
    def kind(self) -> str:
        """Its class."""
        return self.group.kind

    @property
    def best_peer(self) -> str:
        """The fastest of the others."""
        return min(self.peers_s, key=lambda name: self.peers_s[name])

    @property
    def ratio(self) -> float:
        """Time of the best peer / time of ours."""
        return self.peers_s[self.best_peer] / self.ours_s

    @property
    def share(self) -> float | None:
        """Share of the roof that ours reaches."""
        return None if self.roof_s is None else self.roof_s / self.ours_s


def figure_s(cells: Sequence[Cell]) -> float | None:
    """The shortest round of these cells, in seconds; None without any."""
    return min((time for cell in cells for time in cell.times_s), default=None)


def entries(run: Run) -> list[Entry]:
    """One for each group in which ours and a peer have a time, in the order of the run."""
    grouped: dict[str, list[Cell]] = {}
    for cell in run.cells:
        grouped.setdefault(cell.group, []).append(cell)
    found = [entry for cells in grouped.values() if (entry := _entry(cells)) is not None]
    return [_under_its_roof(entry, found) for entry in found]


def _under_its_roof(entry: Entry, every: Sequence[Entry]) -> Entry:
    """Where ours is above the FMA peak, other work disturbed that: the highest of the run stands for it."""
    if entry.roof != "fma" or entry.share is None or entry.share <= 1:
        return entry
    column = (entry.problem.dtype, entry.threads, "fma")
    others = [e for e in every if (e.problem.dtype, e.threads, e.roof) == column and e.roof_s]
    peak = max(e.problem.flops / e.roof_s for e in others if e.roof_s)
    return msgspec.structs.replace(entry, roof_s=entry.problem.flops / peak)


def _entry(cells: Sequence[Cell]) -> Entry | None:
    by_way: dict[Way, list[Cell]] = {}
    for cell in cells:
        by_way.setdefault(way_of(cell), []).append(cell)
    times = {way: seconds for way, found in by_way.items() if (seconds := figure_s(found)) is not None}
    ours = times.get((OURS, "")) or times.get((OURS, "gemm"))
    peers = {name: seconds for (name, _), seconds in times.items() if name not in (OURS, ROOF)}
    if ours is None or not peers:
        return None
    roof = next((cell.config.get("roof", "") for cell in cells if cell.backend == ROOF), "")
    first = cells[0]
    return Entry(
        problem=first.problem,
        threads=first.threads or 1,
        calls_from=first.calls_from,
        ours_s=ours,
        peers_s=peers,
        roof_s=times.get((ROOF, "")),
        roof=roof,
        prepared_s=times.get((OURS, "prepared")),
        unsettled=frozenset(
            "prepared" if call == "prepared" else name
            for (name, call), settled in contenders(cells).items()
            if not settled
        ),
        rounds=len({round_ for cell in cells for round_ in cell.round_of}),
    )


def left_out(run: Run) -> list[tuple[str, str, str]]:
    """(group, backend, reason) of every visit whose times do not count."""
    return sorted({(c.group, c.backend, c.skip_reason) for c in run.cells if c.skip_reason})


def geometric_mean(values: Sequence[float]) -> float | None:
    """None of nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


class Context(msgspec.Struct, frozen=True):
    """What a bar may look at beside one entry."""

    caches: dict[int, int]
    """Level -> bytes of the cache that one core sees."""

    alone_s: dict[Problem, float] = {}
    """Time of ours on one thread, called from C."""


Value = Callable[[Entry, Context], "float | None"]


class Bar(msgspec.Struct, frozen=True):
    """One figure to reach: of a class, in words, at least so much on that many threads.

    `take` makes it of the `value` of every entry in a column (a dtype and a number of threads) that is
    `among` those that count.
    """

    kind: str
    words: str
    least: Callable[[int], float | None]
    value: Value
    take: Callable[[Sequence[float]], float | None]
    among: Callable[[Group, Context], bool] = lambda group, context: True
    percent: bool = False


def always(least: float) -> Callable[[int], float | None]:
    """The same at any number of threads."""
    return lambda threads: least


def on_one(least: float) -> Callable[[int], float | None]:
    """Asked of one thread only."""
    return lambda threads: least if threads == 1 else None


def on_many(least: float, two: float | None = None) -> Callable[[int], float | None]:
    """Asked of several threads; `two`: another figure on exactly two."""
    return lambda threads: None if threads == 1 else two if threads == 2 and two is not None else least


def lowest(values: Sequence[float]) -> float | None:
    """None of nothing."""
    return min(values, default=None)


def sizes(least: int = 1, most: int = 1 << 62) -> Callable[[Group, Context], bool]:
    """M from `least` to `most`."""
    return lambda group, _: least <= group.problem.m <= most


def lies_in(level: str) -> Callable[[Group, Context], bool]:
    """A matrix in dram or in l3: see `place_of`."""
    return lambda group, context: place_of(group, context.caches) == level


def ratio(entry: Entry, _: Context) -> float | None:
    """Time of the best peer / time of ours."""
    return entry.ratio


def share(entry: Entry, _: Context) -> float | None:
    """Of the roof."""
    return entry.share


def gain_of_threads(entry: Entry, context: Context) -> float | None:
    """Time on one thread / time on these threads."""
    alone_s = context.alone_s.get(entry.problem)
    return alone_s / entry.ours_s if alone_s else None


def python_gemm(entry: Entry, _: Context) -> float | None:
    """Time of np.matmul / time of a plain call."""
    return entry.peers_s[NUMPY] / entry.ours_s if NUMPY in entry.peers_s else None


def python_prepared(entry: Entry, _: Context) -> float | None:
    """Time of np.matmul / time of a prepared call."""
    return entry.peers_s[NUMPY] / entry.prepared_s if entry.prepared_s and NUMPY in entry.peers_s else None


def place_of(group: Group, caches: dict[int, int]) -> str:
    """Where a gemv's matrix lies: dram from twice the last cache on, l3 between twice L2 and half of L3."""
    p = group.problem
    size = p.m * p.n * p.k // (1 if p.op == "gemv" else max(1, min(p.m, p.n))) * ITEMSIZE[p.dtype]
    l2, l3 = caches.get(2, 0) * group.threads, caches.get(3, 0)
    if size >= 2 * max(l2, l3):
        return "dram"
    return "l3" if l3 and 2 * l2 <= size <= l3 / 2 else ""


MEAN = "mean against the best peer"
PEAK, READ = "of the FMA peak", "of the read bandwidth"

mean = geometric_mean
BARS = (
    Bar("4-16", MEAN, always(1.5), ratio, mean),
    Bar("4-16", f"{MEAN}, 4 to 8", always(2.0), ratio, mean, sizes(4, 8)),
    Bar("4-16", "all threads against one, mean", on_many(0.97), gain_of_threads, mean),
    Bar("24-96", MEAN, always(1.05), ratio, mean),
    Bar("24-96", f"{PEAK} at 64", on_one(0.88), share, lowest, sizes(64, 64), percent=True),
    Bar("128-512", MEAN, always(1.05), ratio, mean),
    Bar("128-512", f"{PEAK} at 256", on_one(0.94), share, lowest, sizes(256, 256), percent=True),
    Bar("128-512", f"{PEAK} at 512", on_many(0.5, two=0.82), share, lowest, sizes(512, 512), percent=True),
    Bar("768-up", MEAN, always(1.02), ratio, mean),
    Bar("768-up", f"{PEAK}, lowest", on_one(0.91), share, lowest, percent=True),
    Bar("768-up", f"{PEAK} from 2048, lowest", on_many(0.85), share, lowest, sizes(2048), percent=True),
    Bar("rectangles", MEAN, always(1.05), ratio, mean),
    Bar("rectangles", "lowest against the best peer", always(0.97), ratio, lowest),
    Bar("gemv", MEAN, always(1.0), ratio, mean),
    Bar("gemv", f"{READ} from memory, lowest", always(0.92), share, lowest, lies_in("dram"), percent=True),
    Bar("gemv", f"{READ} from L3, lowest", always(0.80), share, lowest, lies_in("l3"), percent=True),
    Bar("batch", "mean against a loop over the best peer", always(2.0), ratio, mean),
    Bar("python", "gemm against np.matmul, lowest", always(1.0), python_gemm, lowest),
    Bar("python", "prepared call to 16, lowest", always(1.5), python_prepared, lowest, sizes(1, 16)),
    Bar("python", "prepared call at 32", always(1.3), python_prepared, lowest, sizes(32, 32)),
)
"""Means are geometric. 0.97 stands for "no slower": 3 % are left for noise."""


class Result(msgspec.Struct, frozen=True):
    """A bar in one column: the figure, what was asked, from how many problems of how many that were meant."""

    value: float
    least: float
    count: int = 1
    of: int = 1

    @property
    def met(self) -> bool:
        """Is it reached?"""
        return self.value >= self.least


Column = tuple[str, int]
"""dtype and threads."""


def columns(found: Sequence[Entry]) -> list[Column]:
    """The columns of the tables, in order."""
    return sorted({(e.problem.dtype, e.threads) for e in found})


def judged(run: Run) -> list[tuple[Bar, dict[Column, Result]]]:
    """Every bar that the run says something of, with its result in each column."""
    every = entries(run)
    alone_s = {e.problem: e.ours_s for e in every if e.threads == 1 and e.calls_from == "c"}
    context = Context(caches_of(run.machine), alone_s)
    missed = missing(run)
    found = [(bar, _results(bar, every, missed, context)) for bar in BARS]
    return [(bar, results) for bar, results in found if results]


def missing(run: Run) -> list[Group]:
    """The groups that were meant to be measured, and have no figure."""
    there = {entry.group.key for entry in entries(run)}
    left = (*run.options.get("unmeasured", ()), *run.options.get("too_large", ()))
    keys = {*left, *(cell.group for cell in run.cells)} - there
    return [group for key in sorted(keys) if (group := group_of(key)) is not None]


def _results(
    bar: Bar, every: Sequence[Entry], missed: Sequence[Group], context: Context
) -> dict[Column, Result]:
    results = {}
    for column in columns(every):
        least = bar.least(column[1])
        values = [bar.value(e, context) for e in every if _counts(bar, e.group, column, context)]
        known = [value for value in values if value is not None]
        figure = bar.take(known)
        if figure is not None and least is not None:
            lost = sum(_counts(bar, group, column, context) for group in missed)
            results[column] = Result(figure, least, len(known), len(values) + lost)
    return results


def _counts(bar: Bar, group: Group, column: Column, context: Context) -> bool:
    here = (group.problem.dtype, group.threads) == column and group.kind == bar.kind
    return here and bar.among(group, context)


def caches_of(machine: dict[str, Any]) -> dict[int, int]:
    """Level -> bytes of the data caches described in a record."""
    caches = machine.get("cpu", {}).get("caches", [])
    return {c["level"]: c["bytes"] for c in caches if c.get("kind") != "instruction"}
