"""`calibrate`: who is timed at which sizes, what is kept and shown, and what is refused."""

import json

import msgspec
import pytest
from click.testing import CliRunner
from scripted import pair, run_suite

from backends.base import Problem
from backends.null import NullBackend
from suite import calibrate, calibrate_judge, model_store
from suite.analysis.model import Model, Roofs, as_record, of_record
from suite.cli import app
from suite.exits import Exit, Stop
from suite.experiments import calibrate as experiment
from suite.journal import load_run
from suite.render import calibrate as render

SIZES = {"gemm": (8, 16, 24, 32, 48, 64), "gemv": (8, 16, 24, 32, 48, 64)}


def asked(**more):
    return calibrate.Asked(ops=("gemm",), dtypes=("float32",), edges=SIZES, **more)


@pytest.fixture
def no_roofs(monkeypatch):
    monkeypatch.setattr(calibrate, "measured_roofs", lambda dtypes: {})


def measured(**more):
    clock, backends = pair()
    return experiment.measured(asked(**more), "gemm-crossover calibrate", chosen=backends, clock=clock)


def test_six_sizes_of_both_sides_in_three_modes():
    clock, backends = pair()
    told = []
    cells = calibrate.measure(asked(), backends, clock=clock, tell=lambda *step: told.append(step))
    stood = [cell for cell in cells if cell.role == "candidate" and cell.samples_s]
    assert {cell.problem.m for cell in stood} == set(SIZES["gemm"])
    assert {(cell.device, cell.transfer) for cell in stood} == {
        (device, transfer) for device in ("cpu", "cuda") for transfer in ("resident", "once", "always")
    }
    assert [step[1:] for step in told] == [(i, 6) for i in range(6)]
    assert all(cell.gate.ok for cell in stood)


def test_only_who_stood_at_the_scouts_is_timed_further():
    clock, (cpu, gpu) = pair()
    slow = NullBackend("scripted-slow", "cpu", lambda *call: 10.0, clock=clock)
    cells = calibrate.measure(asked(), [cpu, slow, gpu], clock=clock)
    assert {cell.problem.m for cell in cells if cell.backend == "scripted-slow"} == {16, 64}


def test_the_constants_are_those_of_the_script(no_roofs):
    model = of_record(measured().model)
    told = model.predict(Problem(m=40, n=40, k=40), "cuda", "once", 10)
    assert told.time_s == pytest.approx(88e-3, rel=0.1)
    told = model.predict(Problem(m=40, n=40, k=40), "cpu", "resident")
    assert told.time_s == pytest.approx(4e-3 * 2.5**2, rel=0.25)


def test_they_are_kept_by_machine_and_found_again(no_roofs, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = measured()
    model = of_record(run.model)
    assert model_store.kept(model.fingerprint) is None
    path = model_store.keep(model)
    assert path.parent == tmp_path / "gemm-crossover" and model.fingerprint in path.name
    assert model_store.kept(model.fingerprint) == model
    path.write_text("{")
    assert model_store.kept(model.fingerprint) is None


def test_what_is_kept_of_another_type_stays_and_the_same_is_replaced(no_roofs, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    model = of_record(measured().model)
    peak = Roofs(flops={"fp64": 1e12}, memory=2e12, measured=True)
    other = tuple(msgspec.structs.replace(side, dtype="float64", math="fp64") for side in model.sides)
    model_store.keep(msgspec.structs.replace(model, sides=other, links=(), roofs={"cuda": peak}))
    model_store.keep(model)
    model_store.keep(model)
    kept = model_store.kept(model.fingerprint)
    assert {(s.device, s.dtype) for s in kept.sides} == {
        (d, t) for d in ("cpu", "cuda") for t in ("float32", "float64")
    }
    assert len(kept.sides) == 4 and kept.links == model.links and kept.roofs["cuda"] == peak
    peaks = Roofs(flops={"fp32": 3e12}, measured=True)
    model_store.keep(msgspec.structs.replace(model, roofs={"cuda": peaks}))
    found = model_store.kept(model.fingerprint).roofs["cuda"]
    assert found.flops == {"fp64": 1e12, "fp32": 3e12} and found.memory == 2e12


def test_constants_of_chosen_backends_are_not_kept(no_roofs, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for names, files in ((("null",), 0), ((), 1)):
        run = measured(backends=names)
        assert experiment.finish(run, {}, quiet=True) == Exit.OK
        assert len(list(tmp_path.rglob("model-*.json"))) == files


def test_the_run_is_shown_and_exported(no_roofs, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    targets = {kind: str(tmp_path / f"run.{kind}") for kind in ("json", "csv", "markdown")}
    assert experiment.finish(measured(), targets, quiet=True) == Exit.OK
    assert "MODELLED" in (tmp_path / "run.markdown").read_text()
    assert load_run(tmp_path / "run.json").experiment == "calibrate"
    again = CliRunner().invoke(app, ["report", str(tmp_path / "run.json")])
    assert again.exit_code == 0 and "scripted-gpu" in again.output and "roofs" in again.output


def test_a_place_that_cannot_be_written_costs_the_keeping_alone(no_roofs, tmp_path, monkeypatch, capsys):
    (tmp_path / "state").write_text("a file")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert experiment.finish(measured(), {}, quiet=True) == Exit.OK
    assert "not kept" in capsys.readouterr().err


def test_a_run_without_constants_is_an_error(no_roofs):
    none = msgspec.structs.replace(measured(), model={})
    with pytest.raises(Stop, match="no constants"):
        experiment.finish(none, {}, quiet=True)


def test_measured_roofs_take_the_place_of_the_best_rates_seen(no_roofs):
    run = measured()
    peak = {"cuda": Roofs(flops={"fp32": 60e12}, memory=4e12, measured=True)}
    model = calibrate.fitted(run.cells, run.machine, peak)
    assert model.roofs["cuda"].measured and model.roofs["cuda"].flops["fp32"] == 60e12
    assert model.roofs["cuda"].link > 0 and not model.roofs["cpu"].measured
    beaten = calibrate.with_measured(Roofs(flops={"fp32": 2.0}), Roofs(flops={"fp32": 1.0}, measured=True))
    assert beaten.flops["fp32"] == 2.0


def small(op, dtype):
    """Held-out problems that a false clock and a real gate are done with at once."""
    shapes = ((20, 20, 20, 1), (40, 40, 40, 1), (56, 8, 8, 1), (8, 8, 8, 3))
    return [Problem(op=op, m=m, n=n, k=k, batch=batch, dtype=dtype) for m, n, k, batch in shapes]


def test_judging_times_what_was_not_fitted_on_and_changes_no_constant(no_roofs):
    run = measured()
    clock, backends = pair()
    told = []
    again = experiment.judged(
        run, asked(), chosen=backends, clock=clock, of=small, tell=lambda *step: told.append(step)
    )
    assert again.model == run.model and len(again.options["held_out"]) == 4 and len(told) == 4
    table = next(t for t in render.tables(again) if "not fitted on" in t.title)
    gpu = {(row[2], row[4]): row for row in table.rows if row[3] == "GPU"}
    assert gpu["20x20x20", "always"][5:] == ("16.0 ms", gpu["20x20x20", "always"][6], "0 %")
    assert any("the quicker side is named in " in note for note in table.notes)
    assert not [t for t in render.tables(run) if "not fitted on" in t.title]


def test_a_wrong_model_is_judged_so(no_roofs):
    run = measured()
    clock, backends = pair()
    again = experiment.judged(run, asked(), chosen=backends, clock=clock, of=small)
    slow = msgspec.structs.replace(
        of_record(run.model).sides[1], corrections=((1.0, 3.0),), log_sd={"resident": 0.1}
    )
    cells = [cell for cell in again.cells if cell.group in again.options["held_out"]]
    found = calibrate_judge.told(Model(sides=(slow,)), cells)
    assert found and min(one.off for one in found) > 1.5


def test_every_shape_to_be_judged_is_a_problem():
    for op in ("gemm", "gemv"):
        held_out = calibrate_judge.problems(op, "float64")
        assert len(held_out) == len(calibrate_judge.SQUARES[op]) + len(calibrate_judge.SHAPES[op])
        assert not {p.m for p, name in held_out.items() if name == "square"} & set(calibrate.SIZES[op])


def test_the_tables_of_a_model_without_a_gpu_leave_out_the_copies(no_roofs):
    run = measured()
    model = of_record(run.model)
    alone = Model(sides=tuple(side for side in model.sides if side.device == "cpu"), roofs={})
    shown = render.tables(msgspec.structs.replace(run, model=as_record(alone)))
    assert [table.title for table in shown] == ["MODELLED: constants of each side"]


def test_a_type_without_a_cpu_side_is_refused(plugin):
    done = run_suite("calibrate", "--dtype", "float16", env=plugin)
    assert done.returncode == Exit.USAGE and "float16" in done.stderr


def test_pinned_memory_alone_is_refused_without_a_gpu(monkeypatch):
    monkeypatch.setattr(experiment.request, "gpu_reason", lambda: "no driver")
    monkeypatch.setattr(calibrate, "measure", lambda *_, **__: pytest.fail("measured"))
    done = CliRunner().invoke(app, ["calibrate", "--host-memory", "pinned"])
    assert done.exit_code == Exit.NO_GPU and "pinned host memory needs a GPU: no driver" in done.stderr


def test_by_command_line(plugin, tmp_path):
    done = run_suite(
        "calibrate", "--op", "gemm", "--dtype", "f32", "--backend", "numpy", "--time-budget", "1", "-q",
        "--export-json", tmp_path / "run.json", env={**plugin, "XDG_STATE_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run.json").read_text())["model"]["sides"]
    assert not list(tmp_path.rglob("model-*.json"))
