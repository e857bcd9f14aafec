"""`verify` from its command line, and its measuring steps on scripted backends that really take time."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from scripted import run_suite

from suite import profiles, verify_record, verify_steps
from suite.verify_state import Context, Failed, State

ROOT = Path(__file__).parents[2]
QUESTION = ["--op", "gemm", "--dtype", "float32", "--host-memory", "pageable"]
SCRIPTED = ["--backend", "scripted-cpu", "--backend", "scripted-gpu"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory, plugin):
    """A context whose results folder holds an adaptive run and an exhaustive sweep."""
    out = tmp_path_factory.mktemp("verify")
    context = Context(out, State())
    context.env |= {name: plugin[name] for name in ("PYTHONPATH", "XDG_STATE_HOME")}
    for sizes in ("8:64:x2", "8:40:+8"):
        options = [*QUESTION, *SCRIPTED, "--sizes", sizes, "--time-budget", "6"]
        found = verify_steps.crossover_run(context, options, out / "crossover.json")
        assert found["cells"] > 0, found["table"]
    return context


def compared(context):
    """The rows of the comparison, also when a busy machine made the two differ."""
    try:
        return verify_record.compare_runs(context)["rows"]
    except Failed as failure:
        return failure.result["rows"]


def test_the_scripted_crossover_is_found_both_ways(measured):
    rows = compared(measured)
    assert {(row["dtype"], row["mode"].split()[0]) for row in rows} == {
        ("float32", "resident"),
        ("float32", "once"),
        ("float32", "always"),
    }
    resident = next(row for row in rows if row["mode"] == "resident")
    for way in ("adaptive", "exhaustive"):
        assert 16 < resident[way]["first_win"] <= 32, "4 ms (size / 16)^2 meets 8 ms at 22.6"


def test_no_journal_is_left_behind(measured):
    assert sorted(path.name for path in measured.out.glob("running-*")) == []


def test_the_runs_become_a_profile(measured):
    found = verify_record.write_profile(measured)
    profile = profiles.load(str(measured.out / "profile.json"))
    assert found["cells"] == len(profile.cells) > 0
    assert {cell.provenance for cell in profile.cells} == {"recorded"}


def test_generated_documents_show_a_profile(profile_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "docs" / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    monkeypatch.setattr(generate.profiles, "available", lambda: [profiles.load(str(profile_path))])
    text = generate.renewed("<!-- generated: verdicts -->\n<!-- end -->\n")
    assert "**Scripted GPU** with" in text
    assert "scripted-gpu" in text
    assert generate.renewed(text) == text


@pytest.mark.parametrize("words", [(), ("--out", "a", "--install", "."), ("--out", "a", "--steps", "test")])
def test_wrong_use_is_one_line_and_exit_2(words, no_gpu, tmp_path):
    done = run_suite("verify", *words, env=no_gpu, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_without_a_gpu_what_needs_one_is_skipped_with_the_reason(no_gpu, tmp_path):
    done = run_suite("verify", "--out", tmp_path / "out", "--skip", "c,peers,ladder", env=no_gpu)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = json.loads((tmp_path / "out" / "verify.json").read_text())["steps"]
    assert {name for name, step in steps.items() if step["status"] == "done"} == {"build", "environment"}
    assert steps["tests"]["reason"].startswith("no GPU: ")
    assert len(list((tmp_path / "out").iterdir())) <= 8


def test_install_without_results_says_what_to_run(no_gpu, tmp_path):
    done = run_suite("verify", "--install", tmp_path, env=no_gpu)
    assert done.returncode == 1
    assert "holds no verified.json: run verify --out" in done.stderr
