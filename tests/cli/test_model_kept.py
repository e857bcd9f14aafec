"""The model in the records: of a run, of a profile made of runs, and shown again from them."""

import msgspec
from scripted import pair

from suite import profiles
from suite.analysis import calibration
from suite.analysis.model import of_record
from suite.experiments import crossover
from suite.journal import load_run, readable
from suite.render import model, summary
from suite.request import Request, checked

SIZES = (16, 24, 32, 48, 64, 96)


def measured(dtype="float32"):
    clock, backends = pair()
    asked = checked(Request(sizes=SIZES, dtypes=(dtype,), time_budget_s=30))
    return crossover.measure(asked, chosen=backends, clock=clock)


def test_a_run_holds_the_model_fitted_to_its_own_cells(tmp_path):
    run = measured()
    kept = of_record(run.model)
    assert {(side.device, side.op) for side in kept.sides} == {("cpu", "gemm"), ("cuda", "gemm")}
    told = kept.predict(run.cells[0].problem, "cuda", "always", 1)
    assert abs(told.time_s / 16e-3 - 1) < 0.1
    (tmp_path / "run.json").write_bytes(readable(run))
    again = load_run(tmp_path / "run.json")
    assert again.model == run.model
    assert [model.predicted(line, again) for line in summary.lines(again)] == [
        model.predicted(line, run) for line in summary.lines(run)
    ]


def test_the_crossover_it_foretells_is_the_scripted_one():
    run = measured()
    resident = next(line for line in summary.lines(run) if line.question.transfer == "resident")
    assert resident.crossover.stable_from in (23, 24)
    assert 16 <= int(model.predicted(resident, run).strip("≤ ")) <= 28


def test_without_a_gpu_there_are_constants_of_the_cpu_alone():
    clock, backends = pair()
    asked = checked(Request(sizes=SIZES, time_budget_s=30))
    run = crossover.measure(asked, chosen=backends[:1], clock=clock)
    found = of_record(run.model)
    assert {side.device for side in found.sides} == {"cpu"} and not found.links


def test_a_profile_has_a_model_of_all_its_runs():
    runs = [measured(dtype) for dtype in ("float32", "float64")]
    built = profiles.build(runs, "a machine")
    assert {side.dtype for side in of_record(built.model).sides} == {"float32", "float64"}


def test_a_run_of_one_size_has_none():
    clock, backends = pair()
    asked = checked(Request(sizes=(32,), time_budget_s=30))
    run = crossover.measure(asked, chosen=backends, clock=clock)
    assert run.model == {} and of_record({}) is None
    assert of_record({"sides": [{"device": 3}]}) is None
    assert msgspec.structs.replace(run, model={}) == run


def test_a_fit_that_fails_costs_the_model_and_not_the_run(monkeypatch, capsys):
    def failing(*_):
        raise ValueError("no such luck")

    monkeypatch.setattr(calibration, "fitted", failing)
    run = measured()
    assert run.complete and run.cells and run.model == {}
    assert "no model of this machine" in capsys.readouterr().err
    resident = next(line for line in summary.lines(run) if line.question.transfer == "resident")
    assert resident.crossover.stable_from in (23, 24) and model.predicted(resident, run) == ""
