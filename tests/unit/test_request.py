"""What a request asks, row by row, and which of its fields name it."""

import msgspec
import pytest

from suite import options
from suite.request import Asked, Request

ASKED = Request(sizes=(64, 128), transfers=("resident", "once"), reuse=(1, 10))


def test_the_questions_are_the_modes():
    assert ASKED.questions == [Asked("resident", 1), Asked("once", 1), Asked("once", 10)]
    assert [(row.transfer, row.reuse) for row in ASKED.questions] == ASKED.modes


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (Asked("resident", 1), "resident"),
        (Asked("once", 10), "once x10"),
        (Asked("always", 1, 1), "always, 1 thread"),
        (Asked("once", 3, 8), "once x3, 8 threads"),
    ],
)
def test_a_row_in_words(row, text):
    assert row.text == text


@pytest.mark.parametrize(
    "change",
    [
        {"resolution": 0.1},
        {"batches": (1, 4, 16)},
        {"map_over": ("m", "n")},
        {"thread_axis": (1, "half", "all")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_axis_is_recorded_and_names_the_journal(change):
    other = msgspec.structs.replace(ASKED, **change)
    assert other.key() != ASKED.key()
    assert other.options() != ASKED.options()
    assert msgspec.convert(other.options(), Request) == other


def test_the_time_budget_does_not():
    assert msgspec.structs.replace(ASKED, time_budget_s=5.0).key() == ASKED.key()


def test_the_search_ends_at_the_resolution_asked_for():
    assert ASKED.grid.resolution == 0.02
    assert msgspec.structs.replace(ASKED, resolution=0.1).grid.resolution == 0.1


@pytest.mark.parametrize(("text", "value"), [("2%", 0.02), ("0.02", 0.02), ("0", 0.0), ("12.5%", 0.125)])
def test_a_resolution_is_a_part_or_per_cent(text, value):
    assert options.part(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["2", "-1%", "100%", "x", ""])
def test_what_is_no_part_is_refused(text):
    with pytest.raises(ValueError, match=r"is no part of the size: 2% and 0\.02 are"):
        options.part(text)
