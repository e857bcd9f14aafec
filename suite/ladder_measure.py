"""Climbs a ladder: at each size every rung is checked, then all are timed in rounds, with the roof in each.

A rung too slow for the time there is has no time at that size; its cell says how long one product would take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from backends.base import Problem, Session, Unavailable
from backends.operands import Operands, allocate, fill_random

from . import gate, harness_memory
from .clock import Clock, PerfClock
from .harness_candidates import Candidate
from .harness_cells import cell
from .harness_rounds import Watch
from .harness_sample import Entry, calibrate, take, timed
from .harness_settings import CPU_MODE, Bench, Settings, reason_of
from .journal import Journal
from .ladder import Provider, Rung
from .record import Cell, GateResult, group_key
from .reference import ReferenceCache

PROBE = 128
"""Size at which a rung is first tried: its time there says whether a larger one can be afforded."""

ROUNDS = 8
TIMED_RUNS = 2
"""Rounds that must at least be paid for."""

ROOF_S = 0.02


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to climb: square products of every size, for every type. threads: see `Provider.threads`."""

    device: str = "cpu"
    sizes: tuple[int, ...] = (64, 256, 512, 1024)
    dtypes: tuple[str, ...] = ("float32",)
    rungs: tuple[str, ...] = ()
    threads: int | None = None
    time_budget_s: float = 30.0
    seed: int = 0

    @property
    def problems(self) -> list[Problem]:
        """Smallest first, all types of one size together."""
        return [Problem(m=s, n=s, k=s, dtype=dtype) for s in self.sizes for dtype in self.dtypes]


class Step(msgspec.Struct, frozen=True):
    """Progress: what is being done, in which of so many groups."""

    text: str
    done: int
    total: int


def key_of(problem: Problem) -> str:
    """Names the group of a problem."""
    return group_key(problem, "pageable")


Gate = Callable[[Session, int, ReferenceCache], GateResult]


def check(session: Session, seed: int, cache: ReferenceCache) -> GateResult:
    """`gate.check` with the references of a problem shared by all rungs."""
    return gate.check(session, seed=seed, cache=cache)


@dataclass
class Climb:
    """One run. gate, clock: of the tests; tell: told of every step.

    journal: keeps every group when it is whole, and has those that an earlier run measured.
    """

    asked: Request
    provider: Provider
    gate: Gate = check
    clock: Clock = field(default_factory=PerfClock)
    tell: Callable[[Step], None] | None = None
    journal: Journal | None = None
    rates: dict[tuple[str, str], float] = field(default_factory=dict)
    """FLOP/s of a rung for a type, at the size tried last."""

    def run(self) -> Iterator[Cell]:
        """The cells of every problem, in the order of the ladder."""
        rungs = self.chosen()
        end = self.clock.now() + self.asked.time_budget_s
        kept = self.journal.done if self.journal else {}
        left = len([p for p in self.asked.problems if key_of(p) not in kept])
        for done, problem in enumerate(self.asked.problems):
            key = key_of(problem)
            if key in kept:
                yield from kept[key]
                continue
            now = self.clock.now()
            cells = self.group(problem, rungs, now + max(0.0, end - now) / left, done).measure()
            left -= 1
            if self.journal:
                self.journal.append(key, cells)
            yield from cells

    def group(self, problem: Problem, rungs: list[Rung], end: float, done: int) -> Group:
        """What measures one problem; `end` and `done` as in `Group`."""
        return Group(self, problem, rungs, end, done)

    def chosen(self) -> list[Rung]:
        """The rungs asked for, all when none was named."""
        wanted = self.asked.rungs
        return [rung for rung in self.provider.rungs() if not wanted or rung.name in wanted]


@dataclass
class Trial:
    """A rung at one size: open, checked, timed; or the reason why not."""

    rung: Rung
    one: Candidate | None = None
    entry: Entry | None = None
    gate: GateResult | None = None
    skip: str = ""

    @property
    def alive(self) -> bool:
        """Is it to be timed?"""
        return self.entry is not None and not self.skip


@dataclass
class Group:
    """All rungs on one problem. end: when the clock says that the next problem's time begins."""

    climb: Climb
    problem: Problem
    rungs: Sequence[Rung]
    end: float
    number: int
    roofs: dict[int, list[float]] = field(default_factory=dict)
    rounds: int = ROUNDS
    least_rounds: int = TIMED_RUNS
    """Made even when the time is over."""

    def __post_init__(self) -> None:
        asked = self.climb.asked
        self.key = key_of(self.problem)
        self.rng = Random(f"{asked.seed}/{self.key}")
        self.cache = ReferenceCache()

    def measure(self) -> list[Cell]:
        """One cell for each rung."""
        trials = [Trial(rung) for rung in self.rungs]
        too_large = harness_memory.too_large(self.problem, True, harness_memory.available_bytes())
        if too_large:
            return [self._skipped(trial, too_large) for trial in trials]
        try:
            operands = allocate(self.problem)
        except Unavailable as error:  # as bfloat16 without ml_dtypes: the other types are climbed
            return [self._skipped(trial, str(error)) for trial in trials]
        bench = self._bench(operands)
        try:
            self._prepare_all(bench, trials)
            fill_random(operands, self.climb.asked.seed)
            self._time(bench, [trial for trial in trials if trial.alive])
            return [cell for trial in trials for cell in self._cells(bench, trial)]
        finally:
            self._close(trials)

    def _close(self, trials: Sequence[Trial]) -> None:
        for trial in trials:
            if trial.one:
                trial.one.close()

    def _bench(self, operands: Operands) -> Bench:
        device = self.climb.provider.device
        settings = Settings(seed=self.climb.asked.seed)
        shared = ({device: self.problem}, {device: operands}, "pageable", (CPU_MODE,))
        return Bench(*shared, settings, self.climb.clock, self.rng, self.key)  # type: ignore[arg-type]

    # --- opening, checking ---------------------------------------------------------------------------

    def _prepare_all(self, bench: Bench, trials: Sequence[Trial]) -> None:
        fill_random(bench.operands[self.climb.provider.device], self.climb.asked.seed)
        for trial in trials:
            self._prepare(bench, trial)

    def _prepare(self, bench: Bench, trial: Trial) -> None:
        """Open the rung, look what a run costs, check its result; `trial.skip` says what stood against it."""
        self._tell(f"{trial.rung.name}: check")
        try:
            trial.skip = self._too_slow(trial, self._estimate(trial.rung))
            if trial.skip:
                return
            trial.one = self._open(trial.rung, self.problem, bench.operands[self.climb.provider.device])
            entry = Entry(trial.one.session, kind=_kind(trial.one.session))
            bench.enter(trial.one.session)
            trial.one.first_call_s = timed(self.climb.clock, entry, 1)
            entry.estimate_s = self._second_call(trial, entry, trial.one.first_call_s)
            self._learn(trial.rung, self.problem, entry.estimate_s)
            trial.skip = self._too_slow(trial, entry.estimate_s) or self._check(trial)
            if not trial.skip:
                calibrate(self.climb.clock, entry, bench.settings.block_s, bench.settings.takes)
                trial.entry = entry
        except Exception as error:
            trial.skip = reason_of(error)
        finally:
            bench.leave()

    def _second_call(self, trial: Trial, entry: Entry, first_s: float) -> float:
        """Seconds of one run, as far as the first has shown: here what comes first counts."""
        return first_s

    def _open(self, rung: Rung, problem: Problem, operands: Operands) -> Candidate:
        threads = rung.threads or self.climb.provider.threads(self.climb.asked.threads)
        session = rung.backend.open(problem, operands, threads=threads)
        return Candidate(rung.backend, session, threads, (CPU_MODE,))

    def _estimate(self, rung: Rung) -> float:
        """Seconds of one run, from the size before or from a small one."""
        known = (rung.name, self.problem.dtype)
        if known not in self.climb.rates:
            self._probe(rung)
        return self.problem.flops / self.climb.rates[known]

    def _probe(self, rung: Rung) -> None:
        size = min(PROBE, self.problem.m)
        small = msgspec.structs.replace(self.problem, m=size, n=size, k=size)
        operands = allocate(small)
        fill_random(operands, self.climb.asked.seed)
        one = self._open(rung, small, operands)
        try:
            one.session.activate()
            entry = Entry(one.session, kind=_kind(one.session))
            self._learn(rung, small, min(timed(self.climb.clock, entry, 1) for _ in range(3)))
            one.session.quiesce()
        finally:
            one.close()

    def _learn(self, rung: Rung, problem: Problem, seconds: float) -> None:
        least = self.climb.clock.resolution()
        self.climb.rates[rung.name, problem.dtype] = problem.flops / max(seconds, least)

    def _too_slow(self, trial: Trial, run_s: float) -> str:
        """Checks and two rounds may take half of the time left to this size."""
        runs = len(gate.trials(gate.Setting(self.problem), False)) + TIMED_RUNS
        left = max(0.0, self.end - self.climb.clock.now())
        if runs * run_s <= left / 2 or run_s <= 0.002:
            return ""
        return (
            f"a product takes about {run_s:.2g} s, checking and timing it {runs * run_s:.2g} s: more than "
            f"half of the {left:.2g} s left for this size (--time-budget)"
        )

    def _check(self, trial: Trial) -> str:
        assert trial.one is not None
        trial.gate = trial.one.gate = self.climb.gate(trial.one.session, self.climb.asked.seed, self.cache)
        return "" if trial.gate.ok else f"gate failed ({trial.gate.failed}): {trial.gate.detail}"

    # --- timing --------------------------------------------------------------------------------------

    def _time(self, bench: Bench, trials: Sequence[Trial]) -> None:
        """Rounds until there are enough, or the time of this size is over; two at least."""
        clock, longest = self.climb.clock, 0.0
        for round_ in range(self.rounds):
            start = clock.now()
            if round_ >= self.least_rounds and start + longest > self.end:
                return
            self._tell(f"round {round_ + 1} of {self.rounds}")
            self._roof(trials)
            order = [trial for trial in trials if self._affords(trial, round_)]
            self.rng.shuffle(order)
            for trial in order:
                self._visit(bench, trial, round_)
            self._look()
            longest = max(longest, clock.now() - start)

    def _look(self) -> None:
        """At the clocks, after a round."""

    def _affords(self, trial: Trial, round_: int) -> bool:
        """A slow rung does not keep the others from their rounds: it is left out of the later ones."""
        assert trial.entry is not None
        return trial.alive and (round_ < TIMED_RUNS or trial.entry.estimate_s < 0.25)

    def _visit(self, bench: Bench, trial: Trial, round_: int) -> None:
        entry, settings = trial.entry, bench.settings
        assert entry is not None
        bench.enter(entry.session)
        try:
            self._wake(entry, settings)
            self._take(trial, round_)
        except Exception as error:
            trial.skip = reason_of(error)
        finally:
            bench.leave()

    def _take(self, trial: Trial, round_: int) -> None:
        assert trial.entry is not None
        take(self.climb.clock, trial.entry, round_)

    def _wake(self, entry: Entry, settings: Settings) -> None:
        """Untimed runs after the switch, for clocks and pools; a slow rung needs none."""
        start = self.climb.clock.now()
        while entry.estimate_s < settings.slow_s:
            timed(self.climb.clock, entry, entry.inner)
            if self.climb.clock.now() - start >= settings.wake_s:
                return

    def _roof(self, trials: Sequence[Trial]) -> None:
        counts = {trial.one.threads or 1 for trial in trials if trial.one}
        for threads in sorted(counts):
            rate = self.climb.provider.roof_flop_s(self.problem.dtype, threads, ROOF_S)
            self.roofs.setdefault(threads, []).append(rate)

    # --- cells ---------------------------------------------------------------------------------------

    def _cells(self, bench: Bench, trial: Trial) -> list[Cell]:
        """What there is to say of one rung: its time, or the reason why it has none."""
        if trial.one is None or trial.entry is None or trial.skip:
            return [self._skipped(trial, trial.skip)]
        found = cell(bench, trial.one, trial.entry, CPU_MODE, Watch(None))
        roof = max(self.roofs.get(trial.one.threads or 1, [0.0]))
        return [msgspec.structs.replace(found, config=self._config(trial) | {"roof_flop_s": roof})]

    def _skipped(self, trial: Trial, reason: str) -> Cell:
        return Cell(
            problem=self.problem,
            backend=trial.rung.backend.name,
            device=self.climb.provider.device,
            gate=trial.gate,
            config=self._config(trial),
            verified=trial.rung.backend.verified,
            calls_from="c",
            skip_reason=reason,
            group=self.key,
        )

    def _config(self, trial: Trial) -> dict[str, Any]:
        info = trial.one.session.info.config if trial.one else {}
        return {"rung": trial.rung.name, **info}

    def _tell(self, text: str) -> None:
        if self.climb.tell:
            where = f"{self.problem.dtype} {self.problem.m}: {text}"
            self.climb.tell(Step(where, self.number, len(self.climb.asked.problems)))


def _kind(session: Session) -> Any:
    """Timed inside C where the session can, else from Python."""
    return "python" if type(session).run_from_c is Session.run_from_c else "c"
