"""`ladder` as a user meets it, on the real rungs."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from scripted import interrupted, run_suite

from suite.cli import app

FAST = ("--sizes", "24,48", "--time-budget", "6", "--threads", "1")


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A short climb over all rungs with its exports."""
    folder = tmp_path_factory.mktemp("ladder")
    paths = {kind: folder / f"run.{kind}" for kind in ("json", "csv", "markdown")}
    exports = [word for kind, path in paths.items() for word in (f"--export-{kind}", path)]
    return invoke("ladder", *FAST, *exports), paths


def test_all_rungs_are_climbed(saved):
    result, _ = saved
    assert result.exit_code == 0, result.output
    for words in (
        "01_naive",
        "05_vectorised",
        "08_library",
        "% of peak",
        "M = N = K = 48",
        "what it changes",
    ):
        assert words in result.output, words


def test_exports(saved):
    _, paths = saved
    run = json.loads(paths["json"].read_text())
    assert run["experiment"] == "ladder" and run["command"].startswith("gemm-crossover ladder --sizes")
    assert all(cell["gate"]["ok"] and cell["samples_s"] for cell in run["cells"])
    assert all(cell["calls_from"] == "c" and cell["config"]["roof_flop_s"] > 1e8 for cell in run["cells"])
    assert "| 08_library |" in paths["markdown"].read_text()
    assert paths["csv"].read_text().count("\n") == 1 + len(run["cells"])


def test_report_shows_it_again(saved):
    result, paths = saved
    again = invoke("report", paths["json"])
    assert again.exit_code == 0 and again.output == result.output
    refused = invoke("report", paths["json"], "--export-svg", paths["json"].parent / "x.svg")
    assert refused.exit_code == 2 and "--export-svg: ladder has json, csv, markdown" in refused.stderr


def test_report_names_what_a_damaged_record_lacks(saved, tmp_path):
    run = json.loads(saved[1]["json"].read_text())
    del run["options"]["rungs"]
    (tmp_path / "cut.json").write_text(json.dumps(run))
    result = invoke("report", tmp_path / "cut.json")
    assert result.exit_code == 2 and "not a ladder: options" in result.stderr


def test_no_absolute_path_and_no_host_in_the_record(saved):
    text = saved[1]["json"].read_text()
    assert str(saved[1]["json"].parent) not in text and '"/' not in text


WRONG = [
    (("--device", "tpu"), "device 'tpu' is unknown: use one of cpu"),
    (("--dtype", "float16"), "dtype 'float16' is unknown: use one of float32, float64"),
    (("--dtype", "float33"), "'float33' is unknown"),
    (("--math", "tf32"), "--math is an option of --device cuda"),
    (("--counters",), "--counters is an option of --device cuda"),
    (("--device", "cuda", "--math", "fp99"), "math 'fp99' is unknown: use one of fp64, fp32"),
    (("--device", "cuda", "--part", "cubes"), "part 'cubes' is unknown: use one of square, ragged"),
    (("--device", "cuda", "--math", "fp64"), "fp64 is no arithmetic of float32"),
    (("--device", "cuda", "--rung", "99_magic"), "rung '99_magic' is unknown: use one of 01_naive"),
    (("--device", "cuda", "--rung", "31_copy", "--part", "square"), "no rung asked for computes square"),
    (("--rung", "09_magic"), "rung '09_magic' is unknown: use one of 01_naive"),
    (("--sizes", "64:8"), "start:stop:x2"),
    (("--sizes", "0"), "0 is outside 1"),
    (("--threads", "0"), "'0' is not a whole number >= 1"),
    (("--time-budget", "soon"), "'soon' is not a number of seconds"),
    (("--seed", "x"), "'x' is not a whole number >= 0"),
    (("--export-csv", "-", "--export-json", "-"), "csv"),
    (("--export-csv", "missing/x"), "missing"),
]


@pytest.mark.parametrize(("words", "named"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_bad_input_is_one_clear_line_and_status_2(words, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("ladder", *words)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ") and len(result.stderr.splitlines()) == 1
    assert named in result.stderr


def test_dry_run_measures_nothing():
    result = invoke(
        "ladder", "--dry-run", "--dtype", "f32,f64", "--sizes", "64:256:x2", "--time-budget", "2m"
    )
    assert result.exit_code == 0
    for text in ("float32, float64", "64, 128, 256", "01_naive, 02_interchanged", "about 120 s"):
        assert text in result.output, text
    assert "GFLOP/s" not in result.output


def test_both_types_unless_told_otherwise(saved):
    assert "cpu: float32, float64, M = N = K = 64, 256" in invoke("ladder", "--dry-run").output
    for words in ("float32: GFLOP/s", "float64: GFLOP/s"):
        assert words in saved[0].output


def test_a_rung_that_no_budget_allows_ends_without_a_verdict():
    words = ("--rung", "01_naive,08_library", "--sizes", "1536", "--time-budget", "2", "-q")
    result = invoke("ladder", *words)
    assert result.exit_code == 4, result.output
    assert "01_naive has no time at any size: a product takes about" in result.stderr
    assert "08_library" in result.output


def test_json_on_standard_output_leaves_the_table_to_standard_error(tmp_path, no_gpu):
    words = ("--rung", "01_naive", "--sizes", "16", "--export-json", "-")
    done = run_suite("ladder", *words, env=no_gpu, cwd=tmp_path)
    assert json.loads(done.stdout)["experiment"] == "ladder"
    assert "01_naive" in done.stderr and done.returncode == 0


def test_a_lower_instruction_set_shows(tmp_path, no_gpu):
    words = ("--rung", "05_vectorised", "--sizes", "16", "--export-json", tmp_path / "run.json", "-q")
    done = run_suite("ladder", *words, env=no_gpu | {"GEMM_ISA": "portable"})
    assert done.returncode == 0, done.stderr
    cell, wide = json.loads((tmp_path / "run.json").read_text())["cells"]
    assert cell["config"]["isa"] == wide["config"]["isa"] == "portable"
    assert cell["config"]["tile"] == {"mr": 4, "nr": 8, "kc": 128, "nc": 512}


def test_an_interrupted_climb_is_gone_on_with(tmp_path, no_gpu):
    journal, target = tmp_path / "kept.jsonl", tmp_path / "run.json"
    words = ["ladder", "--dtype", "f32", "--sizes", "16,64,96,128,160,192", "--journal", journal, "-q"]
    code, said = interrupted([*words, "--time-budget", "30"], journal, no_gpu)
    assert code == 130
    assert said.startswith("error: interrupted: ") and said.count("\n") == 1, said
    assert said.endswith("--time-budget 30 --resume\n")
    kept = [json.loads(line)["cell"] for line in journal.read_text().splitlines() if '{"cell":' in line]
    done = run_suite(*words, "--time-budget", "6", "--resume", "--export-json", target, env=no_gpu)
    assert done.returncode == 0, done.stderr
    cells = json.loads(target.read_text())["cells"]
    assert {cell["problem"]["m"] for cell in cells} == {16, 64, 96, 128, 160, 192}
    assert cells[0]["samples_s"] == kept[0]["samples_s"] and not journal.exists()


def test_the_plan_for_a_gpu_names_arithmetics_problems_and_rungs():
    result = invoke("ladder", "--device", "cuda", "--dtype", "f32,f16", "--dry-run", "--sizes", "512,1024")
    assert result.exit_code == 0, result.output
    for words in (
        "float32 in fp32, float16 in fp16",
        "square 4, ragged 8",
        "01_naive",
        "cublas",
        "about 300 s",
    ):
        assert words in result.output, words


def test_without_a_gpu_there_is_one_line_or_the_record(tmp_path, no_gpu):
    done = run_suite("ladder", "--device", "cuda", "-q", env=no_gpu, cwd=tmp_path)
    if done.returncode == 0:
        assert done.stdout.startswith("RECORDED: ")
    else:
        assert done.returncode == 1 and done.stderr.startswith("error: no GPU to climb on: ")
        assert len(done.stderr.splitlines()) == 1
    refused = run_suite("ladder", "--device", "cuda", "--require-gpu", env=no_gpu, cwd=tmp_path)
    assert refused.returncode == 5 and refused.stderr.startswith("error: --require-gpu: no usable GPU: ")
