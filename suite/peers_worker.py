"""The process in which `peers` measures: `python -m suite.peers_worker`, told what to do on standard input.

It allocates the operands once and then forks: one child holds every library and visits them in turn, every
further child holds one library alone. So all of them read the very same pages of A and B, and none has
another's threads beside it but in the first. The environment that pins instruction sets is in force before
any library is loaded. One JSON line comes in for each round of a group; one goes out, its cells.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import msgspec
import numpy as np

import backends
from backends.base import Problem
from backends.operands import Operands

from .peers_bench import NUMPY, OURS, Bench, Setup, arena, fill, roof_rate
from .peers_plan import Group, Rates, Turn
from .record import Cell

ONE_THREAD = "OPENBLAS_NUM_THREADS"
"""Set to 1 for this process's start, so that NumPy's own library has no threads yet when it forks."""


class Reply(msgspec.Struct):
    """What comes back for a round."""

    cells: tuple[Cell, ...] = ()
    rates: Rates | None = None
    error: str = ""


def rates_of(setup: Setup, memory: Sequence[np.ndarray]) -> Rates:
    """What one thread does in a second, for the plan."""
    a, b = memory
    size = min(a.size, 1 << 24)
    product, vector = (
        Problem(m=64, n=64, k=64, dtype=setup.dtype),
        Problem(op="gemv", n=size, dtype=setup.dtype),
    )
    return Rates(
        flops=roof_rate(Group(product, 1), Operands(a, b, b)),
        bytes_read=roof_rate(Group(vector, 1), Operands(a[:size], b[:1], b)),
    )


def serve(bench: Callable[[], Bench], pipe: Connection) -> None:
    """A child's life: rounds in, cells out."""
    ready = bench()
    while (turn := pipe.recv()) is not None:
        try:
            told, ready.absent = ready.absent if ready.together else [], []
            pipe.send(Reply(tuple(ready.measure(turn)), error="; ".join(told)))
        except Exception as error:
            pipe.send(Reply(error=f"{type(error).__name__}: {' '.join(str(error).split())}"))


class Child:
    """A forked process that holds some libraries; a new one takes the place of one that has died."""

    def __init__(self, setup: Setup, memory: Sequence[np.ndarray], *names: str, together: bool) -> None:
        self.names = names
        self.bench = functools.partial(Bench, setup, memory, names, together)
        self._start()

    def _start(self) -> None:
        fork = multiprocessing.get_context("fork")
        self.pipe, theirs = fork.Pipe()
        self.process = fork.Process(target=serve, args=(self.bench, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, turn: Turn) -> Reply:
        """Its reply; an error where it has died."""
        try:
            self.pipe.send(turn)
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            status = self.process.exitcode
            self._start()
            return Reply(error=f"the process of {', '.join(self.names)} ended with status {status}")


def main() -> None:
    """Read the setup and groups, write replies, until the input ends."""
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what libraries print must not reach the replies
    os.environ.pop(ONE_THREAD, None)
    setup = msgspec.json.decode(sys.stdin.buffer.readline(), type=Setup)
    memory = [arena(count, setup.dtype) for count in setup.elements[:2]]
    for seed, array in enumerate(memory):
        fill(array, setup.seed + seed)
    named = {name: backends.get(name).name for name in setup.libraries}  # before the fork: alike in all
    named[NUMPY] = NUMPY
    together = Child(setup, memory, *setup.libraries, together=True)
    alone = {name: Child(setup, memory, name, together=False) for name in (*setup.libraries, NUMPY)}
    send = functools.partial(_send, out)
    send(Reply(rates=rates_of(setup, memory)))
    for line in sys.stdin.buffer:
        turn = msgspec.json.decode(line, type=Turn)
        kinds = setup.libraries if turn.group.calls_from == "c" else (OURS, NUMPY)
        chosen = [alone[name] for name in kinds if turn.asks(named[name])]
        replies = [child.ask(turn) for child in (together, *chosen)]
        cells = tuple(cell for reply in replies for cell in reply.cells)
        send(Reply(cells, error="; ".join(reply.error for reply in replies if reply.error)))


def _send(out: Any, reply: Reply) -> None:
    out.write(msgspec.json.encode(reply) + b"\n")


if __name__ == "__main__":
    main()
