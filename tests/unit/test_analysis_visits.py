"""What several visits say together: the variance between them, odd ones, votes and witnesses."""

import math
import statistics

import numpy as np
import pytest

from backends.base import Problem
from suite.analysis import visits
from suite.analysis.visits import Seen, between, estimate, ratios, seen
from suite.record import Cell


def cells(*logs_of_visits, visit_of=True, slow=()):
    """A CPU and a GPU cell: in each visit one round for each log ratio."""
    logs = [log for logs in logs_of_visits for log in logs]
    places = tuple(v for v, logs in enumerate(logs_of_visits) for _ in logs)
    about = {
        "problem": Problem(m=8, n=8, k=8),
        "round_of": tuple(range(len(logs))),
        "inner": (1,) * len(logs),
        "visit_of": places if visit_of else (),
    }
    cpu = Cell(backend="c", device="cpu", samples_s=tuple(map(math.exp, logs)), **about)
    return cpu, Cell(backend="g", device="cuda", samples_s=(1.0,) * len(logs), slow_visits=slow, **about)


ROUNDS = (-0.02, -0.01, -0.005, 0.0, 0.0, 0.005, 0.01, 0.02)


def visit(mid):
    return [mid + r for r in ROUNDS]


def test_each_visit_has_an_estimate_of_its_own():
    one = seen(*cells(visit(0.1), visit(0.3)))
    assert one.mids == pytest.approx((0.1, 0.3)) and one.pairs == 16 and not one.once
    assert all(0 < half < 0.02 for half in one.halves)


def test_an_old_record_is_one_visit_and_nothing_more_is_asked_of_it():
    one = seen(*cells(visit(0.1), visit(0.1), visit_of=False))
    assert one.once and len(one.mids) == 1
    assert ratios({8: one})[8].verdict == "win"


def test_no_common_round_is_no_ratio():
    assert seen(*cells()) is None


def test_the_variance_between_visits_is_pooled_over_sizes():
    rng = np.random.default_rng(3)
    made = [Seen(tuple(rng.normal(0.7 * i, 0.05, 3)), (0.01,) * 3) for i in range(60)]
    found = between(made)
    assert found.sd == pytest.approx(0.05, rel=0.15) and found.df >= 120
    assert found.half_width(4) == pytest.approx(1.97 * found.sd / 2, rel=0.03)


def test_one_odd_visit_of_many_does_not_widen_everything():
    calm = [Seen((0.0, 0.01, -0.01), (0.01,) * 3) for _ in range(9)]
    wild = Seen((0.0, 0.01, 0.30), (0.01,) * 3)
    spread = between([*calm, wild])
    assert spread.sd < 0.02
    found = estimate(wild, spread)
    assert found.mid < 0.03, "the mean would be 0.10"
    assert found.half_width < 0.03


def test_before_any_second_visit_the_spread_is_guessed_from_the_rounds():
    found = between([Seen((0.1,), (0.02,)), Seen((0.5,), (0.02,))])
    assert found.sd == pytest.approx(visits.GUESS * 0.02 / 1.96) and found.df == visits.GUESS_DF


@pytest.mark.parametrize("drift", [0.05, 0.2])
def test_intervals_hold_the_truth_though_visits_drift(drift):
    """Rounds of a visit share its state. Of 200 sizes with three visits 95 in 100 are to hold the truth."""
    rng = np.random.default_rng(1)
    made = {}
    for size in range(1, 201):
        made[size] = seen(*cells(*(rng.normal(rng.normal(0, drift), 0.02, 10) for _ in range(3))))
    found = ratios(made)
    held = [r.low <= 1 <= r.high for r in found.values()]
    assert statistics.mean(held) >= 0.93
    alone = [
        math.exp(o.mids[0] - o.halves[0]) <= 1 <= math.exp(o.mids[0] + o.halves[0]) for o in made.values()
    ]
    assert statistics.mean(alone) < 0.5, "one visit alone is too sure of itself"


class TestVotes:
    """Near 1 a verdict needs visits: a clock held down for one of them must not make it."""

    def verdict(self, *mids, half=0.01, **beside):
        others = {500: Seen((2.0, 2.0, 2.01, 2.0), (0.01,) * 4)}
        return ratios({100: Seen(mids, (half,) * len(mids)), **others, **beside})[100].verdict

    def test_one_visit_decides_what_is_clear(self):
        assert self.verdict(0.6) == "win" and self.verdict(-0.6) == "loss"

    def test_near_1_it_takes_two(self):
        assert self.verdict(0.2) == "undecided" and self.verdict(0.2, 0.19) == "win"

    def test_and_two_more_than_against(self):
        assert self.verdict(0.2, -0.2) == "undecided"

    def test_the_controls_floor_counts(self):
        one = Seen((0.03, 0.03, 0.03), (0.001,) * 3, floor=0.05)
        assert ratios({100: one})[100].verdict == "undecided"

    def test_a_neighbour_nearer_to_1_bears_witness(self):
        ends = {96: Seen((0.1, 0.1, 0.1), (0.01,) * 3)}
        lone = {100: Seen((0.2,), (0.01,)), 500: Seen((2.0, 2.0, 2.0, 2.0), (0.01,) * 4)}
        assert ratios({**lone, **ends})[100].verdict == "win"
        apart = {64: ends[96]}
        assert ratios({**lone, **apart})[100].verdict == "undecided"
        against = {96: Seen((-0.1, -0.1, -0.1), (0.01,) * 3)}
        assert ratios({**lone, **against})[100].verdict == "undecided"


def test_a_visit_with_the_clock_held_down_counts_where_there_is_no_other():
    both = seen(*cells(visit(0.1), visit(-0.2), slow=(1,)))
    assert both.mids == pytest.approx((0.1,))
    assert seen(*cells(visit(-0.2), slow=(0,))).mids == pytest.approx((-0.2,))


def test_sizes_of_a_single_pair_leave_the_others_their_verdicts():
    short = Seen((2.0,), (math.inf,))
    found = ratios({16: short, 32: short, 64: Seen((2.0,), (0.01,))})
    assert [found[size].verdict for size in (16, 32, 64)] == ["undecided", "undecided", "win"]


def test_a_visit_of_a_single_pair_does_not_undo_the_others():
    one = Seen((0.6, 5.0, 0.62), (0.01, math.inf, 0.01))
    found = estimate(one, between([one, Seen((0.1, 0.11), (0.01, 0.01))]))
    assert found.mid == pytest.approx(0.61) and math.isfinite(found.high)
