"""The definition of the crossover, on verdicts written down by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.analysis.crossover import Change, Crossover, Point, crossover
from suite.analysis.ratio import Ratio

LETTERS = {"W": "win", "L": "loss", "U": "undecided"}


def of(text: str, start: int = 8, step: int = 8, spacing: float = 2.0) -> Crossover:
    """Verdicts at start, start + step, ...: `LLUW`."""
    made = [
        Point(start + i * step, Ratio(0.5, 1.0, 2.0, LETTERS[letter]), f"cpu{i}", f"gpu{i}", i)
        for i, letter in enumerate(text)
    ]
    return crossover(made, spacing=spacing)


def test_a_clean_crossing():
    x = of("LLLWWW")
    assert (x.kind, x.first_win, x.stable_from, x.band) == ("crosses", 32, 32, (24, 32))
    assert (x.cpu, x.gpu, x.cpu_threads) == ("cpu3", "gpu3", 3)
    assert x.changes == (Change(24, 32, "win"),)


def test_the_undecided_band_lies_between_the_last_loss_and_the_stable_wins():
    x = of("LLUUWW")
    assert (x.kind, x.first_win, x.stable_from, x.band) == ("crosses", 40, 40, (16, 40))
    assert x.undecided == (24, 32)
    assert x.changes == (Change(16, 40, "win"),)


def test_an_undecided_size_among_wins_moves_stable_from_past_it():
    x = of("LWWUWW")
    assert (x.first_win, x.stable_from, x.band) == (16, 40, (8, 40))


def test_censored_at_both_ends():
    assert (of("WWW").kind, of("WWW").stable_from, of("WWW").band) == ("<= smallest", 8, (None, 8))
    assert (of("LLL").kind, of("LLL").stable_from, of("LLL").band) == ("> largest", None, (24, None))
    assert of("LLL").cpu == "cpu2"


def test_what_is_undecided_at_an_end_is_no_verdict():
    assert (of("LLU").kind, of("LLU").band) == ("undecided", (16, None))
    assert (of("UUW").kind, of("UUW").stable_from, of("UUW").band) == ("undecided", 24, (None, 24))
    assert of("UUU").band == (None, None)


def test_wins_that_do_not_last():
    x = of("LWWLL")
    assert (x.kind, x.first_win, x.stable_from) == ("> largest", 16, None)
    assert [c.to for c in x.changes] == ["win", "loss"]


def test_several_crossings_are_all_told():
    x = of("LLWWLLWWW")
    assert (x.first_win, x.stable_from, x.band) == (24, 56, (48, 56))
    assert x.changes == (Change(16, 24, "win"), Change(32, 40, "loss"), Change(48, 56, "win"))


def test_an_isolated_loss_is_forgiven_and_named():
    x = of("LLWWLWWW")
    assert (x.stable_from, x.isolated_losses, x.band) == (24, (40,), (16, 24))


@pytest.mark.parametrize(
    ("text", "stable"),
    [
        ("LLWLWWW", 40),  # one win below it only
        ("LLWWLLWW", 56),  # two losses side by side
        ("LLWWWLW", 56),  # one win above it only
        ("LLWWUWW", 48),  # undecided is not a loss
        ("LLWWWWL", None),
    ],
)
def test_other_losses_are_not_isolated(text, stable):
    x = of(text)
    assert (x.stable_from, x.isolated_losses) == (stable, ())


def test_a_loss_in_a_gap_wider_than_the_coarse_spacing_is_not_isolated():
    made = [
        Point(size, Ratio(0.5, 1, 2, verdict))
        for size, verdict in [(32, "win"), (64, "win"), (256, "loss"), (1024, "win"), (2048, "win")]
    ]
    assert crossover(made, spacing=2.0).stable_from == 1024
    assert crossover(made, spacing=16.0).isolated_losses == (256,)


def test_nothing_measured_and_doubled_sizes():
    assert crossover([]).kind == "nothing measured"
    point = Point(8, Ratio(1, 1, 1, "win"))
    with pytest.raises(ValueError, match="differ"):
        crossover([point, point])


def test_the_order_of_points_does_not_matter():
    made = list(of("LLUWWLWW").points)
    assert crossover(made[::-1]) == crossover(made)


@given(st.text(alphabet="WLU", min_size=1, max_size=30))
def test_the_definition_holds_for_any_verdicts(text):
    """Stable from is the smallest size with a win from which nothing but wins and named losses follow."""
    x = of(text)
    sizes = [8 + 8 * i for i in range(len(text))]

    def stable(i: int) -> bool:
        rest = [s for s, t in zip(sizes[i:], text[i:], strict=True) if t != "W"]
        return text[i] == "W" and all(s in x.isolated_losses for s in rest)

    expected = next((s for i, s in enumerate(sizes) if stable(i)), None)
    assert x.stable_from == expected
    wins = [s for s, t in zip(sizes, text, strict=True) if t == "W"]
    assert x.first_win == (wins[0] if wins else None)
    assert all(text[sizes.index(s)] == "L" for s in x.isolated_losses)
    low, high = x.band
    assert low is None or text[sizes.index(low)] == "L"
    assert low is None or high is None or low < high


def test_completeness_names_the_spacing():
    assert "factor of 2 in size" in of("LW").completeness
    assert math.isinf(of("LW").resolution)
