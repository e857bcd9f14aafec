"""The adaptive search finds what an exhaustive sweep finds, in few visits, and always ends."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite import search_place as place
from suite.analysis.crossover import Point, crossover
from suite.analysis.ratio import Ratio
from suite.search import MOST_AGAIN, MOST_VISITS, Grid, Reading, expected_sizes, expected_visits, next_visits

SWEEP = tuple(range(8, 1025, 8))
COARSE = (8, 16, 32, 64, 128, 256, 512, 1024)


def grid(**more):
    return Grid(**{"coarse": COARSE, "fine_below": 8, "resolution": 0.0, "limit": 200, **more})


def run(grid, read, questions=("q",), pause=0.0):
    """The readings at all sizes that a search visits; `read(question, size, visits)` gives one, or None."""
    known, now, counts = {}, 0.0, {}
    while visits := next_visits(grid, known, questions, now, pause):
        now += 1.0
        visit = visits[0]
        for question in visit.questions:
            counts[visit.size, question] = n = counts.get((visit.size, question), 0) + 1
            found = read(question, visit.size, n)
            known.setdefault(visit.size, {})[question] = found and Reading(*found, visits=n, last=now)
        assert sum(counts.values()) < 2000
    return known, counts


def sure(mid):
    """What a machine without noise says in every visit: verdict, log ratio, half-width, floor."""
    return ("win" if mid > 0 else "loss"), mid, 1e-4, 1e-4


def steps(*crossings):
    """A ratio of 1/e, which is turned round at each crossing."""
    return lambda question, size, n: sure(1.0 if sum(size >= c for c in crossings) % 2 else -1.0)


def power(crossing, slope=2.5):
    """A ratio that grows with a power of the size."""
    return lambda question, size, n: sure(slope * math.log((size - 0.5) / (crossing - 0.5)) or 1e-3)


def answer(known, question="q", spacing=2.0):
    found = {size: answers[question] for size, answers in known.items() if answers.get(question)}
    made = [Point(s, Ratio(0.5, 1, 2, r.verdict)) for s, r in found.items()]
    return crossover(made, spacing=spacing)


def exhaustive(read):
    return answer({size: {"q": Reading(*read("q", size, 1))} for size in SWEEP})


@pytest.mark.parametrize("shape", [steps, power])
@given(crossing=st.integers(9, 1024))
def test_to_the_size_as_an_exhaustive_sweep(shape, crossing):
    known, _ = run(grid(), shape(crossing))
    adaptive, full = answer(known), exhaustive(shape(crossing))
    assert (adaptive.stable_from, adaptive.band, adaptive.kind) == (full.stable_from, full.band, full.kind)
    assert len(known) <= 22


@given(st.integers(9, 1000), st.floats(0.02, 0.3))
def test_the_band_is_no_wider_than_the_resolution_or_one_step(crossing, resolution):
    known, _ = run(grid(resolution=resolution), power(crossing))
    low, high = answer(known).band
    assert low < crossing <= high
    assert high <= low * (1 + resolution) or high - low <= 8


@given(st.floats(40.0, 3500.0), st.floats(1.0, 4.0))
def test_a_smooth_crossing_takes_few_sizes(crossing, slope):
    """At two per cent: four beside the coarse ones, as a rule."""
    coarse = tuple(16 * 2**i for i in range(9))
    known, _ = run(Grid(coarse=coarse), power(crossing, slope))
    low, high = answer(known).band
    assert low < crossing <= high + 0.5 and high - low <= max(8, 0.02 * low)
    assert len(known) <= len(coarse) + 5


@given(st.lists(st.integers(9, 1020), min_size=2, max_size=5, unique=True))
def test_every_reversal_wider_than_the_coarse_spacing_is_found(crossings):
    wide = [min(crossings)]
    for c in sorted(crossings)[1:]:
        if c > 2.0 * wide[-1] + 8:
            wide.append(c)
    known, _ = run(grid(), steps(*wide))
    assert {(c.low, c.to) for c in answer(known).changes} >= {
        (c.low, c.to) for c in exhaustive(steps(*wide)).changes if len(wide) == 1
    }
    assert len(answer(known).changes) >= len(wide)


def zone(low, high):
    """Loss, then sizes that no number of visits decides, then wins."""

    def read(question, size, n):
        if low <= size < high:
            return "undecided", 0.0, 0.01, 0.01
        return sure(2.0 * math.log(size / (low if size < low else high)) + (-0.02 if size < low else 0.02))

    return read


@given(st.floats(40, 400), st.floats(1.05, 1.8))
def test_an_undecided_stretch_is_closed_in_from_both_sides(low, width):
    known, counts = run(Grid(coarse=COARSE), zone(low, low * width))
    found = answer(known)
    assert found.band[0] < low and found.band[1] >= low * width
    assert max(counts.values()) <= MOST_VISITS


def test_refined_sizes_are_asked_only_of_the_question_that_is_open_there():
    def read(question, size, n):
        return power({"a": 100, "b": 700}[question])(question, size, n)

    known, counts = run(Grid(coarse=COARSE), read, ("a", "b"))
    refined = [key for key in counts if key[0] not in COARSE]
    assert {q for size, q in refined if size < 256} == {"a"}
    assert {q for size, q in refined if size > 512} == {"b"}
    low, high = answer(known, "b").band
    assert low < 700 <= high <= 1.03 * low


def test_one_odd_coarse_size_does_not_hide_the_crossing_behind_it():
    """A loss at 512 only; the true crossing at 300 lies between two coarse losses."""

    def read(question, size, n):
        return sure(-1.0) if size == 512 else power(300)(question, size, n)

    known, _ = run(Grid(coarse=(*COARSE, 2048)), read)
    found = answer(known)
    assert found.isolated_losses == (512,)
    assert found.band[0] < 300 <= found.band[1]


def test_an_odd_size_costs_its_neighbours_and_no_bisection():
    def read(question, size, n):
        return sure(-1.0) if size == 512 else power(100)(question, size, n)

    known, _ = run(Grid(coarse=(*COARSE, 2048)), read)
    assert {size for size in known if 300 < size < 900} <= {504, 512, 528, 496, 520}


def test_all_one_way_needs_the_coarse_sizes_once():
    known, counts = run(grid(), lambda question, size, n: sure(1.0))
    assert sorted(known) == list(COARSE) and set(counts.values()) == {1}


def sizes(visits):
    return [visit.size for visit in visits]


def test_the_coarse_sizes_come_first_and_small_ones_before_large_ones():
    assert sizes(next_visits(grid(), {}, ("q",))) == list(COARSE)
    known = {8: {"q": Reading(*sure(-1.0))}, 1024: {"q": Reading(*sure(1.0))}}
    assert sizes(next_visits(grid(), known, ("q",))) == [16, 32, 64, 128, 256, 512]


def test_some_coarse_sizes_come_before_the_others():
    grid = Grid(coarse=(8, 16, 24, 32, 64), first=(16, 32, 64, 128))
    assert sizes(next_visits(grid, {}, ("q",))) == [16, 32, 64, 8, 24]


def test_a_question_that_was_not_asked_of_a_coarse_size_is_asked_there_alone():
    known = {size: {"a": Reading(*sure(1.0))} for size in COARSE}
    (first, *_) = next_visits(grid(), known, ("a", "b"))
    assert (first.size, first.questions) == (8, ("b",))


def noisy(crossing, half):
    """Verdicts as visits give them: two at least, the half-width shrinks with their number."""

    def read(question, size, n):
        mid = 2.5 * math.log(size / crossing)
        wide = half / math.sqrt(n)
        decided = n > 1 and abs(mid) > wide
        return ("win" if mid > 0 else "loss") if decided else "undecided", mid, wide, wide / 2

    return read


@given(st.floats(60, 900), st.floats(0.01, 0.3))
def test_the_ends_of_a_band_are_visited_until_they_have_verdicts(crossing, half):
    """Sizes are placed where the noise allows for verdicts, and the band is as narrow as that."""
    known, counts = run(Grid(coarse=COARSE), noisy(crossing, half), pause=10.0)
    found = answer(known)
    low, high = found.band
    assert low < crossing < high
    assert math.log(high / low) <= max(2 * 1.3 * half / 2.5, math.log((low + 16) / low), 0.04)
    assert min(counts[end, "q"] for end in found.band) >= 2
    assert sum(counts.values()) - len(counts) <= MOST_AGAIN


def test_nothing_is_asked_at_the_crossing_itself_when_it_is_known():
    known, _ = run(Grid(coarse=COARSE), noisy(500.0, 0.05))
    assert len([size for size in known if 490 < size < 510]) <= 2


def test_visits_to_one_size_are_apart_where_others_can_be_made():
    told = []

    def read(question, size, n):
        told.append(size)
        return noisy(300.0, 0.1)(question, size, n)

    run(Grid(coarse=COARSE), read, pause=10.0)
    again = [b - a for size in set(told) for a, b in zip(*[places(told, size)[i:] for i in (0, 1)])]  # noqa: B905
    assert sum(gap == 1 for gap in again) <= len(again) / 3


def places(told, size):
    return [i for i, one in enumerate(told) if one == size]


@settings(max_examples=50)
@given(st.data())
def test_it_ends_within_its_limits_whatever_the_verdicts(data):
    kinds = st.sampled_from(["win", "loss", "undecided"])
    logs = st.floats(-2, 2)
    known, counts = run(
        grid(limit=40), lambda q, size, n: (data.draw(kinds), data.draw(logs), data.draw(st.floats(0, 1)))
    )
    assert len(known) <= 40
    assert sum(counts.values()) - len(counts) <= MOST_AGAIN + 1


def test_a_size_that_could_not_be_measured_is_passed_over():
    known, counts = run(grid(), lambda q, size, n: None if size >= 512 else steps(100)(q, size, n))
    assert answer(known).band == (96, 104)
    assert counts[512, "q"] == counts[1024, "q"] == 1


def test_below_the_fine_limit_steps_are_finer():
    fine = Grid(coarse=(1, 8, 64, 512), resolution=0.0)
    assert [fine.step_at(size) for size in (8, 31, 32, 63, 64, 127, 128, 1000)] == [1, 1, 2, 2, 4, 4, 8, 8]
    assert [fine.step_at(size) for size in (15, 16, 31)] == [1, 1, 1]
    assert answer(run(fine, power(37))[0], spacing=8).band == (36, 38)
    assert answer(run(fine, power(137))[0], spacing=8).band == (136, 144)


def test_the_size_between_is_a_multiple_of_the_step():
    g = Grid(coarse=(16, 32))
    assert g.between(256, 512) == 360 and g.between(256, 264) is None and g.between(22, 24) == 23
    assert g.between(256, 512, 9999.0) == 504


def test_bad_grids_are_refused():
    with pytest.raises(ValueError, match="ascending"):
        Grid(coarse=(8, 8))
    with pytest.raises(ValueError, match="ascending"):
        Grid(coarse=())
    with pytest.raises(ValueError, match="step"):
        Grid(coarse=(8, 16), step=0)
    with pytest.raises(ValueError, match="resolution"):
        Grid(coarse=(8, 16), resolution=-0.1)


def test_the_expected_counts_are_near_the_true_ones():
    g = Grid(coarse=COARSE)
    known, counts = run(g, noisy(333.0, 0.03))
    assert abs(expected_sizes(g) - len(known)) <= 4
    assert abs(expected_visits(g) - sum(counts.values())) <= 10


class TestPlacement:
    """Beside the crossing, never at it."""

    def seen(self, size, crossing=500.0, half=0.01, visits=1):
        return place.Seen(size, 2.5 * math.log(size / crossing), half, half / 2, visits)

    def test_the_line_finds_the_crossing(self):
        line = place.fit([self.seen(400), self.seen(600)], rising=True)
        assert math.exp(line.root) == pytest.approx(500) and line.slope == pytest.approx(2.5)

    def test_a_line_the_wrong_way_is_none(self):
        assert place.fit([self.seen(400), self.seen(600)], rising=False) is None

    def test_targets_lie_on_both_sides_as_far_as_the_noise_needs(self):
        points = [self.seen(440, half=0.1), self.seen(570, half=0.1)]
        for target in place.targets(points, True, 0.02, bisect=False):
            assert abs(math.log(target / 500)) > 0.8 * place.reach(points, place.fit(points, True)) > 0

    def test_without_trust_in_the_line_the_bracket_is_halved(self):
        assert place.targets([self.seen(400), self.seen(900)], True, 0.02, bisect=True) == [
            pytest.approx(600)
        ]
