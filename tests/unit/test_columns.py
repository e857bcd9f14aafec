"""One more column or note is one more line in a list: tables, Markdown and narrow terminals follow."""

import io

import pytest
from rich.console import Console

from suite import profiles
from suite.render import columns, comparison, markdown, summary, tables

RUN = next(iter(profiles.available()))
LINES = summary.lines(RUN)


@pytest.fixture
def listed(monkeypatch):
    """The lists, to be changed by one test."""
    for name in ("POINT_COLUMNS", "VERDICT_COLUMNS", "NOTES"):
        monkeypatch.setattr(columns, name, list(getattr(columns, name)))
    return columns


def terminal(width):
    out = io.StringIO()
    comparison.show(RUN, Console(file=out, width=width, highlight=False))
    return out.getvalue()


def test_what_is_left_out_first_where_room_is_short():
    expected = (
        "why", "note", "MxNxK", "gate", "flags", "CPU GFLOP/s", "GPU GFLOP/s", "± %", "CPU", "GPU",
        "interval",
    )  # fmt: skip
    assert tables.spare(columns.POINT_COLUMNS) == expected
    assert tables.spare(columns.VERDICT_COLUMNS) == ("predicted",)


def test_a_column_of_points_is_one_line(listed):
    listed.POINT_COLUMNS.append(
        columns.Column("name", 1, lambda entry, run: f"{run.options['name']} at {entry.size}")
    )
    shown = tables.points(RUN, LINES[0])
    assert shown.columns[-1] == "name" and "name" in shown.spare[:2]
    assert [row[-1] for row in shown.rows] == [f"h200 at {entry.size}" for entry in LINES[0].entries]
    assert "h200 at 1024" in markdown.render(RUN).decode()
    assert "h200 at 1024" in terminal(400)
    assert "h200 at 1024" not in terminal(130) and "too narrow for: " in terminal(130)


def test_a_column_of_verdicts_is_one_line(listed):
    listed.VERDICT_COLUMNS.append(columns.Column("backwards", 1, lambda line, run: line.question.mode[::-1]))
    shown = tables.verdicts(RUN, LINES)
    assert shown.columns[-1] == "backwards" and shown.spare == ("backwards", "predicted")
    assert [row[-1] for row in shown.rows] == [line.question.mode[::-1] for line in LINES]
    assert LINES[0].question.mode[::-1] in terminal(400)


def test_a_column_that_says_nothing_is_not_there(listed):
    before = tables.points(RUN, LINES[0]).columns
    listed.POINT_COLUMNS.append(columns.Column("silent", 0, lambda entry, run: ""))
    assert tables.points(RUN, LINES[0]).columns == before
    assert "note" not in before


def test_a_note_is_one_line(listed):
    listed.NOTES.append(lambda run, lines: [f"{len(lines)} rows of {run.options['label']}."])
    assert tables.verdicts(RUN, LINES).notes[-1] == f"{len(LINES)} rows of NVIDIA H200."
    assert f"{len(LINES)} rows of NVIDIA H200." in terminal(140)
