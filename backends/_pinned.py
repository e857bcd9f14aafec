"""Sessions of libraries whose thread count is state of the process: in force for a turn, then put back."""

from __future__ import annotations

from typing import Protocol

from .base import Problem, Session, SessionInfo
from .cpus import allowed_cpus, wait_until_quiet
from .operands import Operands


class Threads(Protocol):
    """How a library is asked for its number of threads, and told another."""

    def get(self) -> int:
        """Threads in force."""

    def swap(self, count: int) -> int:
        """Put `count` in force; returns what a later `swap` puts back."""


def in_force(control: Threads | None, asked: int | None) -> int | None:
    """Threads the library would really use: at most the CPUs allowed, and what it was built for.

    1 for a library that cannot be told; None where none were asked for.
    """
    if asked is None or control is None:
        return asked and 1
    before = control.swap(min(asked, allowed_cpus()))
    try:
        return control.get()
    finally:
        control.swap(before)


class PinnedSession(Session):
    """`activate` puts `threads` in force; `quiesce` waits until the library's threads sleep, and puts back
    what stood before. Without a control or a number the library is left as it is.
    """

    def __init__(
        self,
        problem: Problem,
        operands: Operands,
        info: SessionInfo,
        control: Threads | None,
        threads: int | None,
    ) -> None:
        super().__init__(problem, operands, info)
        self._control, self._threads = control, threads
        self._before: int | None = None

    def activate(self) -> None:
        if self._control is not None and self._threads is not None and self._before is None:
            self._before = self._control.swap(self._threads)

    def quiesce(self) -> None:
        if self._control is not None and self._before is not None:
            if self._control.get() > 1:
                wait_until_quiet()
            self._control.swap(self._before)
            self._before = None

    def observed_threads(self) -> int | None:
        return None if self._control is None else self._control.get()

    def close(self) -> None:
        self.quiesce()
