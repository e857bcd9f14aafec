"""Simulated machines with a known crossover, for tests of the whole engine on the null backend."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass

from backends.base import Problem
from backends.null import NullBackend
from suite.analysis.controls import run_resolution
from suite.analysis.crossover import Crossover, crossover, points, resolutions
from suite.clock import FakeClock
from suite.harness import Settings, measure_group
from suite.pooling import pooled
from suite.search import Grid, next_sizes, worth_again
from suite.sweep import MOST_AGAIN, MOST_VISITS

MODE = ("resident", 1)


@dataclass
class Machine:
    """CPU time a + n**3 / p; GPU time latency + n**3 / q; equal at `truth`. noise: relative, lognormal.

    drift: relative amplitude of a slow wave in the GPU's speed. tails: chance of a sample several times too
    long. throttle: chance of being in a slow spell (1.3 times) for a while. flip: a size where the CPU is
    much faster than the GPU.
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
        self.clock = FakeClock()
        self.slow_left = 0
        self.phase = self.rng.uniform(0, 6.28)
        self.cpu_rate = 2e10
        self.speedup = self.rng.uniform(3, 60)
        self.latency = self.cpu(self.truth) - self.truth**3 / (self.cpu_rate * self.speedup)

    def cpu(self, n: float) -> float:
        return 1e-6 + n**3 / self.cpu_rate

    def gpu(self, n: float) -> float:
        return self.latency + n**3 / (self.cpu_rate * self.speedup)

    def ratio(self, n: float) -> float:
        """The true t_cpu / t_gpu, flips left out."""
        return self.cpu(n) / self.gpu(n)

    def _noisy(self, seconds: float) -> float:
        seconds *= self.rng.lognormvariate(0.0, self.noise) if self.noise else 1.0
        if self.tails and self.rng.random() < self.tails:
            seconds *= 1.0 + self.rng.paretovariate(1.5)
        return seconds

    def cpu_time(self, problem: Problem, transfer: str, reuse: int, index: int) -> float:
        n = problem.m
        return self._noisy(self.cpu(n))

    def gpu_time(self, problem: Problem, transfer: str, reuse: int, index: int) -> float:
        n = problem.m
        seconds = self.gpu(n) * (4.0 * self.ratio(n) if n == self.flip else 1.0)
        if self.drift:
            seconds *= 1 + self.drift * math.sin(
                self.phase + self.clock.true_s / (300 * self.cpu(self.truth))
            )
        if self.throttle:
            if not self.slow_left and self.rng.random() < self.throttle / 10:
                self.slow_left = 10
            if self.slow_left:
                self.slow_left -= 1
                seconds *= 1.3
        return self._noisy(seconds)

    def measure(self, size: int, **changes: object) -> list:
        options = {"gate": False, "block_s": 0.0, "wake_s": 0.0, "group_budget_s": 1e9, "seed": self.seed}
        settings = Settings(**{**options, **changes})  # type: ignore[arg-type]
        backends = [
            NullBackend("cpu", "cpu", self.cpu_time, clock=self.clock, compute=False),
            NullBackend("gpu", "cuda", self.gpu_time, clock=self.clock, compute=False),
        ]
        problem = Problem(op="gemv", m=size, n=1)
        return measure_group(
            problem, "pageable", [MODE], settings, backends=backends, clock=self.clock, clocks=None,
            memory_bytes=1 << 40,
        )  # fmt: skip


def search(machine: Machine, grid: Grid, **changes: object) -> tuple[Crossover, int]:
    """The crossover as the adaptive search finds it, and how many groups it measured."""
    verdicts: dict[int, tuple[str, ...]] = {}
    groups: dict[int, list] = {}
    visits: Counter[int] = Counter()
    while sizes := next_sizes(grid, verdicts) or _again(verdicts, visits):
        for size in sizes:
            group = machine.measure(size, **changes)
            groups[size] = pooled(groups[size], group) if size in groups else group
            visits[size] += 1
            verdicts[size] = tuple(p.ratio.verdict for p in points(groups[size], *MODE, lambda p: p.m))
    cells = [cell for group in groups.values() for cell in group]
    limit = run_resolution(list(resolutions(cells).values()))
    found = points(cells, *MODE, lambda p: p.m)
    return crossover(found, spacing=grid.spacing, resolution=limit.ratio), visits.total()


def _again(verdicts: dict[int, tuple[str, ...]], visits: Counter[int]) -> list[int]:
    if visits.total() - len(visits) >= MOST_AGAIN:
        return []
    return sorted((s for s in worth_again(verdicts) if visits[s] < MOST_VISITS), key=visits.__getitem__)[:1]
