"""Runs of a session without the cost of launching them: captured once into graphs, which are replayed.

Timed by device events, so that neither Python nor the driver's launch is part of a time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ._cuda_driver import CudaError, Driver

NODES = 128
"""Runs in the graph that is replayed: an event and the gaps between graphs vanish among so many."""

KEPT = 8
"""Graphs kept of one session; the sizes asked for while calibrating are soon forgotten."""


class Replay:
    """Runs of one prepared call, `run`, put into `stream`. Harmless to close twice.

    queued: why runs are launched one by one instead, where no graph can be made of them; else empty.
    """

    def __init__(
        self, driver: Driver, stream: int, run: Callable[[], Any], explain: Callable[[int], Exception]
    ) -> None:
        self.driver, self.stream, self.queued = driver, stream, ""
        self._run, self._explain = run, explain
        self._graphs: dict[int, tuple[int, Callable[[], int]]] = {}
        self._events = [driver.event() for _ in range(2)]

    def seconds(self, count: int) -> float:
        """Of `count` runs, one straight after the other, between two device events."""
        whole, rest = divmod(count, NODES)
        parts = [(self._launch(NODES), whole)] if whole else []
        parts += [(self._launch(rest), 1)] if rest else []
        before, after = self._events
        self.driver.call("cuEventRecord", before, self.stream)
        for launch, times in parts:
            for _ in range(times):
                launch()
        self.driver.call("cuEventRecord", after, self.stream)
        return self.driver.elapsed_s(before, after)

    def _launch(self, runs: int) -> Callable[[], None]:
        """A call that starts `runs` runs.

        Whatever a backend raises while it is captured only says that it has no graph: a run that is wrong by
        itself raises again when it is launched.
        """
        if not self.queued and runs not in self._graphs:
            try:
                self._keep(runs)
            except Exception as error:
                self.queued = f"{type(error).__name__}: {error}"
        return self._one_by_one(runs) if self.queued else self._graph(runs)

    def _one_by_one(self, runs: int) -> Callable[[], None]:
        def launch() -> None:
            for _ in range(runs):
                if code := self._run():
                    raise self._explain(code)

        return launch

    def _graph(self, runs: int) -> Callable[[], None]:
        start = self._graphs[runs][1]

        def launch() -> None:
            if code := start():
                self.driver.check("launch of a graph", code)

        return launch

    def _keep(self, runs: int) -> None:
        while len(self._graphs) >= KEPT:  # the graph of NODES runs may be about to start beside this one
            self._forget(next(kept for kept in self._graphs if kept != NODES))
        executable = capture(self.driver, self.stream, self._one_by_one(runs))
        self._graphs[runs] = executable, self.driver.graph_launch(executable, self.stream)

    def _forget(self, runs: int) -> None:
        self.driver.call("cuGraphExecDestroy", self._graphs.pop(runs)[0])

    def close(self) -> None:
        """Free the graphs and events."""
        for runs in list(self._graphs):
            self._forget(runs)
        while self._events:
            self.driver.call("cuEventDestroy_v2", self._events.pop())


def capture(driver: Driver, stream: int, work: Callable[[], Any]) -> int:
    """An executable graph of what `work` puts into `stream`, which is usable again whatever `work` raises."""
    driver.begin_capture(stream)
    try:
        work()
    except BaseException:
        _abandon(driver, stream)
        raise
    return driver.executable(driver.end_capture(stream))


def _abandon(driver: Driver, stream: int) -> None:
    """End a capture that came to nothing; it may have been invalidated, and has then no graph to free."""
    with contextlib.suppress(CudaError):
        driver.call("cuGraphDestroy", driver.end_capture(stream))
