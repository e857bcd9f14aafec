"""How the time budget of a run is shared among the sizes."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from backends.base import DeviceLost, Problem
from backends.null import NullBackend
from suite import harness, record, search, sweep, sweep_visits
from suite.clock import FakeClock
from suite.exits import Exit
from suite.experiments import crossover
from suite.render import notes
from suite.request import Asked, Request, checked


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


def cell(backend, device, transfer="resident", **more):
    problem = Problem(m=8, n=8, k=8)
    return record.Cell(problem=problem, backend=backend, device=device, transfer=transfer, **more)


class TestShortlist:
    """Who is opened at a size follows from the screening at its measured neighbours."""

    BACKENDS = [
        NullBackend(name, device, lambda *about: 1.0)
        for name, device in (("c1", "cpu"), ("g1", "cuda"), ("g2", "cuda"), ("g3", "cuda"))
    ]

    def names(self, groups, size):
        return [[b.name for b in part] for part in sweep_visits.shortlist(groups, size, self.BACKENDS)]

    def near(self, **rough):
        return [cell(name, "cpu" if name[0] == "c" else "cuda", rough_s=s) for name, s in rough.items()]

    def test_all_are_opened_where_nothing_is_known(self):
        assert self.names({}, 64) == [["c1", "g1", "g2", "g3"], []]

    def test_those_near_the_best_of_either_neighbour_are_opened(self):
        groups = {
            32: self.near(c1=1.0, g1=1.0, g2=1.9, g3=9.0),
            128: self.near(c1=1.0, g1=3.0, g2=9.0, g3=1.0),
        }
        assert self.names(groups, 64) == [["c1", "g1", "g2", "g3"], []]
        groups[128] = self.near(c1=1.0, g1=1.0, g2=9.0, g3=9.0)
        assert self.names(groups, 64) == [["c1", "g1", "g2"], ["g3"]]

    def test_only_the_nearest_sizes_count(self):
        groups = {16: self.near(c1=1.0, g3=1.0), 32: self.near(c1=1.0, g1=1.0, g2=9.0)}
        assert self.names(groups, 64) == [["c1", "g1"], ["g2", "g3"]]

    def test_a_side_of_which_no_neighbour_knows_any_is_opened_whole(self):
        assert self.names({32: self.near(c1=1.0)}, 64) == [["c1", "g1", "g2", "g3"], []]

    def test_wrong_results_are_not_quick(self):
        wrong = record.GateResult(ok=False, failed="exact")
        groups = {32: [*self.near(c1=1.0, g1=5.0), cell("g2", "cuda", rough_s=1.0, gate=wrong)]}
        assert self.names(groups, 64)[0] == ["c1", "g1"]


def measured(time_fn, tmp_path=None, clock=None, **asked):
    """(cells, groups opened as (size, modes)) of a run on a scripted pair."""
    clock, told = clock or FakeClock(), []

    def group(problem, memory, modes, settings, **about):
        told.append((problem.m, tuple(modes), tuple(b.name for b in about["backends"])))
        return harness.measure_group(problem, memory, modes, settings, **about)

    pair = [NullBackend("cpu", "cpu", lambda p, *about: 1e-6 * p.m**2, clock=clock)]
    pair += [NullBackend(name, "cuda", fn, clock=clock) for name, fn in time_fn.items()]
    request = checked(Request(sizes=(16, 32, 64, 128, 256), **asked))
    found = sweep.Measuring(request, pair, clock=clock, now=clock.now, measure=group).run()
    return found.cells, told


def gpu(crossing_of):
    """A GPU that is as fast as the CPU at a size of its own in each mode."""
    return lambda p, transfer, reuse, index: 1e-6 * crossing_of[transfer] ** 2 * (1 + 1e-3 * (index % 3))


def test_a_mode_is_refined_only_where_it_crosses():
    _, told = measured({"gpu": gpu({"resident": 45, "always": 180})}, transfers=("resident", "always"))
    refined = [(size, modes) for size, modes, _ in told if size not in (16, 32, 64, 128, 256)]
    assert refined
    assert all(modes == (("resident", 1),) for size, modes in refined if size < 64)
    assert all(modes == (("always", 1),) for size, modes in refined if size > 128)


def test_who_is_slow_at_both_neighbours_is_not_opened_and_says_so():
    slow = lambda p, *about: 9e-3  # noqa: E731
    cells, told = measured({"gpu": gpu({"resident": 45}), "slow": slow}, transfers=("resident",))
    opened = {size for size, _, names in told if "slow" in names}
    assert {16, 64, 256} <= opened and not {32, 128} & opened
    reasons = {c.skip_reason for c in cells if c.backend == "slow" and c.problem.m == 32}
    assert reasons == {"not opened: far slower than the best at the neighbouring sizes"}


def test_a_further_visit_times_the_same_candidates_without_another_gate():
    gates = []
    cells, told = measured({"gpu": gpu({"resident": 45})}, transfers=("resident",))
    again = [size for size in {s for s, _, _ in told} if sum(s == size for s, _, _ in told) > 1]
    assert again, "the ends of the band are visited again"
    for one in cells:
        if one.problem.m in again and one.role == "candidate":
            assert one.gate is not None and one.gate.ok and len({*one.visit_of}) > 1, gates


def test_the_journal_brings_visits_back():
    readings = sweep_visits.Readings([Asked("resident", 1)])
    many = {"samples_s": (1.0,) * 6, "round_of": tuple(range(6)), "inner": (1,) * 6}
    group = [cell(name, d, visit_of=(0, 0, 1, 1, 2, 2), **many) for name, d in (("c", "cpu"), ("g", "cuda"))]
    readings.restore(64, group)
    assert readings.counts == {(64, Asked("resident", 1)): 3}
    assert readings.known()[64][Asked("resident", 1)].visits == 3


def times(name, device, rounds=6):
    """A cell with a time in that many rounds of one visit."""
    many = {"samples_s": (1.0,) * rounds, "round_of": tuple(range(rounds)), "inner": (1,) * rounds}
    return cell(name, device, visit_of=(0,) * rounds, **many)


class TestFailedRevisit:
    """What the search believes is what the record holds."""

    Q = Asked("resident", 1)

    def readings(self, *later):
        readings = sweep_visits.Readings([self.Q])
        readings.add(64, [self.Q], [times("c", "cpu"), times("g", "cuda")], 0.0)
        return readings, readings.add(64, [self.Q], later, 9.0)

    def test_the_earlier_visit_stays_in_the_record_and_in_the_reading(self):
        failed = cell("g", "cuda", skip_reason="no memory")
        readings, group = self.readings(times("c", "cpu"), failed)
        assert failed in group
        assert [len(c.samples_s) for c in readings.stood(64, self.Q)] == [12, 6]
        assert readings.known()[64][self.Q] is not None

    def test_no_reading_stays_of_what_has_no_pairs_any_more(self):
        readings, _ = self.readings(times("other", "cpu"), cell("g", "cuda", skip_reason="no memory"))
        assert readings.known()[64][self.Q] is None


def test_one_gate_for_all_visits_only_where_the_same_two_stand(monkeypatch):
    asked = checked(Request(sizes=(64,), transfers=("resident",)))
    gates = []
    measuring = sweep.Measuring(asked, measure=lambda *about, gate, **more: gates.append(gate) or [])
    for stood in ([times("c", "cpu"), times("g", "cuda")], [times("c", "cpu")]):
        readings = sweep_visits.Readings(asked.questions)
        readings.restore(64, stood)
        problem = asked.problem(asked.sweeps[0], 64)
        measuring._measure(asked.sweeps[0], 64, problem, asked.questions, readings)
    assert gates[0] is not None and gates[1] is None


def test_a_budget_spent_before_the_band_was_narrow_is_told():
    def left_of(budget_s):
        clock = FakeClock()
        pair = [NullBackend("cpu", "cpu", lambda p, *about: 1e-6 * p.m**2, clock=clock),
                NullBackend("gpu", "cuda", gpu({"resident": 45}), clock=clock)]  # fmt: skip
        asked = checked(Request(sizes=(16, 32, 64, 128), transfers=("resident",), time_budget_s=budget_s))
        return sweep.Measuring(asked, pair, clock=clock, now=clock.now).run().unmeasured

    assert left_of(60) == ()
    assert any("further visits to" in text and "resident" in text for text in left_of(2))


def lost_at(size, clock, calls=0):
    """A scripted pair whose GPU is lost in the call after the first `calls` at `size`."""

    def time_fn(problem, transfer, reuse, index):
        if problem.m == size and index >= calls:
            raise DeviceLost(719, "cuStreamSynchronize")
        return 1e-4

    cpu = NullBackend("cpu", "cpu", lambda p, *about: 1e-6 * p.m**2, clock=clock)
    return [cpu, NullBackend("gpu", "cuda", time_fn, clock=clock)]


@pytest.mark.parametrize("calls", [0, 1, 5, 20, 40])
def test_a_lost_device_ends_the_run_with_the_groups_that_were_whole(calls):
    clock = FakeClock()
    asked = checked(Request(sizes=(16, 32, 64, 128), transfers=("resident",)))
    found = sweep.Measuring(asked, lost_at(64, clock, calls), clock=clock, now=clock.now).run()
    assert found.lost == "the device is lost (719): cuStreamSynchronize"
    assert {c.problem.m for c in found.cells if c.samples_s} == {16, 32}
    assert not any(c.skip_reason for c in found.cells)


def test_a_run_that_lost_its_device_is_incomplete_and_says_so():
    clock = FakeClock()
    asked = checked(Request(sizes=(16, 32, 64), transfers=("resident",)))
    run = crossover.measure(asked, chosen=lost_at(64, clock), clock=clock)
    assert not run.complete and run.options["lost"].startswith("the device is lost")
    assert "device is lost" in " ".join(notes.incomplete(run, ()))
    out = Console(file=io.StringIO())
    assert crossover.finish(run, asked, out, {}, None, True) == Exit.ERROR


def test_the_document_knows_the_caps_at_which_a_search_ends():
    text = (Path(__file__).parents[2] / "docs" / "measuring.md").read_text(encoding="utf-8")
    section = text.split("### How a search ends")[1].split("\n### ")[0]
    limit = checked(Request()).grid.limit
    for words in (
        f"their {search.MOST_VISITS} visits each (`MOST_VISITS`",
        f"had {search.MOST_AGAIN} further visits in all (`MOST_AGAIN`)",
        f"or {limit} sizes were measured",
    ):
        assert words in section
    assert search.SLACK == 2 and "at most twice as wide as asked" in section
