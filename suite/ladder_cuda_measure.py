"""Climbs the GPU's ladder: all rungs checked, then timed in rounds both ways, with the peaks in each round.

Throughput is what a rate is made of: runs straight after each other, replayed from a graph and timed by the
device. Latency stands beside it: one launch from Python, and the wait for its result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from backends import _cuda_driver
from backends._cuda_driver import CudaError
from backends._cuda_peaks import BYTES
from backends.base import Problem, Session, Unavailable
from backends.operands import Operands

from . import gate, ladder_cuda, ladder_cuda_compile, ladder_cuda_plan
from .clocks import merged, read_clocks
from .harness_candidates import Candidate
from .harness_cells import cell
from .harness_rounds import ReadClocks, Watch
from .harness_sample import Entry, calibrate, take, timed
from .harness_settings import CPU_MODE, Bench, Settings, reason_of
from .ladder import Rung
from .ladder_measure import TIMED_RUNS, Climb, Group, Trial, key_of
from .record import Cell, Clocks, GateResult, Run

ROOF_S = 0.004
WAKE_S = 0.002
"""All sides are the same GPU: its clocks never fall asleep between two of them."""

BLOCK_S = 0.001
"""Of a sample: an event is stamped to half a microsecond."""

ROUNDS = 6
"""The fewest that an interval can be made of without assuming a distribution; there are many problems."""

SLOW_S = 0.4
"""Seconds for all runs of a rung on one problem, up to which it is never too slow."""

SHARE = 8
"""Beyond that, all its runs may take one such part of the time left for the problem."""

SLOW_CALLS = 3 + 1 + 2 * TIMED_RUNS
"""Runs of a slow rung: those of the check, the first one, and one both ways in each of its rounds."""

SEVERAL_ROUNDS_S = 0.05
"""A run that takes longer is timed in two rounds alone."""


Raised = Callable[[Session], None]
Gates = Callable[[list[Session], int, Raised], list[GateResult]]


def checked(sessions: list[Session], seed: int, raised: Raised) -> list[GateResult]:
    """`gate.check_all`."""
    return gate.check_all(sessions, seed=seed, raised=raised)


SPOILED = "spoiled"
"""How the journal's key begins of a rung that spoiled CUDA in its process."""


class Spoiled(Exception):
    """A kernel did what no call of CUDA in this process recovers from.

    cell: of its rung; None where it was a peak's. run: what was measured until then.
    """

    def __init__(self, reason: str, cell: Cell | None = None) -> None:
        super().__init__(reason)
        self.cell = cell
        self.run = Run()

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cell, if there is one."""
        return (self.cell,) if self.cell else ()

    @property
    def key(self) -> str:
        """Names it in the journal."""
        return spoiled_key(self.cell.config["rung"], self.cell.problem) if self.cell else ""


def spoiled_key(rung: str, problem: Problem) -> str:
    """A rung is not run again in the same arithmetic."""
    return f"{SPOILED}/{rung}/{problem.dtype}/{problem.math}"


@dataclass
class CudaClimb(Climb):
    """One run. gates, read: of the tests, as `gate` of `Climb`.

    A kernel that spoils CUDA for the whole process ends it by `Spoiled`, noted in the journal. A run that
    goes on with that journal, in a fresh process, leaves the rung out.
    """

    asked: ladder_cuda_plan.CudaRequest
    provider: ladder_cuda.CudaLadder
    gates: Gates = checked
    read: ReadClocks = read_clocks

    def run(self) -> Iterator[Cell]:
        kept = self.journal.done if self.journal else {}
        left = [p for p in self.asked.problems if key_of(p) not in kept]
        ladder_cuda_compile.ahead(self.chosen(), left)
        try:
            yield from super().run()
        except Spoiled as spoiled:
            if self.journal and spoiled.cell:
                self.journal.append(spoiled.key, [spoiled.cell])
            raise

    def known_to_spoil(self, rung: Rung, problem: Problem) -> str:
        """What the rung did in an earlier process of this run; empty when nothing is known."""
        kept = self.journal.done if self.journal else {}
        return next((cell.skip_reason for cell in kept.get(spoiled_key(rung.name, problem), ())), "")

    def group(self, problem: Problem, rungs: list[Rung], end: float, done: int) -> Group:
        """With the rungs that are meant for this problem."""
        return CudaGroup(self, problem, [r for r in rungs if ladder_cuda.concerns(r, problem)], end, done)

    def chosen(self) -> list[Rung]:
        """The rungs asked for, and cuBLAS always."""
        wanted = self.asked.rungs
        return [
            rung
            for rung in self.provider.rungs()
            if not wanted or rung.name in wanted or rung.name == ladder_cuda.REFERENCE
        ]


def _failed(reason: str) -> GateResult:
    return GateResult(ok=False, failed="error", detail=reason)


class Seen(Watch):
    """The clocks that were read after each round, as one record."""

    def __init__(self, seen: Sequence[Clocks | None]) -> None:
        super().__init__(None)
        self.seen = seen

    def clocks(self, device: str) -> Clocks | None:
        return merged(*self.seen)


@dataclass
class CudaGroup(Group):
    """All rungs on one problem."""

    queued: dict[str, Entry] = field(default_factory=dict)
    """The throughput of every rung that is timed, by its name."""
    rounds: int = ROUNDS
    least_rounds: int = ROUNDS
    peaks: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    seen: list[Clocks | None] = field(default_factory=list)
    """Clocks after each round."""
    lost: bool = False
    """Has a kernel spoiled CUDA in this process?"""

    @property
    def cuda(self) -> CudaClimb:
        """The climb, as what it is."""
        assert isinstance(self.climb, CudaClimb)
        return self.climb

    def _bench(self, operands: Operands) -> Bench:
        seed = self.climb.asked.seed
        settings = Settings(seed=seed, wake_s=WAKE_S, slow_s=WAKE_S, block_s=BLOCK_S)
        shared = ({"cuda": self.problem}, {"cuda": operands}, "pageable", (CPU_MODE,))
        return Bench(*shared, settings, self.climb.clock, self.rng, self.key)  # type: ignore[arg-type]

    def _open(self, rung: Rung, problem: Problem, operands: Operands) -> Candidate:
        state = rung.backend.probe()
        if not state.ok:
            raise Unavailable(state.reason)
        session = rung.backend.open(ladder_cuda.problem_of(rung, problem), operands)
        return Candidate(rung.backend, session, None, (CPU_MODE,))

    def _estimate(self, rung: Rung) -> float:
        """Nothing is assumed before the first run: a small product says nothing about a large one."""
        return 0.0

    def _second_call(self, trial: Trial, entry: Entry, first_s: float) -> float:
        """The first call may load what it runs, cuBLAS's at every size; not that of a kernel seen before."""
        name = trial.rung.name
        known = name != ladder_cuda.REFERENCE and (name, self.problem.dtype) in self.climb.rates
        if known and first_s > SEVERAL_ROUNDS_S:
            return first_s
        return min(first_s, timed(self.climb.clock, entry, 1))

    def _too_slow(self, trial: Trial, run_s: float) -> str:
        left = max(0.0, self.end - self.climb.clock.now())
        if SLOW_CALLS * run_s <= max(SLOW_S, left / SHARE):
            return ""
        return (
            f"a run takes about {run_s:.2g} s, checking and timing it {SLOW_CALLS * run_s:.2g} s: more than "
            f"1/{SHARE} of the {left:.2g} s left for this problem (--time-budget)"
        )

    def _prepare_all(self, bench: Bench, trials: Sequence[Trial]) -> None:
        """Open all rungs, on whatever lies in the device's memory, and check them together."""
        for trial in trials:
            self._prepare(bench, trial)
        self._tell("check of all rungs")
        self._gate([trial for trial in trials if trial.alive])

    def _prepare(self, bench: Bench, trial: Trial) -> None:
        if known := self.cuda.known_to_spoil(trial.rung, self.problem):
            trial.skip, trial.gate = known, _failed(known)
            return
        super()._prepare(bench, trial)
        self._look_at(trial)

    def _look_at(self, trial: Trial) -> None:
        """Spoiled, if what stopped the rung stops every other one too."""
        if trial.skip and (reason := _cuda_driver.device(0).lost()):
            self._end(trial, reason)

    def _end(self, trial: Trial, reason: str) -> None:
        p, self.lost = self.problem, True
        said = f"spoiled CUDA for its whole process at {p.m}x{p.n}x{p.k}: {reason}"
        trial.gate = _failed(said)
        raise Spoiled(f"{trial.rung.name} {said}", self._skipped(trial, said))

    def _close(self, trials: Sequence[Trial]) -> None:
        """Nothing can be freed any more where CUDA is lost: the end of the process does it."""
        if not self.lost:
            super()._close(trials)

    def _check(self, trial: Trial) -> str:
        """All rungs are checked together, when all are open."""
        return ""

    def _time(self, bench: Bench, trials: Sequence[Trial]) -> None:
        for trial in trials:
            self._ready(bench, trial)
        super()._time(bench, [trial for trial in trials if trial.alive])

    def _ready(self, bench: Bench, trial: Trial) -> None:
        """The data that it is timed on, and how many runs make a sample."""
        assert trial.one is not None and trial.entry is not None
        known_s = trial.entry.estimate_s
        entry = Entry(trial.one.session, kind="device", timing="throughput", estimate_s=known_s)
        bench.enter(trial.one.session)
        try:
            trial.one.session.upload()
            calibrate(self.climb.clock, entry, BLOCK_S, bench.settings.takes)
            self.queued[trial.rung.name] = entry
        except Exception as error:
            trial.skip = reason_of(error)
        finally:
            bench.leave()
        self._look_at(trial)

    def _visit(self, bench: Bench, trial: Trial, round_: int) -> None:
        super()._visit(bench, trial, round_)
        self._look_at(trial)

    def _look(self) -> None:
        with contextlib.suppress(Exception):  # whatever a reader raises, the measurement goes on without it
            self.seen.append(self.cuda.read("cuda"))

    def _affords(self, trial: Trial, round_: int) -> bool:
        assert trial.entry is not None
        slow = trial.entry.estimate_s > SEVERAL_ROUNDS_S
        return trial.alive and (round_ < TIMED_RUNS or not slow)

    def _gate(self, trials: Sequence[Trial]) -> None:
        """Those in one arithmetic at a time: cuBLAS may stand there in another."""
        by_problem: dict[Problem, list[Trial]] = {}
        for trial in trials:
            by_problem.setdefault(ladder_cuda.problem_of(trial.rung, self.problem), []).append(trial)
        for group in by_problem.values():
            for trial, found in zip(group, self._gates(group), strict=True):
                trial.gate = found
                if trial.one:
                    trial.one.gate = found
                trial.skip = "" if found.ok else f"gate failed ({found.failed}): {found.detail}"

    def _gates(self, trials: Sequence[Trial]) -> list[GateResult]:
        sessions = [trial.one.session for trial in trials if trial.one]

        def raised(session: Session) -> None:
            if reason := _cuda_driver.device(0).lost():
                self._end(next(t for t in trials if t.one and t.one.session is session), reason)

        return self.cuda.gates(sessions, self.cuda.asked.seed, raised)

    def _take(self, trial: Trial, round_: int) -> None:
        super()._take(trial, round_)
        take(self.climb.clock, self.queued[trial.rung.name], round_)

    def _roof(self, trials: Any) -> None:
        for kind in (self.problem.math, BYTES):
            try:
                found = self.cuda.provider.peak(kind, ROOF_S)
            except CudaError as error:
                self.lost = bool(_cuda_driver.device(0).lost())
                raise Spoiled(f"the peak of {kind}: {error}") from error
            self.peaks.setdefault(kind, []).append((found.per_s, found.instruction))

    def _cells(self, bench: Bench, trial: Trial) -> list[Cell]:
        """Throughput first, then latency; one cell with the reason where there is no time."""
        if trial.one is None or trial.entry is None or trial.skip:
            return [self._skipped(trial, trial.skip)]
        found = []
        for timing, entry in (("throughput", self.queued[trial.rung.name]), ("latency", trial.entry)):
            made = cell(bench, trial.one, entry, CPU_MODE, Seen(self.seen))
            found.append(self._completed(made, trial, timing))
        return found

    def _skipped(self, trial: Trial, reason: str) -> Cell:
        made = super()._skipped(trial, reason)
        return msgspec.structs.replace(made, timing="throughput", calls_from="device")

    def _completed(self, made: Cell, trial: Trial, timing: Any) -> Cell:
        return msgspec.structs.replace(
            made, problem=self.problem, timing=timing, config=self._config(trial) | self._roofs()
        )

    def _roofs(self) -> dict[str, Any]:
        best = {kind: max(seen, default=(0.0, "")) for kind, seen in self.peaks.items()}
        flop_s, instruction = best.get(self.problem.math, (0.0, ""))
        byte_s, _ = best.get(BYTES, (0.0, ""))
        return {"roof_flop_s": flop_s, "roof_instruction": instruction, "roof_byte_s": byte_s}

    def _config(self, trial: Trial) -> dict[str, Any]:
        asked = self.climb.asked
        part = ladder_cuda_plan.part_of(asked, self.problem)  # type: ignore[arg-type]
        computed = ladder_cuda.problem_of(trial.rung, self.problem).math
        model = ladder_cuda.model(trial.rung, self.problem)
        return super()._config(trial) | {"part": part, "computed_in": computed, "flop_per_byte": model}
