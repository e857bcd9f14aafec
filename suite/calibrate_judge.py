"""Judges a calibrated model at sizes and shapes that nobody fitted: what `calibrate --judge` times.

Squares between those of the fit, and shapes that squares know nothing of: outer, tall, wide and deep
products, one of three odd dimensions, a batch of small ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from backends.base import Backend, Problem

from . import calibrate, harness, plan
from .analysis.calibration import observed
from .analysis.model import Model
from .calibrate import MODES, Asked
from .clock import Clock
from .record import Cell
from .request import candidates

SQUARES = {"gemm": (64, 136, 264, 560, 1496), "gemv": (256, 1000, 3000, 6000)}

SHAPES: dict[str, tuple[tuple[str, int, int, int, int], ...]] = {
    "gemm": (
        ("outer", 2048, 2048, 32, 1),
        ("tall", 32768, 32, 32, 1),
        ("inner", 32, 32, 32768, 1),
        ("deep", 256, 256, 4096, 1),
        ("odd", 3000, 700, 90, 1),
        ("batch of 64", 32, 32, 32, 64),
    ),
    "gemv": (("tall", 65536, 32, 1, 1), ("wide", 32, 65536, 1, 1)),
}
"""Name, M, N, K, batch."""


class Told(NamedTuple):
    """One held-out problem on one side in one mode: its measured time and the predicted one, in seconds."""

    shape: str
    problem: Problem
    host_memory: str
    device: str
    transfer: str
    reuse: int
    measured_s: float
    predicted_s: float

    @property
    def off(self) -> float:
        """Relative error of the prediction."""
        return abs(self.predicted_s / self.measured_s - 1)


def problems(op: str, dtype: str) -> dict[Problem, str]:
    """Each with the name of its shape."""
    square = {
        Problem(op=op, m=n, n=n, k=n if op == "gemm" else 1, dtype=dtype): "square"  # type: ignore[arg-type]
        for n in SQUARES[op]
    }
    others = {
        Problem(op=op, m=m, n=n, k=k, batch=batch, dtype=dtype): name  # type: ignore[arg-type]
        for name, m, n, k, batch in SHAPES[op]
    }
    return square | others


def measure(
    asked: Asked,
    chosen: Sequence[Backend] = (),
    *,
    clock: Clock | None = None,
    tell: Callable[[str, int, int], None] | None = None,
    now: Callable[[], float] = time.monotonic,
    of: Callable[[str, str], Iterable[Problem]] = problems,
) -> list[Cell]:
    """The cells of every held-out problem of every row, in `time_budget_s` of timing together."""
    todo = [(problem, memory) for op, dtype, memory in asked.rows for problem in of(op, dtype)]
    found: list[Cell] = []
    start = now()
    for done, (problem, memory) in enumerate(todo):
        if tell is not None:
            tell(
                f"judging: {problem.op} {problem.dtype} {problem.m}x{problem.n}x{problem.k}", done, len(todo)
            )
        share = max(calibrate.LEAST_GROUP_S, (asked.time_budget_s - (now() - start)) / (len(todo) - done))
        how, usable = calibrate.settings(asked, share, controls=False), candidates(problem, chosen)
        found += harness.measure_group(problem, memory, MODES, how, backends=usable, clock=clock)
    return found


def told(model: Model, cells: Iterable[Cell]) -> list[Told]:
    """What the model says of them; problems it has no constants for are left out."""
    found = []
    for (device, op, dtype, _, memory, _), seen in observed(cells).items():
        names = problems(op, dtype)
        for one in seen:
            for (transfer, reuse), seconds in one.seconds.items():
                says = model.predict(one.problem, device, transfer, reuse, memory)  # type: ignore[arg-type]
                if says is not None:
                    about = (one.problem, memory, device, transfer, reuse)
                    found.append(Told(names.get(one.problem, "other"), *about, seconds, says.time_s))
    return found


def crossed(all_told: Sequence[Told]) -> tuple[int, int]:
    """(comparisons in which the model names the quicker side, comparisons in all)."""
    cpu = {(one.problem, one.host_memory): one for one in all_told if one.device == "cpu"}
    right = total = 0
    for one in all_told:
        other = cpu.get((plan.cpu_problem(one.problem), one.host_memory))
        if one.device == "cuda" and other is not None:
            total += 1
            measured = one.reuse * other.measured_s > one.measured_s
            right += measured == (one.reuse * other.predicted_s > one.predicted_s)
    return right, total
