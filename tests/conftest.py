"""What every test shares: the skip reason for tests that need a GPU, and a check of all skip reasons."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

import backends


@functools.cache
def gpu_reason() -> str:
    """Empty when a CUDA backend is usable here, else why none is."""
    cuda = [b for b in backends.all_backends() if b.device == "cuda"]
    if not cuda:
        return "no CUDA backend was found"
    states = [(b.name, b.probe()) for b in cuda]
    if any(state.ok for _, state in states):
        return ""
    name, state = states[0]
    return f"no GPU: {name}: {state.reason}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked `gpu` where there is no GPU, and say why."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and (reason := gpu_reason()):
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--allowed-skips FILE`: a skip whose reason matches no line of FILE fails the run."""
    parser.addoption("--allowed-skips", type=Path, help="file of regular expressions, one a line")


def skip_reasons(reports: list[pytest.TestReport]) -> dict[str, str]:
    """Test name -> reason, for skipped tests."""
    return {
        report.nodeid: str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in reports
        if isinstance(report.longrepr, tuple)
    }


def unexpected_skips(reasons: dict[str, str], allowed: str) -> dict[str, str]:
    """Those whose reason matches no expression in `allowed` (one a line, # begins a comment)."""
    patterns = [line for line in allowed.splitlines() if line and not line.startswith("#")]
    return {name: why for name, why in reasons.items() if not any(re.search(p, why) for p in patterns)}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session):
    """Fail a run in which something was skipped for a reason that is not allowed."""
    path = session.config.getoption("--allowed-skips")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if path and reporter:
        unexpected = unexpected_skips(skip_reasons(reporter.stats.get("skipped", [])), path.read_text())
        for name, why in unexpected.items():
            reporter.write_line(f"skipped, and {path.name} does not list why: {name}: {why}", red=True)
        if unexpected and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return (yield)
