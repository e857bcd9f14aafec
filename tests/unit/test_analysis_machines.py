"""The whole engine on simulated machines whose crossover is known: how often it is right, and how sure.

`tests/bars/simulate.py` does the same with a thousand machines for each level of noise, into a record.
"""

import sys
from pathlib import Path

import pytest
from machines import COARSE, MODE, Machine, search, truths

from suite.analysis import visits
from suite.analysis.crossover import crossover, points

sys.path.append(str(Path(__file__).parents[1] / "bars"))
import simulate


@pytest.mark.parametrize("truth", [45.0, 93.0, 138.0, 301.0, 1700.0])
def test_without_noise_the_band_is_one_step(truth):
    machine = Machine(3, 0.0, truth=truth)
    found = search(machine)
    low, high = found.band
    assert low <= truth <= high and high - low <= machine.step(low)
    assert machine.visits <= len(COARSE) + 12


@pytest.mark.parametrize("truth", [93.0, 301.0])
def test_the_search_agrees_with_a_sweep_of_every_multiple_of_8(truth):
    """As the comparison on real hardware asks it: the same stable region, within the band."""
    machine = Machine(11, 0.01, truth=truth)
    found = search(machine)
    cells = [c for size in range(8, 513, 8) for c in machine.measure(size)]
    full = crossover(list(points(cells, *MODE, lambda p: p.m)))
    assert found.band[0] <= (full.stable_from or 0) and (full.band[0] or 0) <= found.band[1]


@pytest.mark.parametrize(
    ("truth", "kind", "band"), [(4.0, "<= smallest", (None, 16)), (9000.0, "> largest", (4096, None))]
)
def test_a_crossover_outside_the_sizes_is_censored(truth, kind, band):
    machine = Machine(1, 0.01, truth=truth)
    found = search(machine)
    assert (found.kind, found.band) == (kind, band)
    assert machine.visits <= len(COARSE) + 6


@pytest.mark.parametrize("flip", [512, 2048])
def test_an_isolated_loss_is_named_and_does_not_move_the_answer(flip):
    found = search(Machine(5, 0.01, truth=150.0, flip=flip))
    assert found.isolated_losses == (flip,)
    assert found.band[0] < 150 <= found.band[1]


def test_a_loss_at_the_largest_size_is_no_isolated_one():
    machine = Machine(5, 0.01, truth=150.0, flip=4096)
    assert truths(machine).kind == "> largest" and truths(machine).held_by(search(machine))


MACHINES = 20
"""Of each level of noise; at 95 in 100 more than 4 failures among 20 happen once in 400 times."""


@pytest.mark.parametrize("noise", simulate.NOISE)
def test_the_truth_lies_in_the_band_and_wrong_verdicts_are_rare(noise):
    found = simulate.summary([simulate.judge(100 + seed, noise, 60.0) for seed in range(MACHINES)])
    assert found["held"] >= 1 - 4 / MACHINES
    assert found["machines_with_a_wrong_verdict"] <= 4 / MACHINES
    assert found["undecided_outside_0.8_1.25"] <= 0.1
    assert found["median_band"] <= {0.01: 0.0625, 0.05: 0.16, 0.2: 0.4}[noise]


def test_without_the_variance_between_visits_machines_are_judged_wrong(monkeypatch):
    """The fault that this variance is there for: drift slower than a visit passes for certainty."""
    judged = {}
    for name in ("sound", "faulty"):
        found = simulate.summary([simulate.judge(100 + seed, 0.05, 60.0) for seed in range(MACHINES)])
        judged[name] = found["machines_with_a_wrong_verdict"]
        monkeypatch.setattr(visits, "between", lambda all_seen: visits.Between())
        monkeypatch.setattr(visits, "CLEAR", 1.0)
    assert judged["faulty"] >= judged["sound"] + 3 / MACHINES
