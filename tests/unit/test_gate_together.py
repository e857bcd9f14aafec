"""`check_all`: several sessions on the same operands get the verdicts that each would get alone."""

from __future__ import annotations

import gate_sessions as g
import numpy as np
import pytest

from backends.base import Problem
from suite import gate, trials

SMALL = Problem(m=67, n=83, k=129)
SCALED = Problem(m=67, n=83, k=129, alpha=0.5, beta=-2.0)
LARGE = Problem(m=600, n=520, k=640)
EVERY = pytest.mark.parametrize("problem", [SMALL, SCALED, LARGE], ids=["small", "scaled", "large"])


class Raising(g.DeviceSession):
    def run(self) -> None:
        raise RuntimeError("lost")


class OneWrong(g.DeviceSession):
    def write(self, c, result):
        c[...] = result
        c[0, 33, 65] += 1


class Idle(g.DeviceSession):
    """Never writes C, so what lies there is what another session left or the host put there."""

    def write(self, c, result):
        pass


def together(problem, *kinds):
    """Sessions of these kinds that share their host arrays."""
    sessions = [kind(problem) for kind in kinds]
    for session in sessions[1:]:
        session.operands = sessions[0].operands
        session.v = sessions[0].v
    return sessions


def tf32(problem):
    return g.DeviceSession(problem, g.reduced(11))


@EVERY
def test_each_gets_its_own_verdict(problem):
    right, wrong = g.DeviceSession, (OneWrong, tf32, Raising, Idle)
    found = gate.check_all(together(problem, right, *wrong, right))
    assert [result.ok for result in found] == [True, False, False, False, False, True]
    assert found[0].max_error == found[-1].max_error > 0
    assert found[3].failed == "error" and "RuntimeError: lost" in found[3].detail
    alone = [gate.check(kind(problem)).failed for kind in wrong]
    assert [result.failed for result in found[1:5]] == alone


def test_operands_are_filled_once(monkeypatch):
    filled = []
    real = trials.Integers.fill
    monkeypatch.setattr(trials.Integers, "fill", lambda self, v: filled.append(self.name) or real(self, v))
    gate.check_all(together(SMALL, *[g.DeviceSession] * 4))
    assert len(filled) == len(set(filled)) == 2


def test_one_that_failed_is_not_run_again():
    sessions = together(LARGE, OneWrong, g.DeviceSession)
    gate.check_all(sessions)
    assert sessions[0].runs < sessions[1].runs


def test_c_is_put_back_for_each_where_it_is_added_to():
    class Noting(g.DeviceSession):
        def run(self) -> None:
            self.seen = [*getattr(self, "seen", []), self.device.c.copy()]
            super().run()

    first, second = together(SCALED, Noting, Noting)
    gate.check_all([first, second])
    assert all(np.array_equal(a, b) for a, b in zip(first.seen, second.seen, strict=True))


def test_nothing_asked_is_nothing_found():
    assert gate.check_all([]) == []
