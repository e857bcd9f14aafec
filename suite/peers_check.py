"""Whether a library's result is right, before its time counts: rows against float64, all of C against ours.

By the bound of the gate (`suite.gate`): |error| <= min(2 (K + 3), 16) u |A||B| on centred random data.
Operands lie within 1/2 of 0, so that |A||B| is at most K / 4 and about K / 16: one product lost among 4096 is
thirty times too much in float32.
"""

from __future__ import annotations

import numpy as np

from backends.arithmetic import MATHS
from backends.base import Problem
from backends.operands import Operands

from .record import GateResult

ROWS = 6
CENTRED = 16
ROUNDINGS = 2
"""What is compared has been rounded on both sides."""

BLOCK = 1 << 20
"""Elements compared at once."""


class Reference:
    """Rows of a product in float64, and how wrong a result may be."""

    def __init__(self, problem: Problem, operands: Operands) -> None:
        a, b = operands.a, operands.b
        assert b is not None
        if problem.op == "gemv":
            a, b = a.T if problem.trans_a else a, b[:, None]
        if a.ndim == 3:
            a, b = a[-1], b[-1]
        steps = a.shape[1]
        self.rows = np.unique(np.linspace(0, a.shape[0] - 1, ROWS).astype(int))
        self.expected = np.asarray(a[self.rows], np.float64) @ np.asarray(b, np.float64)
        unit = MATHS[problem.math].u_acc
        self.allowed = ROUNDINGS * min(2 * (steps + 3), CENTRED) * unit * max(steps, 1) / 4

    def judge(self, c: np.ndarray, ours: np.ndarray | None = None) -> GateResult:
        """The verdict on C (of a batch: on its last product); ours: C as the project's own library has it."""
        c = _matrix(c)
        worst = self._worst(c[self.rows], self.expected)
        if ours is not None:
            mine, step = _matrix(ours), max(1, BLOCK // c.shape[1])
            for i in range(0, c.shape[0], step):
                worst = max(worst, self._worst(c[i : i + step], mine[i : i + step]))
        if worst <= 1:
            return GateResult(ok=True, max_error=worst)
        return GateResult(
            ok=False, failed="bound", detail=f"{worst:.3g} times what is allowed", max_error=worst
        )

    def _worst(self, got: np.ndarray, want: np.ndarray) -> float:
        """The largest error in units of the allowed one; infinite where a result is not a number."""
        with np.errstate(invalid="ignore"):
            error = float(np.max(np.abs(got - want), initial=0))
        return error / self.allowed if np.isfinite(error) else float("inf")


def _matrix(c: np.ndarray) -> np.ndarray:
    return c[:, None] if c.ndim == 1 else c[-1] if c.ndim == 3 else c
