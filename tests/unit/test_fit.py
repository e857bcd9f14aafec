"""Non-negative relative least squares: constants come back, none is negative, none is invented."""

import numpy as np
import pytest

from suite.analysis.fit import MOST_TERMS, nonnegative

SIZES = np.array([16, 48, 128, 384, 1024, 4096], dtype=float)
ROWS = np.stack([np.ones_like(SIZES), SIZES, SIZES**2, SIZES**3], axis=1)


def test_exact_times_give_the_constants_back():
    constants = np.array([1e-5, 2e-8, 0.0, 4e-13])
    found, error = nonnegative(ROWS, ROWS @ constants)
    assert found == pytest.approx(constants, rel=1e-6, abs=1e-16) and error < 1e-6


@pytest.mark.parametrize("seed", range(20))
def test_times_with_5_percent_of_noise_give_them_within_15_percent(seed):
    constants = np.array([1e-5, 0.0, 0.0, 4e-13])
    noisy = ROWS @ constants * np.exp(0.05 * np.random.default_rng(seed).standard_normal(len(SIZES)))
    found, error = nonnegative(ROWS, noisy)
    assert found[0] == pytest.approx(1e-5, rel=0.15) and found[3] == pytest.approx(4e-13, rel=0.15)
    assert error < 0.1


def test_a_constant_that_would_be_negative_is_zero():
    found, _ = nonnegative(ROWS[:, :2], 1e-4 - 1e-8 * SIZES)
    assert found[1] == 0 and found[0] > 0


def test_of_two_terms_that_are_the_same_the_first_is_taken():
    found, error = nonnegative(np.stack([SIZES, 3 * SIZES], axis=1), 2 * SIZES)
    assert found == pytest.approx((2, 0)) and error < 1e-6


def test_a_term_that_buys_nothing_is_left_out():
    times = 1e-5 * (1 + 0.01 * np.array([1, -1, 1, -1, 1, -1]))
    assert nonnegative(ROWS, times)[0][1:] == (0, 0, 0)


def test_errors_are_relative_to_weights():
    rows, times = np.ones((3, 1)), [1.0, 1.0, 10.0]
    assert nonnegative(rows, times)[0][0] == pytest.approx(2.1 / 2.01)
    assert nonnegative(rows, times, [1e3, 1e3, 1.0])[0][0] == pytest.approx(10, rel=1e-4)


@pytest.mark.parametrize(
    ("rows", "times"),
    [([], []), ([[1.0]], [0.0]), ([[1.0] * (MOST_TERMS + 1)], [1.0]), ([[1.0]], [-1.0])],
)
def test_what_cannot_be_fitted_is_refused(rows, times):
    with pytest.raises(ValueError, match="positive times"):
        nonnegative(rows, times)
