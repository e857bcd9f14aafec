"""The adaptive search finds what an exhaustive sweep finds, with few sizes, and always ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.analysis.crossover import Point, crossover
from suite.analysis.ratio import Ratio
from suite.search import Grid, expected_sizes, next_sizes, worth_again

SWEEP = tuple(range(8, 1025, 8))


def run(grid, verdict):
    """The verdicts at all sizes that a search measures; `verdict(size)` gives a tuple."""
    measured = {}
    while sizes := next_sizes(grid, measured):
        assert sizes == sorted(set(sizes) - set(measured))
        measured[sizes[0]] = verdict(sizes[0])
    return measured


def answer(measured, question=0, spacing=2.0):
    made = [Point(s, Ratio(0.5, 1, 2, v[question])) for s, v in measured.items()]
    return crossover(made, spacing=spacing)


def steps(*crossings):
    """A verdict that starts as a loss and flips at each crossing."""
    return lambda size: ("win" if sum(size >= c for c in crossings) % 2 else "loss",)


def grid(**more):
    options = {
        "coarse": (8, 16, 32, 64, 128, 256, 512, 1024),
        "fine_below": 8,
        "resolution": 0.0,
        "limit": 200,
    }
    return Grid(**{**options, **more})


@given(st.integers(9, 1024))
def test_to_the_size_as_an_exhaustive_sweep(crossing):
    found, full = run(grid(), steps(crossing)), {s: steps(crossing)(s) for s in SWEEP}
    adaptive, exhaustive = answer(found), answer(full)
    assert adaptive.stable_from == exhaustive.stable_from
    assert adaptive.band == exhaustive.band
    assert adaptive.kind == exhaustive.kind
    assert len(found) <= 18


@given(st.integers(9, 1000), st.floats(0.02, 0.3))
def test_the_band_is_no_wider_than_the_resolution_or_one_step(crossing, resolution):
    low, high = answer(run(grid(resolution=resolution), steps(crossing))).band
    assert low < crossing <= high
    assert high <= low * (1 + resolution) or high - low <= 8


@given(st.lists(st.integers(9, 1020), min_size=2, max_size=5, unique=True))
def test_every_reversal_wider_than_the_coarse_spacing_is_found(crossings):
    crossings = sorted(crossings)
    wide = [crossings[0]]
    for c in crossings[1:]:
        if c > 4.1 * wide[-1]:
            wide.append(c)
    found = answer(run(grid(), steps(*wide)))
    exhaustive = answer({s: steps(*wide)(s) for s in SWEEP})
    assert found.changes == exhaustive.changes


def test_an_undecided_stretch_is_bounded_on_both_sides():
    def verdict(size):
        return ("loss" if size < 200 else "undecided" if size < 280 else "win",)

    found = answer(run(grid(), verdict))
    assert found.band == (192, 280)


def undecided_between(low, high):
    return lambda size: ("loss" if size < low else "undecided" if size < high else "win",)


@given(st.floats(33, 900), st.floats(1.0, 1.08))
def test_a_band_with_undecided_sizes_is_no_wider_than_the_resolution(low, width):
    """Each pair of neighbours may be closer than the resolution, and the band about them still wider."""
    found = answer(run(Grid(coarse=grid().coarse), undecided_between(low, low * width)))
    assert found.band[0] < low and low * width <= found.band[1]
    assert found.band[1] <= found.band[0] * 1.125


def test_steps_of_eight_too_coarse_for_the_resolution_are_halved():
    """Loss at 88, undecided at 96, win at 104: 18 % wide at steps of 8."""
    measured = run(Grid(coarse=(64, 128)), undecided_between(93, 99))
    assert {88, 96, 104} <= measured.keys()
    assert answer(measured).band == (92, 100)


@given(st.floats(33, 400), st.floats(1.3, 2.0))
def test_a_zone_too_wide_for_the_resolution_costs_few_sizes(low, width):
    measured = run(Grid(coarse=grid().coarse), undecided_between(low, low * width))
    found = answer(measured)
    assert found.band[0] >= low / 1.0625 - 2 and found.band[1] <= low * width * 1.0625 + 8
    assert len(measured) <= len(grid().coarse) + 12


def test_the_search_ends_where_only_undecided_sizes_are_left():
    """The zone is 11.7 %: with its ends at 2 % no multiple of 8 makes the band narrower than 12.5 %."""
    measured = run(Grid(coarse=(256, 512)), undecided_between(300, 335))
    assert answer(measured).band == (296, 336)
    measured = run(Grid(coarse=(256, 512)), undecided_between(300, 337))
    assert answer(measured).band == (296, 344)


def test_worth_again_is_whatever_some_question_leaves_undecided():
    w, l, u = "win", "loss", "undecided"  # noqa: E741
    measured = {8: (l, l), 40: (u, w), 16: (u, l), 24: (l, w), 56: (), 64: (u, u)}
    assert worth_again(measured) == [16, 40, 64]
    assert worth_again({}) == []


def test_several_questions_share_the_sizes():
    def verdict(size):
        return steps(100)(size) + steps(700)(size)

    measured = run(grid(), verdict)
    assert answer(measured, 0).band == (96, 104)
    assert answer(measured, 1).band == (696, 704)
    assert len(measured) <= 28


def test_one_odd_coarse_size_does_not_hide_the_crossing_behind_it():
    """A loss at 512 only; the true crossing at 300 lies between two coarse losses."""
    found = answer(run(grid(resolution=0.125), lambda n: ("loss",) if n == 512 else steps(300)(n)))
    assert found.isolated_losses == (512,)
    assert found.band[0] < 300 <= found.band[1]


def test_all_one_way_needs_the_coarse_sizes_only():
    assert sorted(run(grid(), lambda n: ("win",))) == list(grid().coarse)


def test_the_coarse_sizes_come_first_and_small_ones_before_large_ones():
    assert next_sizes(grid(), {}) == list(grid().coarse)
    assert next_sizes(grid(), {8: ("loss",), 1024: ("win",)}) == [16, 32, 64, 128, 256, 512]


def test_some_coarse_sizes_come_before_the_others():
    grid = Grid(coarse=(8, 16, 24, 32, 64), first=(16, 32, 64, 128))
    assert next_sizes(grid, {}) == [16, 32, 64, 8, 24]
    assert next_sizes(grid, {16: ("loss",), 8: ("loss",)}) == [32, 64, 24]


@settings(max_examples=50)
@given(st.data())
def test_it_ends_within_its_limit_whatever_the_verdicts(data):
    kinds = st.sampled_from(["win", "loss", "undecided"])
    measured = run(grid(limit=40), lambda n: (data.draw(kinds),))
    assert len(measured) <= 40


def test_a_size_that_could_not_be_measured_is_passed_over():
    measured = run(grid(), lambda n: () if n >= 512 else steps(100)(n))
    assert answer({s: v for s, v in measured.items() if v}).band == (96, 104)


def test_below_the_fine_limit_every_size_may_be_measured():
    fine = Grid(coarse=(1, 8, 64, 512), fine_below=64, resolution=0.0)
    assert answer(run(fine, steps(37)), spacing=8).band == (36, 37)
    above = run(fine, steps(137))
    assert answer(above, spacing=8).band == (136, 144)
    assert all(s % 8 == 0 for s in above if s > 8)


def test_multiples_of_the_step_come_before_finer_sizes():
    fine = Grid(coarse=(16, 32))
    assert [fine.between(16, 32), fine.between(16, 24), fine.between(20, 24), fine.between(22, 24)] == [
        24, 20, 22, 23,
    ]  # fmt: skip
    assert fine.between(23, 24) is None
    assert fine.between(256, 264) is None


def test_bad_grids_are_refused():
    with pytest.raises(ValueError, match="ascending"):
        Grid(coarse=(8, 8))
    with pytest.raises(ValueError, match="ascending"):
        Grid(coarse=())
    with pytest.raises(ValueError, match="step"):
        Grid(coarse=(8, 16), step=0)
    with pytest.raises(ValueError, match="finest"):
        Grid(coarse=(8, 16), finest=-0.1)


def test_the_expected_count_is_near_the_true_one():
    for resolution in (0.0, 0.02, 0.125):
        g = grid(resolution=resolution)
        assert abs(expected_sizes(g) - len(run(g, steps(333)))) <= 3
