"""How the time budget of a run is shared among the sizes."""

from backends.base import Problem
from backends.null import NullBackend
from suite import harness, sweep
from suite.clock import FakeClock
from suite.request import Request, checked


def shares(monkeypatch, beside_s):
    """Every group's budget in a run of 30 s over ten sizes, each with `beside_s` of work outside it."""
    now, found = {"s": 0.0}, []

    def group(problem, host_memory, modes, settings, **more):
        found.append(settings.group_budget_s)
        now["s"] += settings.group_budget_s + beside_s
        return []

    monkeypatch.setattr(harness, "measure_group", group)
    clock = FakeClock()
    pair = [NullBackend(name, device, lambda *about: 1e-3, clock=clock) for name, device in
            (("cpu", "cpu"), ("gpu", "cuda"))]  # fmt: skip
    asked = checked(Request(sizes=tuple(range(8, 88, 8)), time_budget_s=30, transfers=("resident",)))
    measuring = sweep.Measuring(asked, pair, clock=clock, now=lambda: now["s"])
    measuring.run()
    assert measuring.request.problem(asked.sweeps[0], 8) == Problem(m=8, n=8, k=8)
    return found, now["s"]


def test_what_groups_take_beside_their_share_does_not_starve_the_last_ones(monkeypatch):
    found, spent_s = shares(monkeypatch, beside_s=1.0)
    assert len(found) == 10
    assert min(found[1:]) > 0.8 * max(found[1:])
    assert spent_s < 30


def test_without_such_work_every_group_has_an_equal_share(monkeypatch):
    found, spent_s = shares(monkeypatch, beside_s=0.0)
    assert max(found) - min(found) < 1e-9 and 15 < spent_s <= 30
