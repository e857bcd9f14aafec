"""A backend in a package of its own: NumPy's einsum loops, without any BLAS.

The entry point in pyproject.toml names `load`; nothing in gemm-crossover has to be edited.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backends.base import Availability, Backend, Problem, Session, SessionInfo, require
from backends.operands import Operands


class EinsumSession(Session):
    """Holds the prepared arguments, so that `run` does nothing but compute."""

    def __init__(self, problem: Problem, operands: Operands) -> None:
        super().__init__(problem, operands, SessionInfo(kernel="einsum", threads=1))
        self._a = operands.a.T if problem.trans_a else operands.a
        self._b = operands.b.T if problem.trans_b else operands.b
        self._terms = "ik,kj->ij" if problem.op == "gemm" else "ij,j->i"

    def run(self) -> None:
        """C = alpha * op(A) @ op(B) + beta * C by the BLAS rules for alpha = 0 and beta = 0."""
        p, c = self.problem, self.operands.c
        scalar = c.dtype.type
        if p.beta == 0:
            c.fill(0)
        else:
            c *= scalar(p.beta)
        if p.alpha != 0:
            c += scalar(p.alpha) * np.einsum(self._terms, self._a, self._b, optimize=False)


class EinsumBackend(Backend):
    """Matrix and matrix-vector products in float32 and float64 on one thread."""

    name = "einsum"
    device = "cpu"

    def probe(self) -> Availability:
        """Available wherever NumPy is."""
        return Availability(ok=True, detail={"numpy": np.__version__})

    def supports(self, problem: Problem) -> str | None:
        """None for gemm and gemv, not batched, in the arithmetic of their own type."""
        if problem.op not in ("gemm", "gemv") or problem.batch != 1:
            return f"einsum computes single gemm and gemv, not {problem.op} with batch {problem.batch}"
        if problem.math not in ("fp32", "fp64"):
            return f"einsum computes in fp32 and fp64, not {problem.math}"
        return None

    def open(self, problem: Problem, operands: Operands, **_: Any) -> Session:
        """Bind the arrays; there is nothing to allocate or compile. Unavailable for what is not supported."""
        require(self, problem)
        return EinsumSession(problem, operands)


def load() -> list[Backend]:
    """What the entry point calls."""
    return [EinsumBackend()]
