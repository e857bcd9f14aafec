"""Climbs the GPU's ladder: all rungs checked, then timed in rounds both ways, with the peaks in each round.

Throughput is what a rate is made of: runs straight after each other, replayed from a graph and timed by the
device. Latency stands beside it: one launch from Python, and the wait for its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from backends._cuda_peaks import BYTES
from backends.base import Problem, Session, Unavailable
from backends.operands import Operands

from . import gate, ladder_cuda, ladder_cuda_plan
from .harness_candidates import Candidate
from .harness_cells import cell
from .harness_rounds import Watch
from .harness_sample import Entry, calibrate, take, timed
from .harness_settings import CPU_MODE, Bench, Settings, reason_of
from .ladder import Rung
from .ladder_measure import TIMED_RUNS, Climb, Group, Trial
from .record import Cell, GateResult

ROOF_S = 0.004
WAKE_S = 0.002
"""All sides are the same GPU: its clocks never fall asleep between two of them."""

BLOCK_S = 0.002
LATENCY_BLOCK_S = 0.001
ROUNDS = 6
"""The fewest that an interval can be made of without assuming a distribution; there are many problems."""

SLOW_S = 1.0
"""Seconds for all checks and two rounds of a rung, up to which it is never too slow."""

SEVERAL_ROUNDS_S = 0.05
"""A run that takes longer is timed in two rounds alone."""


Gates = Callable[[list[Session], int], list[GateResult]]


def checked(sessions: list[Session], seed: int) -> list[GateResult]:
    """`gate.check_all`."""
    return gate.check_all(sessions, seed=seed)


@dataclass
class CudaClimb(Climb):
    """One run. gates: of the tests, as `gate` of `Climb`."""

    asked: ladder_cuda_plan.CudaRequest
    provider: ladder_cuda.CudaLadder
    gates: Gates = checked

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


@dataclass
class CudaGroup(Group):
    """All rungs on one problem."""

    queued: dict[str, Entry] = field(default_factory=dict)
    """The throughput of every rung that is timed, by its name."""
    rounds: int = ROUNDS
    peaks: dict[str, list[tuple[float, str]]] = field(default_factory=dict)

    def _bench(self, operands: Operands) -> Bench:
        seed = self.climb.asked.seed
        settings = Settings(seed=seed, wake_s=WAKE_S, slow_s=WAKE_S, block_s=LATENCY_BLOCK_S)
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

    def _second_call(self, entry: Entry, first_s: float) -> float:
        """The first call of a kernel or library loads it."""
        return min(first_s, timed(self.climb.clock, entry, 1))

    def _too_slow(self, trial: Trial, run_s: float) -> str:
        runs = len(gate.trials(gate.Setting(self.problem), True)) + TIMED_RUNS
        return "" if runs * run_s <= SLOW_S else super()._too_slow(trial, run_s)

    def _prepare_all(self, bench: Bench, trials: Sequence[Trial]) -> None:
        """Open all rungs, on whatever lies in the device's memory, and check them together."""
        for trial in trials:
            self._prepare(bench, trial)
        self._tell("check of all rungs")
        self._gate([trial for trial in trials if trial.alive])

    def _check(self, trial: Trial) -> str:
        """All rungs are checked together, when all are open."""
        return ""

    def _time(self, bench: Bench, trials: Sequence[Trial]) -> None:
        for trial in trials:
            self._ready(bench, trial)
        super()._time(bench, [trial for trial in trials if trial.alive])

    def _ready(self, bench: Bench, trial: Trial) -> None:
        """The data that it is timed on, and how many runs make a sample."""
        assert trial.one is not None
        entry = Entry(trial.one.session, kind="device", timing="throughput")
        bench.enter(trial.one.session)
        try:
            trial.one.session.upload()
            calibrate(self.climb.clock, entry, BLOCK_S, bench.settings.takes)
            self.queued[trial.rung.name] = entry
        except Exception as error:
            trial.skip = reason_of(error)
        finally:
            bench.leave()

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
            sessions = [trial.one.session for trial in group if trial.one]
            for trial, found in zip(group, self._gates(sessions), strict=True):
                trial.gate = found
                if trial.one:
                    trial.one.gate = found
                trial.skip = "" if found.ok else f"gate failed ({found.failed}): {found.detail}"

    def _gates(self, sessions: list[Session]) -> list[GateResult]:
        climb = self.climb
        assert isinstance(climb, CudaClimb)
        return climb.gates(sessions, climb.asked.seed)

    def _take(self, trial: Trial, round_: int) -> None:
        super()._take(trial, round_)
        take(self.climb.clock, self.queued[trial.rung.name], round_)

    def _roof(self, trials: Any) -> None:
        for kind in (self.problem.math, BYTES):
            found = self.climb.provider.peak(kind, ROOF_S)  # type: ignore[attr-defined]
            self.peaks.setdefault(kind, []).append((found.per_s, found.instruction))

    def _cells(self, bench: Bench, trial: Trial) -> list[Cell]:
        """Throughput first, then latency; one cell with the reason where there is no time."""
        if trial.one is None or trial.entry is None or trial.skip:
            return [self._skipped(trial, trial.skip)]
        found = []
        for timing, entry in (("throughput", self.queued[trial.rung.name]), ("latency", trial.entry)):
            made = cell(bench, trial.one, entry, CPU_MODE, Watch(None))
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
