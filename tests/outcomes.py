"""A pytest plugin that keeps every test's outcome at once, so that a run that ended goes on where it stopped:

python -m pytest -m gpu -p tests.outcomes --outcomes FILE
python -m pytest -m gpu -p tests.outcomes --outcomes FILE --part 3/12

FILE has a JSON line when a test begins and one when it has ended. Tests that have are not run again. One that
began and never ended is: its process may have been stopped. If it did so twice it takes processes down, and
counts as an error. A CUDA error that spoils the process ends it: the next call goes on with a fresh one.

Several processes may share FILE, each with its part of the tests: I/N is every N-th from I on of those that
get on with others, `large` those marked so, and `rest` what is left of all, those marked `alone` among them.
Whose test it is does not depend on what has been run. `--kernels NAME,NAME`: only tests that name one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from suite.verify_state import Kept, names

TRIES = 2
"""Times that a test may begin without ending."""

APART = ("large", "alone")
"""Markers of tests that are in no shard."""

ORDER = ("passed", "skipped", "failed", "error")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--outcomes FILE` and `--part`."""
    parser.addoption("--outcomes", type=Path, required=True, help="where outcomes are kept")
    parser.addoption("--kernels", default="", help="run only tests that name one of these")
    parser.addoption("--part", default="rest", metavar="I/N|large|rest", help="the tests to run")


def pytest_configure(config: pytest.Config) -> None:
    """The plugin proper knows the file."""
    config.pluginmanager.register(
        Outcomes(config.getoption("--outcomes"), config.getoption("--part"), config.getoption("--kernels"))
    )


def named(nodeid: str) -> str:
    """`tests/unit/test_a.py::test_b[x]` -> `unit.test_a::test_b[x]`."""
    file, _, rest = nodeid.partition("::")
    return f"{file.removeprefix('tests/').removesuffix('.py').replace('/', '.')}::{rest}"


def dealt(items: list[pytest.Item], part: str) -> list[pytest.Item]:
    """The tests of a part."""
    if part == "rest":
        return items
    if part == "large":
        return [item for item in items if item.get_closest_marker("large")]
    index, count = map(int, part.split("/"))
    return [item for item in items if not any(map(item.get_closest_marker, APART))][index::count]


class Outcomes:
    """One session's part of the file."""

    def __init__(self, path: Path, part: str, kernels: str) -> None:
        self.file, self.part = Kept(path), part
        self.kernels = kernels.split(",") if kernels else []
        self.worst: dict[str, tuple[int, str]] = {}
        self.begun: dict[str, int] = {}
        self.known = self._read()
        self.session: pytest.Session | None = None

    def _read(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for entry in self.file.read():
            if "outcome" in entry:
                found[entry["test"]] = entry["outcome"]
            else:  # one that was stopped for want of time has not begun
                step = -1 if "stopped" in entry else 1
                self.begun[entry["test"]] = self.begun.get(entry["test"], 0) + step
        return found

    def _write(self, **entry: Any) -> None:
        self.file.append([entry | {"part": self.part}])

    def asked_for(self, item: pytest.Item) -> bool:
        """Does it name a kernel that was asked for, if some were?"""
        return not self.kernels or any(names(item.nodeid, kernel) for kernel in self.kernels)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out other parts, what has been run, and what never ends. Last: after `-m` has chosen."""
        mine = [item for item in dealt(items, self.part) if self.asked_for(item)]
        for name in (named(item.nodeid) for item in mine):
            if self.begun.get(name, 0) >= TRIES and name not in self.known:
                self.known[name] = "error"
                self._write(test=name, outcome="error")
        left = [item for item in mine if named(item.nodeid) not in self.known]
        if len(left) < len(items):
            kept = set(left)
            config.hook.pytest_deselected(items=[item for item in items if item not in kept])
            items[:] = left

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """What is told to stop."""
        self.session = session

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A line before the test can take the process down."""
        self._write(test=named(nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The worst of set-up, call and tear-down is the outcome."""
        name, outcome = named(report.nodeid), str(report.outcome)
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else ""
        if outcome == "failed" and report.when != "call":
            outcome = "error"
        said = f"skipped: {reason}" if outcome == "skipped" else outcome
        self.worst[name] = max(self.worst.get(name, (0, "passed")), (ORDER.index(outcome), said))
        if report.when == "teardown":
            rank, said = self.worst.pop(name)
            self._write(test=name, outcome=said)
            if rank >= ORDER.index("failed") and self.session is not None and spoiled():
                self.session.shouldstop = "a CUDA error spoiled this process"


def spoiled() -> bool:
    """Does every further CUDA call fail? Only asked after a failure."""
    from backends import _cuda_driver as cuda

    try:
        device = cuda.device(0)
        device.activate()
        device.driver.free_memory()
    except cuda.CudaError:
        return True
    except (OSError, AttributeError):  # no driver at all
        return False
    return False
