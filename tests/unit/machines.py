"""Simulated machines with a known crossover, measured by the whole engine on the null backend.

The engine is the real one, from the loop over visits to the verdicts; only what backends cost and the clock
are false. A visit takes a second or so of that clock, as a real one does, whatever its samples take.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from backends.base import Problem
from backends.null import NullBackend
from suite.analysis.controls import run_resolution
from suite.analysis.crossover import Crossover, Point, crossover, points, resolutions
from suite.analysis.ratio import Ratio
from suite.harness import Settings, measure_group
from suite.record import Cell, Clocks
from suite.request import Request
from suite.search import Grid
from suite.sweep import Measuring

MODE = ("resident", 1)

COARSE = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)

VISIT_S = 1.0
"""What a visit takes: waking, opening, rounds."""

CALLS = 2
"""In a sample of the quicker side; noise and tails are those of a sample."""

SLOW = 1.3
"""How much slower a held-down clock makes a side."""


@dataclass
class Machine:
    """CPU time a + n**3 / p; GPU time latency + n**3 / q; equal at `truth`. noise: relative, lognormal.

    drift: relative amplitude of a slow wave in the speed of one side, of a period between 3 and 300 visits.
    tails: chance of a sample several times too long. throttle: part of the time in which one side is SLOW, in
    spells between a fifth of a visit and five visits; half the machines have clocks that say so. flip: a
    size at which the losing side is four times faster.
    """

    seed: int
    noise: float
    truth: float = 0.0
    drift: float = 0.0
    tails: float = 0.0
    throttle: float = 0.0
    flip: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        if not self.truth:
            self.truth = math.exp(self.rng.uniform(math.log(40), math.log(3000)))
        self.pace, self.elapsed_s, self.visits = Pace(self), 0.0, 0
        self.phase = self.rng.uniform(0, 6.28)
        self.period_s = VISIT_S * math.exp(self.rng.uniform(math.log(3), math.log(300)))
        self.drifting = self.rng.choice(["cpu", "cuda"])
        self.throttling = self.rng.choice(["cpu", "cuda"])
        self.readable = self.rng.random() < 0.5
        self.slow_until = self.calm_until = 0.0
        self.cpu_rate = 2e10
        self.speedup = self.rng.uniform(3, 60)
        self.latency = self.cpu(self.truth) - self.truth**3 / (self.cpu_rate * self.speedup)

    def cpu(self, n: float) -> float:
        """Seconds on the CPU."""
        return 1e-6 + n**3 / self.cpu_rate

    def gpu(self, n: float) -> float:
        """Seconds on the GPU, flip left out."""
        return self.latency + n**3 / (self.cpu_rate * self.speedup)

    def ratio(self, n: float) -> float:
        """The true t_cpu / t_gpu."""
        found = self.cpu(n) / self.gpu(n)
        return found if n != self.flip else found / (4.0 * found) if found > 1 else 4.0 / found

    def throttled(self) -> bool:
        """Whether the clock is held down now; spells begin and end with time."""
        if not self.throttle:
            return False
        while self.now() >= self.calm_until:
            length = VISIT_S * math.exp(self.rng.uniform(math.log(0.2), math.log(5)))
            self.slow_until = self.calm_until + length
            calm = self.rng.expovariate(self.throttle / (1 - self.throttle) / length)
            self.slow_until, self.calm_until = self.calm_until + calm, self.calm_until + calm + length
        return self.now() >= self.slow_until

    def now(self) -> float:
        """Seconds since the start, the same for each sample of a visit whatever it takes."""
        return self.elapsed_s

    def _noisy(self, seconds: float, device: str) -> float:
        if self.drift and device == self.drifting:
            seconds *= 1 + self.drift * math.sin(self.phase + 6.283 * self.now() / self.period_s)
        if device == self.throttling and self.throttled():
            seconds *= SLOW
        seconds *= self.rng.lognormvariate(0.0, self.noise * math.sqrt(CALLS)) if self.noise else 1.0
        if self.tails and self.rng.random() < self.tails / CALLS:
            seconds *= 1.0 + CALLS * self.rng.paretovariate(1.5)
        return seconds

    def cpu_time(self, problem: Problem, transfer: str, reuse: int, index: int) -> float:
        return self._noisy(self.cpu(problem.m), "cpu")

    def gpu_time(self, problem: Problem, transfer: str, reuse: int, index: int) -> float:
        n = problem.m
        return self._noisy(self.cpu(n) / self.ratio(n), "cuda")

    def read_clocks(self, device: str) -> Clocks | None:
        """What NVML and cpufreq would say, where they can be read."""
        if not self.readable:
            return None
        slow = device == self.throttling and self.throttled()
        return Clocks(before_mhz=round(1980 / SLOW) if slow else 1980, nominal_mhz=1980)

    def backends(self) -> list[NullBackend]:
        """One a side."""
        return [
            NullBackend("cpu", "cpu", self.cpu_time, clock=self.pace, compute=False, empty_s=1.0),
            NullBackend("gpu", "cuda", self.gpu_time, clock=self.pace, compute=False, empty_s=1.0),
        ]

    def group(
        self, problem: Problem, memory: str, modes: list, settings: Settings, **about: object
    ) -> list[Cell]:
        """As `harness.measure_group`, without what takes real time only."""
        block_s = 0.95 * CALLS * min(self.cpu(problem.m), self.cpu(problem.m) / self.ratio(problem.m))
        quiet = {"gate": False, "block_s": block_s, "wake_s": 0.0, "group_budget_s": 1e9}
        self.visits += 1
        return measure_group(
            problem, memory, modes, msgspec.structs.replace(settings, **quiet),
            **{**about, "clocks": self.read_clocks, "memory_bytes": 1 << 40, "gate": None},
        )  # type: ignore[arg-type]  # fmt: skip

    def measure(self, size: int, **changes: object) -> list[Cell]:
        """One group, outside of any sweep."""
        problem = Problem(op="gemv", m=size, n=1)
        settings = Settings(**{"seed": self.seed, **changes})  # type: ignore[arg-type]
        return self.group(problem, "pageable", [MODE], settings, backends=self.backends(), clock=self.pace)

    def sweep(self, sizes: Iterable[int]) -> Crossover:
        """The answer of a sweep without noise: the definition applied to the true ratios."""
        return crossover([Point(n, truly(self.ratio(n))) for n in sizes], spacing=2.0)

    def contradicted_by(self, point: Point) -> bool:
        """Whether a verdict is the wrong one."""
        return point.ratio.verdict not in ("win" if self.ratio(point.size) > 1 else "loss", "undecided")

    def step(self, low: int) -> float:
        """How narrow a band that begins here is asked to be: the resolution, or one step of the grid."""
        grid = Grid(coarse=COARSE)
        return max(grid.resolution * low, grid.step_at(low))


@dataclass
class Truth:
    """What the definition makes of the ratios themselves: between these two sizes the crossing lies."""

    kind: str
    low: float
    high: float

    def held_by(self, found: Crossover) -> bool:
        """Whether a reported band holds it."""
        low, high = found.band[0] or 0, found.band[1] or math.inf
        if self.low == self.high:
            return low <= self.low <= high
        return found.kind == self.kind and low < self.high and self.low < high


def truths(machine: Machine) -> Truth:
    """The crossing itself; where a flip moves the answer of every sweep, that of a sweep without noise."""
    if machine.flip:
        full = machine.sweep(sorted({*COARSE, *range(8, 4097, 8), machine.flip}))
        low, high = full.band[0] or 0, full.band[1] or math.inf
        if not low <= machine.truth <= high or full.kind != "crosses":
            return Truth(full.kind, low, high)
    return Truth("crosses", machine.truth, machine.truth)


def truly(ratio: float) -> Ratio:
    """A ratio known for sure."""
    return Ratio(ratio, ratio, ratio, "win" if ratio > 1 else "loss")


def search(machine: Machine, budget_s: float = 60.0, **asked: object) -> Crossover:
    """The crossover as the engine finds it; `machine.visits` counts what it took."""
    fixed = {"op": "gemv", "shape": "N=1", "sizes": COARSE, "transfers": ("resident",)}
    request = Request(**{**fixed, "time_budget_s": budget_s, "seed": machine.seed, **asked})  # type: ignore[arg-type]
    outcome = Measuring(
        request, machine.backends(), clock=machine.pace, now=machine.now, measure=machine.group
    ).run()  # type: ignore[arg-type]
    limit = run_resolution(list(resolutions(outcome.cells).values()))
    found = points(outcome.cells, *MODE, lambda p: p.m)
    return crossover(found, spacing=request.grid.spacing, resolution=limit.ratio)


class Pace:
    """The clock of a machine's samples. Simulated time goes on at one pace, whatever a size takes."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.at = machine, 0.0

    def advance(self, seconds: float) -> None:
        self.at += seconds
        self.machine.elapsed_s += VISIT_S / SAMPLES

    spin = advance

    def now(self) -> float:
        return self.at

    def cpu(self) -> float:
        return self.at

    def resolution(self) -> float:
        return 1e-12


SAMPLES = 400
"""About as many calls a visit makes."""
