"""Ours against the best peer: what the cells of a `peers` run say. Pure functions of records.

A library's figure is its least disturbed round, the median of that round's samples, and the better of its
interleaved and its lone visits; so is ours. A ratio is time of the best peer / time of ours: above 1 ours is
faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from backends.base import Problem

from ..peers_plan import Group
from ..record import Cell, Run

OURS, ROOF, NUMPY = "native", "roof", "numpy"


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

    @property
    def kind(self) -> str:
        """Its class."""
        return Group(self.problem, self.threads, self.calls_from).kind

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
    by_way: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        by_way.setdefault((cell.backend, cell.config.get("call", "")), []).append(cell)
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
    )


def left_out(run: Run) -> list[tuple[str, str, str]]:
    """(group, backend, reason) of every visit whose times do not count."""
    return sorted({(c.group, c.backend, c.skip_reason) for c in run.cells if c.skip_reason})


def geometric_mean(values: Sequence[float]) -> float | None:
    """None of nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


class Bar(msgspec.Struct, frozen=True):
    """One figure to reach: of a class, in words, at least so much; `of` takes the entries of one column.

    A column is a dtype and a number of threads; `context` has the whole run's entries and the machine.
    """

    kind: str
    words: str
    least: Callable[[int], float | None]
    of: Callable[[list[Entry], Context], float | None]
    percent: bool = False


class Context(msgspec.Struct, frozen=True):
    """What a bar may look at beside its own column."""

    every: list[Entry]
    caches: dict[int, int]
    """Level -> bytes of the cache that one core sees."""


def always(least: float) -> Callable[[int], float | None]:
    """The same at any number of threads."""
    return lambda threads: least


def on_one(least: float) -> Callable[[int], float | None]:
    """Asked of one thread only."""
    return lambda threads: least if threads == 1 else None


def on_many(least: float, two: float | None = None) -> Callable[[int], float | None]:
    """Asked of several threads; `two`: another figure on exactly two."""
    return lambda threads: None if threads == 1 else two if threads == 2 and two is not None else least


def mean_ratio(most: int = 1 << 62) -> Callable[[list[Entry], Context], float | None]:
    """Geometric mean of the ratios up to M = `most`."""
    return lambda entries, _: geometric_mean([e.ratio for e in entries if e.problem.m <= most])


def least_ratio(entries: list[Entry], _: Context) -> float | None:
    """The worst single ratio."""
    return min((e.ratio for e in entries), default=None)


def roof_share(least: int, most: int) -> Callable[[list[Entry], Context], float | None]:
    """The lowest share of the roof among M from `least` to `most`."""
    return lambda entries, _: min(
        (e.share for e in entries if least <= e.problem.m <= most and e.share is not None), default=None
    )


def gain_of_threads(entries: list[Entry], context: Context) -> float | None:
    """Geometric mean of time on one thread / time on these threads."""
    alone = {e.problem: e.ours_s for e in context.every if e.threads == 1 and e.calls_from == "c"}
    return geometric_mean([alone[e.problem] / e.ours_s for e in entries if e.problem in alone])


def read_share(level: str) -> Callable[[list[Entry], Context], float | None]:
    """The lowest share of the read bandwidth among matrices that lie in `level`: dram or l3."""

    def share(entries: list[Entry], context: Context) -> float | None:
        shares = [e.share for e in entries if e.share is not None and place_of(e, context.caches) == level]
        return min(shares, default=None)

    return share


def place_of(entry: Entry, caches: dict[int, int]) -> str:
    """Where a gemv's matrix lies: dram from twice the last cache on, l3 between twice L2 and half of L3."""
    itemsize = 4 if entry.problem.dtype == "float32" else 8
    p = entry.problem
    size = p.m * p.n * p.k // (1 if p.op == "gemv" else max(1, min(p.m, p.n))) * itemsize
    l2, l3 = caches.get(2, 0) * entry.threads, caches.get(3, 0)
    if size >= 2 * max(l2, l3):
        return "dram"
    return "l3" if l3 and 2 * l2 <= size <= l3 / 2 else ""


def python_ratio(
    least: int, most: int, prepared: bool = False
) -> Callable[[list[Entry], Context], float | None]:
    """The worst time of np.matmul / time of ours among M from `least` to `most`."""

    def ratio(entries: list[Entry], _: Context) -> float | None:
        found = [e for e in entries if NUMPY in e.peers_s and least <= e.problem.m <= most]
        times = [(e.peers_s[NUMPY], e.prepared_s if prepared else e.ours_s) for e in found]
        return min((theirs / own for theirs, own in times if own), default=None)

    return ratio


MEAN = "mean against the best peer"

PEAK, READ = "of the FMA peak", "of the read bandwidth"
LARGEST = 1 << 62

BARS = (
    Bar("4-16", MEAN, always(1.5), mean_ratio()),
    Bar("4-16", f"{MEAN}, 4 to 8", always(2.0), mean_ratio(8)),
    Bar("4-16", "all threads against one", on_many(0.97), gain_of_threads),
    Bar("24-96", MEAN, always(1.05), mean_ratio()),
    Bar("24-96", f"{PEAK} at 64", on_one(0.88), roof_share(64, 64), percent=True),
    Bar("128-512", MEAN, always(1.05), mean_ratio()),
    Bar("128-512", f"{PEAK} at 256", on_one(0.94), roof_share(256, 256), percent=True),
    Bar("128-512", f"{PEAK} at 512", on_many(0.5, two=0.82), roof_share(512, 512), percent=True),
    Bar("768-up", MEAN, always(1.02), mean_ratio()),
    Bar("768-up", f"{PEAK}, lowest", on_one(0.91), roof_share(768, LARGEST), percent=True),
    Bar("768-up", f"{PEAK} from 2048, lowest", on_many(0.85), roof_share(2048, LARGEST), percent=True),
    Bar("rectangles", MEAN, always(1.05), mean_ratio()),
    Bar("rectangles", "lowest against the best peer", always(0.97), least_ratio),
    Bar("gemv", MEAN, always(1.0), mean_ratio()),
    Bar("gemv", f"{READ} from memory, lowest", always(0.92), read_share("dram"), percent=True),
    Bar("gemv", f"{READ} from L3, lowest", always(0.80), read_share("l3"), percent=True),
    Bar("batch", "mean against a loop over the best peer", always(2.0), mean_ratio()),
    Bar("python", "gemm against np.matmul, lowest", always(1.0), python_ratio(1, LARGEST)),
    Bar("python", "prepared call to 16, lowest", always(1.5), python_ratio(1, 16, prepared=True)),
    Bar("python", "prepared call at 32", always(1.3), python_ratio(32, 32, prepared=True)),
)
"""Means are geometric. 0.97 stands for "no slower": 3 % are left for noise."""


class Result(msgspec.Struct, frozen=True):
    """A bar in one column: the figure, what was asked, and whether it is met."""

    value: float
    least: float

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
    context = Context(every, caches_of(run.machine))
    found = [(bar, _results(bar, every, context)) for bar in BARS]
    return [(bar, results) for bar, results in found if results]


def _results(bar: Bar, every: Sequence[Entry], context: Context) -> dict[Column, Result]:
    results = {}
    for dtype, threads in columns(every):
        least = bar.least(threads)
        own = [e for e in every if (e.problem.dtype, e.threads, e.kind) == (dtype, threads, bar.kind)]
        value = bar.of(own, context) if least is not None and own else None
        if value is not None and least is not None:
            results[dtype, threads] = Result(value, least)
    return results


def caches_of(machine: dict[str, Any]) -> dict[int, int]:
    """Level -> bytes of the data caches described in a record."""
    caches = machine.get("cpu", {}).get("caches", [])
    return {c["level"]: c["bytes"] for c in caches if c.get("kind") != "instruction"}
