"""A model of one machine: T = latency + work + transfer, with constants fitted elsewhere (`calibration`).

    run       latency + K * per_k + FLOP * flop + bytes * byte + far bytes * far_byte      (`Terms`)
    copy      latency + bytes in and out, the first ones and those beyond the caches dearer  (`Link`)
    resident  the first run, then queued ones: those hide most of the latency
    once      copies + the runs of `resident`
    always    every run pays its copies
    overlap   the longest of copy in, run, copy out, and a slab of both copies at the ends

A side is the least of its `Terms`: each is one way of computing, such as one thread or all of them. All of it
is arithmetic on a few floats: no NumPy, no hardware, microseconds.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from backends.base import HostMemory, Problem, Transfer

from .prediction import Bound, Device, Prediction

SLABS = 8
"""Pieces in which `overlap` copies: one of them going in, and one going out, hide behind nothing."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one run on one way of computing, data in place. Each constant is >= 0.

    latency_s: to call, start and wait, whatever the size. per_k_s: one step of the longest chain of dependent
    sums (K of a gemm, N of a gemv). flop_s: one FLOP at full rate. byte_s: a byte of A, B or C, and
    far_byte_s what it costs more where the operands do not stay in a cache of near_bytes (0: all stay).
    tile, slots: work comes in whole waves of `slots` tiles of C; slots 0: it does not. floor: (byte_s,
    far_byte_s, near_bytes) of an operation that only reads: work takes no less than that, which square
    products never show and thin ones do.
    """

    latency_s: float = 0.0
    per_k_s: float = 0.0
    flop_s: float = 0.0
    byte_s: float = 0.0
    far_byte_s: float = 0.0
    near_bytes: float = 0.0
    tile: tuple[int, int] = (1, 1)
    slots: int = 0
    floor: tuple[float, float, float] | None = None
    backend: str = ""
    threads: int | None = None

    def parts(self, problem: Problem) -> Parts:
        """What this run consists of."""
        work = amounts(problem, self.near_bytes)
        flops = flops_in_waves(problem, self.tile, self.slots)
        compute = self.per_k_s * work.chain + self.flop_s * flops
        memory = self.byte_s * work.bytes + self.far_byte_s * work.far
        return Parts(self.latency_s, compute, max(memory, self._least(problem) - compute))

    def _least(self, problem: Problem) -> float:
        """What memory alone takes: see `floor`."""
        if self.floor is None:
            return 0.0
        byte_s, far_byte_s, near_bytes = self.floor
        return byte_s * problem.bytes_min + far_byte_s * far_bytes(problem.bytes_min, near_bytes)


class Parts(NamedTuple):
    """Seconds of one run by cause."""

    latency: float
    compute: float
    memory: float

    def times(self, factor: float) -> Parts:
        """All of them longer by `factor`."""
        return Parts(*(factor * part for part in self))


class Amounts(NamedTuple):
    """What a problem asks for: chain of dependent sums, FLOP, bytes, and those of them beyond a cache."""

    chain: float
    flops: int
    bytes: int
    far: float


def amounts(problem: Problem, near_bytes: float) -> Amounts:
    """Of one run; bytes of each operand once.

    The chain is K (of a gemv N), but no longer than that of the square problem with as many FLOP: where sums
    are longer, libraries cut them in pieces and add these.
    """
    p = problem
    products = max(1, p.flops // 2)
    chain = min(p.k, products ** (1 / 3)) if p.op == "gemm" else min(p.n, products ** (1 / 2))
    return Amounts(chain, p.flops, p.bytes_min, far_bytes(p.bytes_min, near_bytes))


def far_bytes(total: float, near_bytes: float) -> float:
    """Of `total` bytes walked through again and again, those that a cache of near_bytes does not keep.

    None up to its size, all from four times that, evenly between: the first bytes of a walk push out those
    that come next, but not at once on every core. 0: a cache that keeps all.
    """
    return max(0.0, min(total, (total - near_bytes) * 4 / 3)) if near_bytes else 0.0


def flops_in_waves(problem: Problem, tile: tuple[int, int], slots: int) -> int:
    """The FLOP that are paid for: those of whole waves of whole tiles from the second wave on.

    Below one wave its own: libraries have smaller tiles for that.
    """
    if not slots or problem.op != "gemm":
        return problem.flops
    tiles = math.ceil(problem.m / tile[0]) * math.ceil(problem.n / tile[1]) * problem.batch
    waves = math.ceil(tiles / slots)
    return waves * slots * 2 * tile[0] * tile[1] * problem.k if waves > 1 else problem.flops


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of the copies of one run. latency_s is that of all of them.

    byte_s: a byte either way; in_s and out_s what it costs more that way. small_s: more for each of the first
    small_bytes (pageable memory goes by way of a small stage); far_s: more where it comes from beyond a
    cache of near_bytes (0: none does).
    """

    host_memory: HostMemory
    latency_s: float = 0.0
    byte_s: float = 0.0
    in_s: float = 0.0
    out_s: float = 0.0
    small_s: float = 0.0
    small_bytes: float = 0.0
    far_s: float = 0.0
    near_bytes: float = 0.0

    def copies(self, problem: Problem) -> tuple[float, float]:
        """(to the device, back) for one run; what belongs to neither is split by bytes."""
        into, out = problem.bytes_in, problem.bytes_out
        total = into + out
        if not total:
            return self.latency_s, 0.0
        shared = self.latency_s + self.byte_s * total + self.small_s * min(total, self.small_bytes)
        shared += self.far_s * far_bytes(total, self.near_bytes)
        return shared * into / total + self.in_s * into, shared * out / total + self.out_s * out


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One device in one operation, arithmetic and kind of host memory.

    corrections: (FLOP, factor) at the sizes it was fitted on, ascending: what the terms miss there, halved in
    logarithms, interpolated between. log_sd: by transfer mode, the standard deviation of ln(true / predicted)
    at sizes that were not fitted on. flops: the least and the most FLOP fitted on. threads: the count it
    stands for; None for the best. hidden_s: what of its latency a run does not cost when it was queued behind
    another. sizes: how many it was fitted on.
    """

    device: Device
    op: str
    dtype: str
    math: str
    host_memory: HostMemory
    terms: tuple[Terms, ...]
    corrections: tuple[tuple[float, float], ...] = ()
    hidden_s: float = 0.0
    log_sd: dict[str, float] = {}
    flops: tuple[float, float] = (0.0, 0.0)
    threads: int | None = None
    sizes: int = 0

    def run(self, problem: Problem) -> tuple[Parts, Terms]:
        """One run by cause, and the way of computing that is the quickest for it."""
        found = [(terms.parts(problem), terms) for terms in self.terms]
        parts, terms = min(found, key=lambda pair: sum(pair[0]))
        return parts.times(self.factor(problem.flops)), terms

    def factor(self, flops: float) -> float:
        """The correction there."""
        known = self.corrections
        i = bisect.bisect([at for at, _ in known], flops)
        if not known or i in (0, len(known)):
            return known[max(0, i - 1)][1] if known else 1.0
        (low, before), (high, after) = known[i - 1], known[i]
        share = math.log(flops / low) / math.log(high / low)
        return float(before ** (1 - share) * after**share)


class Roofs(msgspec.Struct, frozen=True, kw_only=True):
    """Rates that nothing on a device exceeds: FLOP/s by arithmetic, bytes/s of its memory and of its link.

    measured: with instructions alone, by `calibrate`; else the best that any run here reached.
    """

    flops: dict[str, float] = {}
    memory: float = 0.0
    link: float = 0.0
    measured: bool = False


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """All constants of one machine: a `Predictor`."""

    sides: tuple[Side, ...] = ()
    links: tuple[Link, ...] = ()
    roofs: dict[str, Roofs] = {}
    fingerprint: str = ""
    created: str = ""

    def predict(
        self,
        problem: Problem,
        device: Device,
        transfer: Transfer,
        reuse: int = 1,
        host_memory: HostMemory = "pageable",
        threads: int | None = None,
    ) -> Prediction | None:
        """See `Predictor`."""
        side = self.side(problem, device, host_memory, threads)
        link = next((link for link in self.links if link.host_memory == host_memory), None)
        moves = device == "cuda" and transfer != "resident"
        if side is None or transfer == "unified" or (moves and link is None):
            return None
        run, terms = side.run(problem)
        copies = link.copies(problem) if moves and link else (0.0, 0.0)
        whole = composed(side, run, copies, transfer, reuse)
        copied = times_copied(device, transfer, reuse)
        found = whole.prediction(self.roofs.get(device), problem, copied, reuse)
        known = side.log_sd.get(transfer if moves else "resident", max(side.log_sd.values(), default=1.0))
        return msgspec.structs.replace(found, log_sd=known, backend=terms.backend, threads=terms.threads)

    def side(
        self, problem: Problem, device: Device, host_memory: HostMemory, threads: int | None = None
    ) -> Side | None:
        """The constants for such a problem; of the other kind of host memory where there are no others."""
        wanted = (device, problem.op, problem.dtype, problem.math, threads)
        found = [s for s in self.sides if (s.device, s.op, s.dtype, s.math, s.threads) == wanted]
        return min(found, key=lambda s: s.host_memory != host_memory, default=None)


class Whole(NamedTuple):
    """Seconds of one `enqueue` by cause; `time` is less than their sum where some hide others."""

    time: float
    launch: float
    compute: float
    memory: float
    h2d: float
    d2h: float

    def prediction(self, roofs: Roofs | None, problem: Problem, copied: int, runs: int) -> Prediction:
        """With its largest share and how near that comes to its roof."""
        kernel, kind = self.compute + self.memory, kernel_bound(problem, roofs)
        shares: dict[Bound, float] = {
            "launch": self.launch,
            "transfer": self.h2d + self.d2h,
            kind: kernel,
        }
        bound = max(shares, key=lambda name: shares[name])
        parts = {"h2d": self.h2d, "launch": self.launch, "kernel": kernel, "d2h": self.d2h}
        done = amount_done(bound, problem, copied, runs)
        return Prediction(
            time_s=self.time,
            parts={name: value for name, value in parts.items() if value},
            bound=bound,
            roof_share=roof_share(roofs, bound, problem.math, done, shares[bound]),
            log_sd=0.0,
        )


def composed(side: Side, run: Parts, copies: tuple[float, float], transfer: Transfer, reuse: int) -> Whole:
    """One `enqueue(transfer, reuse)` made of its runs and copies."""
    h2d, d2h = copies
    alone = 1 if side.device == "cuda" and transfer != "always" else reuse
    queued = max(0.0, run.latency - side.hidden_s)
    launch = alone * run.latency + (reuse - alone) * queued
    compute, memory = reuse * run.compute, reuse * run.memory
    if transfer == "always":
        h2d, d2h = reuse * h2d, reuse * d2h
    time = launch + compute + memory + h2d + d2h
    if transfer == "overlap":
        time = max(h2d, launch + compute + memory, d2h) + (h2d + d2h) / SLABS
    return Whole(time, launch, compute, memory, h2d, d2h)


def kernel_bound(problem: Problem, roofs: Roofs | None) -> Bound:
    """By the ridge of the roofline: what a kernel at its roof would wait for."""
    peak = roofs.flops.get(problem.math, 0.0) if roofs else 0.0
    if roofs and peak and roofs.memory:
        return "bandwidth" if problem.intensity < peak / roofs.memory else "compute"
    return "compute" if problem.op == "gemm" else "bandwidth"


def amount_done(bound: Bound, problem: Problem, copied: int, runs: int) -> float:
    """FLOP or bytes, whichever that bound is about; 0 for a launch."""
    amount = {
        "transfer": copied * (problem.bytes_in + problem.bytes_out),
        "bandwidth": runs * problem.bytes_min,
        "compute": runs * problem.flops,
    }
    return amount.get(bound, 0)


def times_copied(device: str, transfer: str, reuse: int) -> int:
    """How often the operands cross the link in one `enqueue(transfer, reuse)`."""
    if device != "cuda" or transfer == "resident":
        return 0
    return reuse if transfer == "always" else 1


def roof_share(roofs: Roofs | None, bound: str, math: str, done: float, seconds: float) -> float | None:
    """How near `done` (FLOP or bytes) in `seconds` comes to its roof, in 0 … 1; None without a roof."""
    if roofs is None or not seconds:
        return None
    rates = {"transfer": roofs.link, "bandwidth": roofs.memory, "compute": roofs.flops.get(math, 0.0)}
    rate = rates.get(bound, 0.0)
    return min(1.0, done / seconds / rate) if rate else None


def as_record(model: Model) -> dict[str, Any]:
    """As it stands in `Run.model`; empty where nothing could be fitted. `of_record` reads it."""
    return dict(msgspec.json.decode(msgspec.json.encode(model))) if model.sides else {}


def of_record(found: Mapping[str, Any]) -> Model | None:
    """The model in a record; None where there is none, or one with constants of another version."""
    try:
        return msgspec.convert(found, Model) if found else None
    except msgspec.ValidationError:
        return None
