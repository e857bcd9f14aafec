"""What every test shares: the skip reason for tests that need a GPU."""

from __future__ import annotations

import functools

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
