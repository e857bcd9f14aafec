"""Constants of a model from measured cells: a pure function of records, whoever measured them.

Up to MOST_SIZES problems of a side are fitted on, spread evenly over the logarithm of their FLOP; all others
judge the fit. Times decide, not the diagnostic parts: copies are what `always` takes more than `resident`,
and a queued run is what one more run costs in `once`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import msgspec
import numpy as np

from backends.arithmetic import ITEMSIZE
from backends.base import Problem
from suite.record import Cell

from .fit import nonnegative
from .model import Link, Model, Roofs, Side, Terms, amounts, far_bytes, flops_in_waves

MOST_SIZES = 6
"""What a fit may cost to measure; more of them follow the bumps of one machine no better."""

EDGES = {"gemm": (32, 96, 192, 384, 1024), "gemv": (128, 512, 1024, 2048, 4096)}
"""Sizes worth being fitted on, beside the largest: close together where a CPU goes from one thread to all of
them and a GPU from waiting to work, since both sides are easy to foretell below and above."""

LEAST_SIZES = 3
"""With fewer there is no constant worth the name."""

SHRINK = 0.5
"""Of what the terms miss at a size fitted on, as a power: half is taken for the machine's, half for noise."""

WAVE_TILE = (128, 128)
"""The tile of C that a GPU library gives a multiprocessor when there is enough work: the usual one."""

BETTER = 0.03
"""A second way of computing must lower the root mean square of the relative error by this much."""

TOLD_APART = 2.0
"""Largest over smallest ratio of bytes in to bytes out from which either way has a rate of its own."""

UNKNOWN_SD = 0.5
LEAST_SD = 0.02

Mode = tuple[str, int]
Key = tuple[str, str, str, str, str, "int | None"]
"""device, op, dtype, math, host memory, thread count held to."""


class Seen(NamedTuple):
    """The times of one problem on one side, by mode, and who took them in the first of these."""

    problem: Problem
    seconds: dict[Mode, float]
    backend: str
    threads: int | None

    @property
    def run_s(self) -> float:
        """One run, data in place."""
        return self.seconds[("resident", 1)]


def fitted(cells: Iterable[Cell], machine: Mapping[str, Any] | None = None, most: int = MOST_SIZES) -> Model:
    """The model of the machine on which `cells` were timed; without sides where they do not suffice.

    machine: its record, for the number of multiprocessors and the fingerprint.
    """
    machine = machine or {}
    gpus = machine.get("gpus") or [{}]
    seen = observed(cells)
    chosen = {key: spread(found, most) for key, found in seen.items()}
    links = _links({key: found for key, found in chosen.items() if key[0] == "cuda"})
    sides = []
    for key, found in chosen.items():
        if len(found) >= LEAST_SIZES:
            side = _side(key, found, gpus[0].get("sms") or 0)
            rest = [one for one in seen[key] if one not in found]
            sides.append(_with_errors(side, links.get(key[4]), rest, found))
    return Model(
        sides=tuple(_on_floor(side, sides) for side in sides),
        links=tuple(links.values()),
        roofs=roofs(seen),
        fingerprint=machine.get("fingerprint", ""),
    )


def tried(cells: Iterable[Cell], machine: Mapping[str, Any] | None = None) -> tuple[Model, str]:
    """As `fitted`; where that fails, no sides and the reason: a model explains a run, no more."""
    try:
        return fitted(cells, machine), ""
    except Exception as error:
        return Model(), f"{type(error).__name__}: {error}"


def _on_floor(side: Side, sides: Sequence[Side]) -> Side:
    """A gemm is no quicker than the gemv of its type reads as many bytes, where that was fitted too."""
    about = (side.device, side.dtype, side.math, side.threads)
    reads = [s for s in sides if s.op == "gemv" and (s.device, s.dtype, s.math, s.threads) == about]
    if side.op != "gemm" or not reads:
        return side
    way = min(reads, key=lambda s: s.host_memory != side.host_memory).terms[-1]
    floor = (way.byte_s + 2 * way.flop_s / ITEMSIZE[side.dtype], way.far_byte_s, way.near_bytes)
    terms = tuple(msgspec.structs.replace(found, floor=floor) for found in side.terms)
    return msgspec.structs.replace(side, terms=terms)


def observed(cells: Iterable[Cell]) -> dict[Key, list[Seen]]:
    """Median times of candidates, called from Python, that ran with data in place; ascending in FLOP."""
    times: dict[Key, dict[Problem, dict[Mode, list[Cell]]]] = {}
    for cell in cells:
        if cell.role not in ("candidate", "at_threads") or not cell.samples_s or cell.calls_from != "python":
            continue
        p, held = cell.problem, cell.threads if cell.role == "at_threads" else None
        key = (cell.device, p.op, p.dtype, p.math, cell.host_memory, held)
        mode = (cell.transfer, cell.reuse) if cell.device == "cuda" else ("resident", 1)
        times.setdefault(key, {}).setdefault(p, {}).setdefault(mode, []).append(cell)
    return {key: _ascending(found) for key, found in times.items()}


def _ascending(found: Mapping[Problem, Mapping[Mode, Sequence[Cell]]]) -> list[Seen]:
    seen = [
        Seen(problem, {mode: _seconds(cells) for mode, cells in modes.items()}, first.backend, first.threads)
        for problem, modes in found.items()
        if (first := modes.get(("resident", 1), [None])[0]) is not None
        and all(sample > 0 for cells in modes.values() for cell in cells for sample in cell.samples_s)
    ]
    return sorted(seen, key=lambda one: one.problem.flops)


def _seconds(cells: Sequence[Cell]) -> float:
    """Of one enqueue; of one run on a CPU, whose times for several runs are that many times one."""
    return median(median(c.times_s) / (c.reuse if c.device == "cpu" else 1) for c in cells)


def spread(seen: Sequence[Seen], most: int = MOST_SIZES) -> list[Seen]:
    """At most `most` of them: the largest, those nearest to EDGES below it, then those farthest from any.

    Distances are of the logarithm of FLOP.
    """
    at = [_edge(one.problem) for one in seen]
    if len(seen) <= most:
        return list(seen)
    chosen = {len(seen) - 1}
    for edge in EDGES["gemv" if seen[-1].problem.op != "gemm" else "gemm"]:
        if at[0] / 2 <= edge < at[-1] and len(chosen) < most:
            chosen.add(min(range(len(at)), key=lambda i: abs(math.log(at[i] / edge))))
    while len(chosen) < most:
        apart = [min(abs(math.log(edge / at[i])) for i in chosen) for edge in at]
        if max(apart) <= 0:  # as in a map over two dimensions, where many problems have as many FLOP
            break
        chosen.add(apart.index(max(apart)))
    return [seen[i] for i in sorted(chosen)]


def _edge(problem: Problem) -> float:
    """The edge of the square problem with as many FLOP."""
    whole = max(1, problem.flops)
    return (whole / 2) ** (1 / 3 if problem.op == "gemm" else 1 / 2)


# -- one side


def _side(key: Key, seen: Sequence[Seen], sms: int = 0) -> Side:
    device, op, dtype, math_, host_memory, threads = key
    terms = ways(seen, sms if device == "cuda" and op == "gemm" else 0)
    side = Side(
        device=device,  # type: ignore[arg-type]
        op=op, dtype=dtype, math=math_, threads=threads,
        host_memory=host_memory,  # type: ignore[arg-type]
        terms=terms, flops=(seen[0].problem.flops, seen[-1].problem.flops), sizes=len(seen),
    )  # fmt: skip
    missed: dict[float, list[float]] = {}
    for one in seen:
        told = sum(side.run(one.problem)[0])
        missed.setdefault(float(one.problem.flops), []).append((one.run_s / told) ** SHRINK if told else 1.0)
    corrections = tuple((flops, median(found)) for flops, found in sorted(missed.items()) if flops)
    side = msgspec.structs.replace(side, corrections=corrections)
    return msgspec.structs.replace(side, hidden_s=_hidden(side, seen))


def ways(seen: Sequence[Seen], slots: int = 0) -> tuple[Terms, ...]:
    """One way of computing, or what is much better than that: whole waves, or two with a border between.

    slots: how many tiles run at once, where work may come in waves of them. Two ways meet between two sizes.
    """
    whole = one_way(seen, _caches(seen))
    others: list[tuple[Terms, ...]] = [(one_way(seen, [whole.near_bytes], slots),)] if slots else []
    for border in range(2, len(seen) - 1):
        parts = seen[:border], seen[border:]
        others += [tuple(one_way(part, [whole.near_bytes]) for part in parts)]
    least = _error((whole,), seen)
    better = [(error, terms) for terms in others if (error := _error(terms, seen)) < least - BETTER]
    return min(better, key=lambda pair: pair[0])[1] if better else (whole,)


def _error(terms: Sequence[Terms], seen: Sequence[Seen]) -> float:
    off = [min(sum(way.parts(one.problem)) for way in terms) / one.run_s - 1 for one in seen]
    return math.sqrt(sum(error**2 for error in off) / len(off))


def one_way(seen: Sequence[Seen], caches: Sequence[float], slots: int = 0) -> Terms:
    """The constants of one way; its cache is the one of `caches` that fits best."""
    who, _ = Counter((one.backend, one.threads) for one in seen).most_common(1)[0]
    found = [(*_constants(seen, near, slots), near) for near in caches]
    (latency, chain, byte, flop, far), _, near = min(found, key=lambda fit: fit[1])
    return Terms(
        latency_s=latency, per_k_s=chain, flop_s=flop, byte_s=byte, far_byte_s=far,
        near_bytes=near, tile=WAVE_TILE, slots=slots, backend=who[0], threads=who[1],
    )  # fmt: skip


def _constants(seen: Sequence[Seen], near: float, slots: int) -> tuple[tuple[float, ...], float]:
    """(latency, chain, byte, FLOP, far byte). Where FLOP and bytes grow alike, bytes are what costs."""
    rows = []
    for one in seen:
        work, flops = amounts(one.problem, near), flops_in_waves(one.problem, WAVE_TILE, slots)
        rows.append((1, work.chain, work.bytes, flops, work.far))
    return nonnegative(rows, [one.run_s for one in seen])


def _caches(seen: Sequence[Seen]) -> list[float]:
    """None first; for a gemv also sizes, half a power of two apart, that some of the problems exceed."""
    if seen[-1].problem.op == "gemm":
        return [0.0]
    largest = seen[-1].problem.bytes_min
    return [0.0, *(near for e in range(40, 60) if (near := 2 ** (e / 2)) < largest)]


def _hidden(side: Side, seen: Sequence[Seen]) -> float:
    """What a queued run costs less than one alone, from `once`: never more than the least latency; or 0."""
    rows, times, whole = [], [], []
    for one in seen:
        for (transfer, reuse), seconds in one.seconds.items():
            if transfer == "once" and reuse > 1 and ("always", 1) in one.seconds:
                rows.append((reuse - 1,))
                more = seconds - one.seconds[("always", 1)]
                times.append((reuse - 1) * sum(side.run(one.problem)[0]) - more)
                whole.append(seconds)
    least = min(way.latency_s for way in side.terms)
    return min(least, nonnegative(rows, times, whole)[0][0]) if rows else 0.0


# -- copies


def _links(chosen: Mapping[Key, Sequence[Seen]]) -> dict[str, Link]:
    """Of each kind of host memory, from all operations and types together: a copy knows nothing of them."""
    found: dict[str, list[Seen]] = {}
    for key, seen in chosen.items():
        found.setdefault(key[4], []).extend(one for one in seen if ("always", 1) in one.seconds)
    return {memory: _link(memory, seen) for memory, seen in found.items() if len(seen) >= LEAST_SIZES}


def _link(memory: str, seen: Sequence[Seen]) -> Link:
    largest = max(one.problem.bytes_in for one in seen)
    near = [0.0, *(float(2**e) for e in range(21, 30) if 2**e < largest)]
    found = [
        (*_copy(seen, small, cache), small, cache) for cache in near for small in (0.0, 2.0**17, 2.0**20)
    ]
    (latency, byte, into, out, less, far), _, small, cache = min(found, key=lambda fit: fit[1])
    return Link(
        host_memory=memory,  # type: ignore[arg-type]
        latency_s=latency, byte_s=byte, in_s=into, out_s=out,
        small_s=less, small_bytes=small, far_s=far, near_bytes=cache,
    )  # fmt: skip


def _copy(seen: Sequence[Seen], small: float, near: float) -> tuple[tuple[float, ...], float]:
    """Relative to the whole of `always`: where copies are a small part of it, so is their error."""
    rows, times, whole = [], [], []
    ways = [one.problem.bytes_in / max(1, one.problem.bytes_out) for one in seen]
    told = max(ways) > TOLD_APART * min(ways)
    for one in seen:
        into, out = one.problem.bytes_in, one.problem.bytes_out
        total = into + out
        rows.append((1, total, told * into, told * out, min(total, small), far_bytes(total, near)))
        times.append(one.seconds[("always", 1)] - one.run_s)
        whole.append(one.seconds[("always", 1)])
    return nonnegative(rows, times, whole)


# -- how well


def _with_errors(side: Side, link: Link | None, rest: Sequence[Seen], used: Sequence[Seen]) -> Side:
    """`side` with its log_sd: from problems not fitted on, else from leaving out each but the ends."""
    found: dict[str, list[float]] = {}
    if len(rest) >= LEAST_SIZES:
        pairs = [(side, one) for one in rest]
    else:
        key = (side.device, side.op, side.dtype, side.math, side.host_memory, side.threads)
        inner = range(1, len(used) - 1) if len(used) > LEAST_SIZES else ()
        kept = [([*used[:i], *used[i + 1 :]], used[i]) for i in inner]
        pairs = [(_side(key, others), one) for others, one in kept]
    for by, one in pairs:
        for transfer, off in _off(by, link, one):
            found.setdefault(transfer, []).append(off)
    sd = {name: max(LEAST_SD, float(np.sqrt(np.mean(np.square(off))))) for name, off in found.items()}
    return msgspec.structs.replace(side, log_sd=sd or {"resident": UNKNOWN_SD})


def _off(side: Side, link: Link | None, one: Seen) -> Iterable[tuple[str, float]]:
    alone = Model(sides=(side,), links=(link,) if link else ())
    for (transfer, reuse), seconds in one.seconds.items():
        found = alone.predict(
            one.problem, side.device, transfer, reuse, side.host_memory, side.threads,  # type: ignore[arg-type]
        )  # fmt: skip
        if found is not None and found.time_s > 0:
            yield transfer, math.log(seconds / found.time_s)


def roofs(seen: Mapping[Key, Sequence[Seen]]) -> dict[str, Roofs]:
    """The best rates that any run here reached, by device: `measured` says that they are no true roofs."""
    flops: dict[str, dict[str, float]] = {}
    memory: dict[str, float] = {}
    link: dict[str, float] = {}
    for (device, op, _, arithmetic, _, _), found in seen.items():
        for one in found:
            rates = flops.setdefault(device, {})
            rates[arithmetic] = max(rates.get(arithmetic, 0.0), one.problem.flops / one.run_s)
            if op != "gemm":
                memory[device] = max(memory.get(device, 0.0), one.problem.bytes_min / one.run_s)
            copying = one.seconds.get(("always", 1), 0.0) - one.run_s
            if copying > 0:
                rate = (one.problem.bytes_in + one.problem.bytes_out) / copying
                link[device] = max(link.get(device, 0.0), rate)
    return {
        device: Roofs(flops=rates, memory=memory.get(device, 0.0), link=link.get(device, 0.0))
        for device, rates in flops.items()
    }
