"""A pytest plugin that keeps every test's outcome at once, so that a run that ended goes on where it stopped:

python -m pytest -m gpu -p tests.outcomes --outcomes FILE

FILE has a JSON line when a test begins and one when it has ended. Tests that have are not run again. One that
began and never ended is: its process may have been stopped. If it did so twice it takes processes down, and
counts as an error. A CUDA error that spoils the process ends it: the next call goes on with a fresh one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

TRIES = 2
"""Times that a test may begin without ending."""

ORDER = ("passed", "skipped", "failed", "error")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--outcomes FILE`."""
    parser.addoption("--outcomes", type=Path, required=True, help="where outcomes are kept")


def pytest_configure(config: pytest.Config) -> None:
    """The plugin proper knows the file."""
    config.pluginmanager.register(Outcomes(config.getoption("--outcomes")))


def named(nodeid: str) -> str:
    """`tests/unit/test_a.py::test_b[x]` -> `unit.test_a::test_b[x]`."""
    file, _, rest = nodeid.partition("::")
    return f"{file.removeprefix('tests/').removesuffix('.py').replace('/', '.')}::{rest}"


class Outcomes:
    """One session's part of the file."""

    def __init__(self, path: Path) -> None:
        self.path, self.worst = path, {}  # type: tuple[Path, dict[str, tuple[int, str]]]
        self.begun: dict[str, int] = {}
        self.known = self._read()
        self.session: pytest.Session | None = None

    def _read(self) -> dict[str, str]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        found: dict[str, str] = {}
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:  # torn when the process ended
                continue
            if "outcome" in entry:
                found[entry["test"]] = entry["outcome"]
            else:
                self.begun[entry["test"]] = self.begun.get(entry["test"], 0) + 1
        return found

    def _write(self, **entry: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what has been run, and what never ends."""
        for name, times in self.begun.items():
            if times >= TRIES and name not in self.known:
                self.known[name] = "error"
                self._write(test=name, outcome="error")
        done = [item for item in items if named(item.nodeid) in self.known]
        if done:
            items[:] = [item for item in items if named(item.nodeid) not in self.known]
            config.hook.pytest_deselected(items=done)

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
