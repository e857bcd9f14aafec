"""Reasons in words: one for each bound, two where none is half, none where nothing sound is known."""

import msgspec
import pytest

from backends.base import Problem
from suite import profiles
from suite.analysis import reason
from suite.analysis.model import Roofs
from suite.analysis.prediction import Prediction
from suite.analysis.reason import Work
from suite.record import Run
from suite.render import columns, model, summary, svg, tables

ROOFS = Roofs(flops={"fp32": 60e12}, memory=4e12, link=50e9, measured=True)
SMALL, LARGE = Problem(m=64, n=64, k=64), Problem(m=4096, n=4096, k=4096)
VECTOR = Problem(op="gemv", m=8192, n=8192)


def split(problem, transfer, time_s, reuse=1, roofs=ROOFS, **parts):
    work = Work.of(problem, "cuda", transfer, reuse)
    return reason.measured(time_s, {"wait": 0.0, **parts}, work, roofs)


@pytest.mark.parametrize(
    ("found", "bound", "text"),
    [
        (
            split(SMALL, "resident", 10.4e-6, launch=3e-6, kernel=2.3e-6),
            "launch",
            "launch-bound: 8.1 of 10.4 µs are launching and waiting; under 1 % of the 60 TFLOP/s peak",
        ),
        (
            split(LARGE, "always", 5e-3, h2d=2.9e-3, d2h=1.45e-3, kernel=0.6e-3),
            "transfer",
            "transfer-bound: 87 % of the time is copying, at 93 % of the 50 GB/s link",
        ),
        (
            split(VECTOR, "resident", 100e-6, kernel=90e-6),
            "bandwidth",
            "bandwidth-bound: 90 % of the time is reading and writing memory, "
            "at 75 % of the 4000 GB/s memory",
        ),
        (
            split(LARGE, "once", 30e-3, reuse=10, h2d=1e-3, d2h=1e-3, kernel=2.7e-3),
            "compute",
            "compute-bound: 90 % of the time is arithmetic, at 85 % of the 60 TFLOP/s peak",
        ),
    ],
)
def test_each_bound_has_its_words(found, bound, text):
    assert found == (bound, text)


def test_where_none_is_half_the_two_largest_are_named():
    found = split(SMALL, "always", 100e-6, h2d=20e-6, d2h=20e-6, kernel=15e-6)
    assert found.text.startswith("launch 45 % and transfer 40 %")


def test_a_best_rate_is_not_called_a_peak():
    seen = msgspec.structs.replace(ROOFS, measured=False)
    assert split(LARGE, "resident", 3e-3, kernel=2.9e-3, roofs=seen).text.endswith(
        "at 79 % of 60 TFLOP/s, the best seen here"
    )
    assert split(LARGE, "resident", 3e-3, kernel=2.9e-3, roofs=None).text.endswith("is arithmetic")


@pytest.mark.parametrize(
    "parts",
    [
        None,
        {},
        {"launch": 4e-6, "kernel": 7e-6},  # of an older record: taken asleep
        {"wait": 0.0, "kernel": 44e-6},  # longer than the whole call
    ],
)
def test_parts_that_cannot_be_those_of_the_time_give_no_reason(parts):
    assert reason.measured(32e-6, parts, Work.of(SMALL, "cuda", "resident", 1), ROOFS) is None


def test_a_prediction_is_explained_by_its_parts():
    told = Prediction(
        time_s=2e-4, parts={"h2d": 1.2e-4, "kernel": 8e-5}, bound="transfer", roof_share=None, log_sd=0.1
    )
    found = reason.foretold(told, Work.of(SMALL, "cuda", "once", 1), None)
    assert found == ("transfer", "transfer-bound: 60 % of the time is copying")


# -- in the tables

RECORDED = profiles.load("h200")
LINES = summary.lines(RECORDED)


def line(op="gemm", transfer="resident", memory="pageable"):
    return next(
        one
        for one in LINES
        if (one.question.op, one.question.transfer, one.question.host_memory) == (op, transfer, memory)
    )


def told(one, size):
    entry = next(entry for entry in one.entries if entry.size == size)
    return model.why(entry, RECORDED)


def test_points_of_the_recorded_machine_say_why():
    assert told(line(), 64).startswith("GPU launch-bound: ")
    assert "GPU compute-bound: " in told(line(), 4096) and "CPU compute-bound: " in told(line(), 4096)
    assert told(line(transfer="always"), 1024).startswith("GPU transfer-bound: ")
    assert "GPU bandwidth-bound: " in told(line("gemv"), 8192)
    assert all("asleep" not in row for row in tables.points(RECORDED, line()).columns)


def test_most_points_have_a_reason_for_both_sides():
    texts = [model.why(entry, RECORDED) for one in LINES for entry in one.entries]
    assert sum("GPU" in text for text in texts) > 0.95 * len(texts)
    assert sum("CPU" in text for text in texts) > 0.75 * len(texts)


def test_a_time_far_from_the_model_has_no_reason():
    entry = line().entries[-1]
    late = msgspec.structs.replace(entry.gpu, samples_s=tuple(3 * s for s in entry.gpu.samples_s))
    assert "GPU" not in model.why(msgspec.structs.replace(entry, gpu=late), RECORDED)


def test_the_predicted_crossover_stands_beside_the_measured_one():
    shown = tables.verdicts(RECORDED, LINES)
    predicted = dict(zip(LINES_NAMES, column(shown, "predicted"), strict=True))
    assert predicted["gemv", "float32", "pageable", "always"] == "> 8192"
    assert 256 / 1.5 < int(predicted["gemm", "float32", "pinned", "always"]) < 280 * 1.5
    assert any(note.startswith("MODELLED, fitted on 6 sizes") for note in shown.notes)


def test_the_modelled_curve_crosses_1_where_the_crossover_is_foretold():
    found = model.curve(line(), RECORDED)
    told = int(model.predicted(line(), RECORDED))
    assert next(size for size, ratio in found if ratio > 1) == pytest.approx(told, rel=0.15)
    assert found[0][0] == line().entries[0].size and found[-1][0] == line().entries[-1].size


def test_the_modelled_curve_is_drawn_dashed_and_named_once():
    pytest.importorskip("matplotlib")
    drawn = svg.render(Run(experiment="profile", cells=RECORDED.cells[:400])).decode()
    assert drawn.count("<!-- dashed: MODELLED -->") == 1 and "stroke-dasharray" in drawn


LINES_NAMES = [
    (one.question.op, one.question.dtype, one.question.host_memory, one.question.transfer) for one in LINES
]


def column(shown, name):
    return [row[shown.columns.index(name)] for row in shown.rows]


def test_the_constants_in_the_record_are_those_used():
    none = Run(experiment="profile", cells=RECORDED.cells, model=msgspec.to_builtins(model.Model()))
    assert [model.predicted(one, none) for one in summary.lines(none)] == [""] * len(LINES)
    unreadable = Run(experiment="profile", cells=RECORDED.cells, model={"sides": 7})
    assert model.predicted(line(), unreadable) == model.predicted(line(), RECORDED)


def test_a_run_without_a_model_says_nothing_of_one():
    few = Run(cells=tuple(cell for cell in RECORDED.cells if cell.problem.m in (16, 64)))
    shown = tables.verdicts(few, summary.lines(few))
    assert "predicted" not in shown.columns and not any("MODELLED" in note for note in shown.notes)
    assert {column.name for column in columns.POINT_COLUMNS} >= {"why"}
