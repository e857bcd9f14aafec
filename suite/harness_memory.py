"""Whether the host arrays of a problem fit into the memory that is free, before they are asked for."""

from __future__ import annotations

from pathlib import Path

from backends.arithmetic import ITEMSIZE
from backends.base import Problem

GATE_COPIES = 2.5
"""Sets of the operands that a checked measurement needs at its peak: they, and the references of the gate."""


def available_bytes(root: Path = Path("/")) -> int | None:
    """Free host memory, the smaller of what the kernel and the control group allow; None where unreadable."""
    limits = [_meminfo(root / "proc/meminfo"), _cgroup(root / "sys/fs/cgroup")]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def _meminfo(path: Path) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    found = (line.split() for line in lines if line.startswith("MemAvailable:"))
    return next((int(words[1]) * 1024 for words in found), None)


def _cgroup(folder: Path) -> int | None:
    pairs = (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    )
    for limit, used in pairs:
        try:
            return max(0, int((folder / limit).read_text()) - int((folder / used).read_text()))
        except (OSError, ValueError):
            continue
    return None


def operand_bytes(p: Problem) -> int:
    """Bytes of the host arrays A, B and C."""
    inputs = {"gemm": p.m * p.k + p.k * p.n, "gemv": p.m * p.n + p.n, "vector_add": 2 * p.n, "copy": p.n}
    return ITEMSIZE[p.dtype] * p.batch * (inputs[p.op] + p.c_entries)


def too_large(problem: Problem, gate: bool, available: int | None, beside: Problem | None = None) -> str:
    """The reason why a measurement of `problem` would not fit in `available` bytes; empty when it does.

    beside: what the CPU side computes; its operands count too where they are of another type.
    """
    own = beside is not None and beside.dtype != problem.dtype
    held = operand_bytes(problem) + (operand_bytes(beside) if own and beside else 0)
    need = int(held * (GATE_COPIES if gate else 1.0))
    if available is None or need <= available:
        return ""
    return f"host memory: needs {need / 1e9:.2f} GB, {available / 1e9:.2f} GB are free"
