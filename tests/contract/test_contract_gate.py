"""The gate passes for every problem that a backend says it computes, on ordinary host memory."""

from __future__ import annotations

import pytest

from backends.base import Backend, Problem, Unavailable
from backends.operands import allocate
from suite import gate


def test_gate(usable: Backend, problems: list[Problem]):
    try:
        allocate(problems[0])
    except Unavailable as error:
        pytest.skip(str(error))
    failures = [text for p in problems if (text := failure(usable, p))]
    assert not failures, "\n".join(failures)


def failure(backend: Backend, problem: Problem) -> str:
    session = backend.open(problem, allocate(problem))
    try:
        session.activate()
        outcome = gate.check(session)
        session.quiesce()
    finally:
        session.close()
    return "" if outcome.ok else f"{problem}: {outcome.failed}: {outcome.detail}"


@pytest.mark.gpu
def test_gate_on_pinned_memory(usable: Backend, example: Problem):
    session = usable.open(example, allocate(example, "pinned"), host_memory="pinned")
    outcome = gate.check(session)
    session.close()
    assert outcome.ok, outcome
