"""The candidates of both sides of one comparison group: opened, screened, gated, chosen.

Screening takes a rough time of everything; it decides only what is not worth a gate and a pilot. What is
within `contender` times of the best gated one of some mode is gated and piloted; the best of the pilots
stands for its side, and is timed again on fresh rounds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import msgspec

from backends.base import Backend, DeviceLost, Session, Transfer

from .clock import ClockError
from .harness_sample import Entry, screen, timed
from .harness_settings import CPU_MODE, Bench, Mode, reason_of
from .record import GateResult

HOPELESS = 3.0
"""Times the best of its side at which a slow candidate is not tried in further modes."""

SAME_RUN = 1.05
"""Rough times this close, on as many threads really used, are two times of the same run."""

NEAR_TIE = 1.02
"""Pilot times this close are no reason for another backend in each mode, or for more threads."""


@dataclass(eq=False)
class Candidate:
    """One backend at one thread count, open on the operands of the group."""

    backend: Backend
    session: Session
    threads: int | None
    modes: tuple[Mode, ...]
    first_call_s: float = 0.0
    used_threads: int | None = None
    rough_s: dict[Mode, float] = field(default_factory=dict)
    gate: GateResult | None = None
    pilots: dict[Mode, Entry] = field(default_factory=dict)
    empty_s: float | None = None
    parts_s: dict[str, float] | None = None
    closed: bool = False

    @property
    def device(self) -> str:
        """cpu | cuda."""
        return self.backend.device

    def pilot_s(self, mode: Mode) -> float:
        """Median pilot time of one call in seconds; the rough one where no pilot was needed."""
        entry = self.pilots.get(mode)
        return statistics.median(entry.samples_s) if entry and entry.samples_s else self.rough_s[mode]

    def close(self) -> None:
        """Free what it holds; once."""
        if not self.closed:
            self.closed = True
            self.session.close()


class Skip(msgspec.Struct, frozen=True):
    """What was not timed, and why. gate: its outcome, where that is the reason. rough_s: of the screening."""

    backend: Backend
    threads: int | None
    mode: Mode
    reason: str
    gate: GateResult | None = None
    session: Session | None = None
    rough_s: float | None = None


def open_all(bench: Bench, backends: Sequence[Backend], keep: list[Candidate]) -> list[Skip]:
    """Open and screen every candidate; each is in `keep` as soon as it is open, so that none is lost."""
    skips: list[Skip] = []
    for number, backend in enumerate(backends):
        bench.tell("open", backend.name, number, len(backends))
        refused = _refused(bench, backend)
        skips += [Skip(backend, None, mode, reason) for mode, reason in refused.items()]
        offered = tuple(mode for mode in bench.modes if mode not in refused)
        modes = (CPU_MODE,) if backend.device == "cpu" else offered
        reason = _cannot(backend, bench)
        if reason:
            skips += [Skip(backend, None, mode, reason) for mode in modes]
        elif modes:
            skips += _open_counts(bench, backend, modes, keep)
    return skips


def _refused(bench: Bench, backend: Backend) -> dict[Mode, str]:
    """The modes that a GPU backend does not offer for this problem, with its reasons; a CPU has none."""
    if backend.device == "cpu":
        return {}
    asked = {mode: cast(Transfer, mode[0]) for mode in bench.modes}
    problem, memory = bench.problems[backend.device], bench.host_memory
    reasons = {mode: backend.refuses(problem, transfer, memory) for mode, transfer in asked.items()}
    return {mode: reason for mode, reason in reasons.items() if reason}


def _cannot(backend: Backend, bench: Bench) -> str:
    available = backend.probe()
    return (backend.supports(bench.problems[backend.device]) or "") if available.ok else available.reason


def _open_counts(
    bench: Bench, backend: Backend, modes: tuple[Mode, ...], keep: list[Candidate]
) -> list[Skip]:
    """One backend at its thread counts, most threads first, until fewer have twice been no better.

    Where a run takes longer than `slow_s`, one thread is not tried beside many; half of them are, since two
    hardware threads of a core can be slower than one.
    """
    skips: list[Skip] = []
    best, worse, slow = float("inf"), 0, False
    more: Candidate | None = None
    for threads in _counts(bench, backend):
        if slow and threads == 1:
            break
        skipped = _open_one(bench, backend, threads, modes, keep)
        skips += skipped
        if skipped or backend.device != "cpu":
            continue
        before, more = more, keep[-1]
        rough = more.rough_s[CPU_MODE]
        if before is not None and _same_run(more, before):
            keep.remove(before)
            before.close()
            best = min(best, rough)
            continue
        worse = worse + 1 if rough > best / NEAR_TIE else 0
        best = min(best, rough)
        slow = slow or rough > bench.settings.slow_s
        if worse >= 2:
            break
    return skips


def _same_run(fewer: Candidate, more: Candidate) -> bool:
    """Whether a product so small that the library shares it among fewer threads than asked ran twice."""
    seen = fewer.used_threads
    if seen is None or seen != more.used_threads or seen > (fewer.threads or 0):
        return False
    return fewer.rough_s[CPU_MODE] <= SAME_RUN * more.rough_s[CPU_MODE]


def _counts(bench: Bench, backend: Backend) -> Sequence[int | None]:
    if backend.device != "cpu":
        return [None]
    if bench.settings.threads is not None:
        return [bench.settings.threads]
    return sorted(backend.thread_counts(bench.problems[backend.device]), reverse=True)


def _open_one(
    bench: Bench, backend: Backend, threads: int | None, modes: tuple[Mode, ...], keep: list[Candidate]
) -> list[Skip]:
    """Open, first call, rough times; what raises is closed and skipped."""
    one = None
    try:
        device = backend.device
        session = backend.open(
            bench.problems[device], bench.operands[device], host_memory=bench.host_memory, threads=threads
        )
        one = Candidate(backend, session, threads, modes)
        keep.append(one)
        _screen(bench, one)
    except (ClockError, DeviceLost):
        raise
    except Exception as error:
        if one is not None:
            one.close()
        return [Skip(backend, threads, mode, reason_of(error)) for mode in modes]
    return []


def _screen(bench: Bench, one: Candidate) -> None:
    bench.enter(one.session)
    one.session.upload()
    timing = bench.settings.timing
    one.first_call_s = timed(bench.clock, Entry(one.session, *one.modes[0], timing=timing), 1)
    for mode in one.modes:
        if _hopeless(bench, one):
            one.rough_s[mode] = math.inf
            continue
        entry = Entry(one.session, *mode, timing=timing)
        one.rough_s[mode] = rough = screen(bench.clock, entry, bench.settings.wake_s / 2)
        one.used_threads = one.session.observed_threads()
        best = bench.best_rough_s.get((one.device, mode), math.inf)
        bench.best_rough_s[one.device, mode] = min(best, rough)
    bench.leave()


def _hopeless(bench: Bench, one: Candidate) -> bool:
    """So slow, and so much slower than another in a mode tried before, that the rest is not worth it."""
    return any(
        rough > max(HOPELESS * bench.best_rough_s[one.device, mode], bench.settings.wake_s / 2)
        for mode, rough in one.rough_s.items()
    )


def gate_contenders(bench: Bench, candidates: Sequence[Candidate]) -> list[Skip]:
    """Gate what could win a mode, the fastest first; close the rest. Returns what fell out, and why."""
    kept: set[int] = set()
    open_ones = [one for one in candidates if not one.closed]
    for mode in dict.fromkeys(mode for one in open_ones for mode in one.modes):
        for device in ("cpu", "cuda"):
            side = [one for one in open_ones if one.device == device and mode in one.modes]
            kept.update(id(one) for one in _contend(bench, side, mode))
    skips: list[Skip] = []
    for one in open_ones:
        if id(one) not in kept:
            skips += [
                Skip(one.backend, one.threads, m, _why(one), one.gate, one.session, one.rough_s.get(m))
                for m in one.modes
            ]
            one.close()
    return skips


def _contend(bench: Bench, side: Sequence[Candidate], mode: Mode) -> list[Candidate]:
    kept: list[Candidate] = []
    for one in sorted(side, key=lambda c: (c.rough_s[mode], c.threads or 0, c.backend.name)):
        if kept and one.rough_s[mode] > bench.settings.contender * kept[0].rough_s[mode]:
            break
        if len(kept) < bench.settings.most_contenders and _passes(bench, one):
            kept.append(one)
    return kept


def _passes(bench: Bench, one: Candidate) -> bool:
    if bench.gate is None:
        return True
    if one.gate is None:
        bench.tell("gate", one.backend.name)
        bench.enter(one.session)
        try:
            one.gate = bench.gate(one.session)
        except DeviceLost:
            raise
        except Exception as error:
            one.gate = GateResult(ok=False, failed="error", detail=reason_of(error))
        bench.leave()
    return one.gate.ok


def _why(one: Candidate) -> str:
    if one.gate is not None and not one.gate.ok:
        return f"gate failed ({one.gate.failed}): {one.gate.detail}"
    return "slower than the best in a first screening: neither gated nor timed"


def choose(candidates: Sequence[Candidate], device: str) -> dict[Mode, Candidate]:
    """The best of one side in each mode by the median of its pilots.

    Among those within NEAR_TIE of the best: the one that is that good in most modes, then fewer threads.
    """
    side = [one for one in candidates if one.device == device and not one.closed]
    return {mode: _choose(side, mode) for mode in dict.fromkeys(m for one in side for m in one.modes)}


def _choose(side: Sequence[Candidate], mode: Mode) -> Candidate:
    return min(_close(side, mode), key=lambda c: (-_covers(c, side), c.threads or 0, c.pilot_s(mode)))


def _close(side: Sequence[Candidate], mode: Mode) -> list[Candidate]:
    having = [one for one in side if mode in one.modes]
    fastest = min(one.pilot_s(mode) for one in having)
    return [one for one in having if one.pilot_s(mode) <= NEAR_TIE * fastest]


def _covers(one: Candidate, side: Sequence[Candidate]) -> int:
    return sum(one in _close(side, mode) for mode in one.modes)
