"""Ratios paired by round, verdicts held to the controls, and what the controls say."""

import math
import random

import msgspec
import pytest

from backends.base import Problem
from suite.analysis.controls import DELAY_KEY, group_resolution, run_resolution
from suite.analysis.crossover import points
from suite.analysis.ratio import UNKNOWN, paired_logs, ratio
from suite.record import Cell

P = Problem(m=64, n=64, k=64)


def cell(samples, device="cpu", rounds=None, **more):
    rounds = range(len(samples)) if rounds is None else rounds
    return Cell(
        problem=P, backend=device, device=device, samples_s=tuple(samples), round_of=tuple(rounds),
        inner=(1,) * len(samples), group="g", **more,
    )  # fmt: skip


def noisy(mid, count, sigma, seed):
    rng = random.Random(seed)
    return [mid * rng.lognormvariate(0, sigma) for _ in range(count)]


def test_samples_are_paired_by_round_not_by_position():
    cpu = cell([1.0, 2.0, 4.0], rounds=[0, 1, 2])
    gpu = cell([4.0, 2.0, 9.0], "cuda", rounds=[2, 1, 7])
    assert paired_logs(cpu, gpu).tolist() == [0.0, 0.0]


def test_the_time_of_a_round_is_the_median_of_its_samples():
    cpu = cell([5.0, 2.0, 2.0, 8.0, 99.0, 8.0], rounds=[0, 0, 0, 3, 3, 3])
    assert cpu.times_s == (2.0, 8.0)
    gpu = cell([8.0, 2.0], "cuda", rounds=[3, 0])
    assert paired_logs(cpu, gpu).tolist() == [0.0, 0.0]


def test_a_drift_that_both_sides_share_cancels():
    drift = [1.0 + 0.3 * i for i in range(12)]
    found = ratio(cell([2.0 * d for d in drift]), cell(drift, "cuda"))
    assert (found.low, found.high, found.verdict) == (pytest.approx(2.0), pytest.approx(2.0), "win")


def test_verdicts():
    slow, fast, same = noisy(2.0, 10, 0.02, 1), noisy(1.0, 10, 0.02, 2), noisy(1.0, 10, 0.02, 3)
    assert ratio(cell(slow), cell(fast, "cuda")).verdict == "win"
    assert ratio(cell(fast), cell(slow, "cuda")).verdict == "loss"
    assert ratio(cell(fast), cell(same, "cuda")).verdict == "undecided"


def test_no_verdict_is_finer_than_the_controls():
    cpu, gpu = cell(noisy(1.04, 30, 0.01, 4)), cell(noisy(1.0, 30, 0.01, 5), "cuda")
    assert ratio(cpu, gpu).verdict == "win"
    assert ratio(cpu, gpu, resolution=1.06).verdict == "undecided"
    assert ratio(gpu, cpu, resolution=1.06).verdict == "undecided"


def test_without_a_common_round_there_is_no_ratio():
    assert ratio(cell([1.0], rounds=[0]), cell([1.0], "cuda", rounds=[1])) == UNKNOWN
    assert ratio(cell([]), cell([1.0], "cuda")).verdict == "undecided"


def test_a_sample_of_zero_has_no_ratio_and_breaks_nothing():
    found = ratio(cell([0.0, 1.0, 1.0, 1.0]), cell([1.0, 2.0, 2.0, 0.0], "cuda"))
    assert (found.pairs, found.mid) == (2, pytest.approx(0.5))


def group(sigma=0.01, bias=1.0, delay=0.05, count=12, seed=0):
    base = noisy(1.0, count, sigma, seed)
    config = {DELAY_KEY: delay}
    return [
        cell(base),
        cell([s * bias for s in noisy(1.0, count, sigma, seed + 1)], role="control_aa"),
        cell([s + delay for s in noisy(1.0, count, sigma, seed + 2)], role="control_delay", config=config),
    ]


def test_the_controls_measure_the_smallest_ratio():
    """Half the width of a 95 % interval of 12 pairs with 1 % noise on both sides is about 1 %."""
    found = group_resolution(group())
    assert 1.004 < found.ratio < 1.03
    assert found.delays_seen == (1, 1)
    assert [c.expected for c in found.controls] == [1.0, pytest.approx(1.05, rel=0.02)]


def test_noise_makes_the_resolution_coarse_and_hides_the_delay():
    found = group_resolution(group(sigma=0.2))
    assert found.ratio > 1.05
    assert found.delays_seen == (0, 1)


def test_a_bias_between_two_entries_of_one_candidate_is_not_forgiven():
    assert group_resolution(group(bias=1.10)).ratio > 1.09


def test_controls_of_times_below_the_clocks_step_say_nothing():
    base, again, delayed = group()
    stuck = msgspec.structs.replace(base, samples_s=(1.0, 1.0, *[0.0] * 10))
    assert group_resolution([stuck, again, delayed]).ratio == math.inf


def test_a_run_has_the_resolution_of_its_middle_group():
    one = [group_resolution(group(sigma=s, seed=9)) for s in (0.002, 0.01, 0.1)]
    assert run_resolution(one).ratio == one[1].ratio
    assert run_resolution(one).worst == one[2].ratio
    assert math.isinf(run_resolution([]).ratio)


def test_points_hold_every_verdict_to_its_own_group():
    gpu = cell(noisy(0.95, 12, 0.01, 7), "cuda")
    fine = points([*group(), gpu], "resident", 1, lambda p: p.m)
    coarse = points([*group(bias=1.10), gpu], "resident", 1, lambda p: p.m)
    assert (fine[0].ratio.verdict, coarse[0].ratio.verdict) == ("win", "undecided")
    assert points(group(), "resident", 1, lambda p: p.m) == []
