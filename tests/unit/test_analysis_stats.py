"""Intervals cover what they claim to, with normal, skewed and wild samples, and say when something drifts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.stats import interval, signed_rank_index, spread, t_cdf, t_quantile


@pytest.mark.parametrize(
    ("df", "p", "expected"),
    [(1, 0.975, 12.7062), (2, 0.975, 4.3027), (3, 0.975, 3.1824), (4, 0.995, 4.6041), (30, 0.975, 2.0423)],
)
def test_t_quantiles_are_those_of_the_tables(df, p, expected):
    assert t_quantile(df, p) == pytest.approx(expected, abs=2e-4)
    assert t_cdf(df, t_quantile(df, p)) == pytest.approx(p, abs=1e-9)


def test_signed_rank_indices_are_those_of_the_tables():
    """Critical values of Wilcoxon's signed-rank test, two-sided 5 %: 0, 2, 3, 5, 8, 52 at n = 6 .. 10, 20."""
    assert [signed_rank_index(n, 0.95) for n in (5, 6, 7, 8, 9, 10, 20)] == [None, 0, 2, 3, 5, 8, 52]


@pytest.mark.parametrize("count", [2, 3, 5, 6, 8, 12, 30])
@pytest.mark.parametrize("draw", ["normal", "cauchy_difference", "laplace"])
def test_intervals_cover_as_often_as_they_claim(count, draw):
    rng = np.random.default_rng(count)
    inside = 0
    for _ in range(1000):
        x = {
            "normal": lambda: rng.normal(size=count),
            "cauchy_difference": lambda: rng.pareto(1.5, count) - rng.pareto(1.5, count),
            "laplace": lambda: rng.laplace(size=count),
        }[draw]()
        found = interval(x)
        inside += found.low <= 0 <= found.high
    assert inside >= 930


def test_a_wild_sample_does_not_drag_the_estimate_away():
    x = np.array([0.01, -0.01, 0.02, 0.0, -0.02, 0.01, -0.01, 0.0, 0.01, 0.0, -0.02, 0.01, 5.0])
    found = interval(x)
    assert abs(found.mid) < 0.02
    assert found.high < 0.1
    assert x.mean() > 0.3


def test_drift_between_rounds_widens_the_interval():
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.001, 20)
    steady, drifting = interval(noise), interval(noise + np.where(np.arange(20) < 10, 0.0, 0.1))
    assert steady.drift == 0.0
    assert drifting.low <= 0.003
    assert drifting.high >= 0.097


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=40), st.floats(-3, 3))
def test_an_interval_holds_its_estimate_and_shifts_with_the_samples(values, shift):
    found, moved = interval(values), interval([v + shift for v in values])
    assert found.low <= found.mid + 1e-12
    assert found.mid <= found.high + 1e-12
    assert moved.mid == pytest.approx(found.mid + shift, abs=1e-9)
    assert moved.high - moved.low == pytest.approx(found.high - found.low, abs=1e-9)


def test_too_few_samples_decide_nothing():
    assert math.isnan(interval([]).mid)
    one = interval([0.5])
    assert (one.low, one.mid, one.high) == (-math.inf, 0.5, math.inf)


def test_outliers_are_counted_and_stay_in():
    samples = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 9.0, 1.0]
    found = spread(samples)
    assert (found.count, found.outliers) == (8, 1)
    assert found.median == pytest.approx(1.0)
    assert spread([1.0, 1.0, 1.0, 1.04]).outliers == 0
