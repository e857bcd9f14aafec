"""`peers` as a user meets it, against a toy CBLAS compiled here: found by its path, slow, and once wrong."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from scripted import environment, interrupted, run_suite

SOURCE = Path(__file__).parents[1] / "unit" / "fake_cblas.c"
COMPILER = shutil.which("cc") or shutil.which("gcc")
FAST = ("--dtype", "f32", "--threads", "1", "--sizes", "8,16", "--time-budget", "10")


def compiled(folder: Path, name: str, *flags: str) -> Path:
    path = folder / f"lib{name}.so"
    named = ("-DI=int64_t", "-DNAME(x)=scipy_##x##64_")
    command = [COMPILER or "cc", "-O1", "-shared", "-fPIC", *named, *flags, SOURCE, "-o", path]
    subprocess.run(command, check=True)
    return path


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    return compiled(tmp_path_factory.mktemp("toy"), "toy")


@pytest.fixture
def env(tmp_path):
    return environment(CUDA_VISIBLE_DEVICES="", XDG_STATE_HOME=str(tmp_path / "state"))


@pytest.fixture(scope="module")
def saved(toy, tmp_path_factory):
    """A short run with its exports."""
    folder = tmp_path_factory.mktemp("peers")
    paths = {kind: folder / f"run.{kind}" for kind in ("json", "csv", "markdown")}
    exports = [word for kind, path in paths.items() for word in (f"--export-{kind}", str(path))]
    here = environment(XDG_STATE_HOME=str(folder))
    words = (*FAST, "--classes", "4-16,batch,gemv,python", "--backend", f"cblas:{toy}")
    done = run_suite("peers", *words, *exports, env=here)
    assert done.returncode == 0, done.stderr
    return done, paths


def test_tables_name_both_sides_and_the_bars(saved):
    done, _ = saved
    for words in (
        "4 to 16, f32, 1 thread",
        "libtoy.so",
        "of the FMA peak",
        "of the read bandwidth",
        "np.matmul",
    ):
        assert words in done.stdout, words
    assert "bars are met" in done.stdout


def test_the_record_has_both_kinds_of_visits_and_no_path(saved, toy):
    _, paths = saved
    text = paths["json"].read_text()
    run = json.loads(text)
    visits = {(c["backend"], c["config"].get("visits"), c.get("calls_from", "python")) for c in run["cells"]}
    both = {(name, how, "c") for name in ("native", "cblas:libtoy.so") for how in ("interleaved", "alone")}
    assert both <= visits
    assert {("numpy", how, "python") for how in ("interleaved", "alone")} <= visits
    assert str(toy.parent) not in text
    assert len({c["process_id"] for c in run["cells"]}) == 4


def test_further_rounds_visit_the_same_libraries_among_the_others_and_alone(saved):
    _, paths = saved
    rounds: dict[tuple[str, ...], dict[str, set[int]]] = {}
    for cell in json.loads(paths["json"].read_text())["cells"]:
        config, samples = cell.get("config", {}), cell.get("samples_s")
        if "visits" in config and samples:
            key = (cell["group"], cell["backend"], config.get("call", ""))
            rounds.setdefault(key, {})[config["visits"]] = {*cell["round_of"]}
    assert all(found["interleaved"] == found["alone"] for found in rounds.values())
    assert max(len(found["alone"]) for found in rounds.values()) > 1


def test_exports_say_the_same(saved):
    _, paths = saved
    rows = list(csv.DictReader(paths["csv"].open()))
    assert sum(row["backend"] == "cblas:libtoy.so" for row in rows) >= 8
    assert {row["visits"] for row in rows} == {"interleaved", "alone", ""}
    assert {row["call"] for row in rows} == {"gemm", "prepared", "matmul", ""}
    assert {row["trans_a"] for row in rows if row["op"] == "gemv"} == {"True", "False"}
    assert "| mean against the best peer |" in paths["markdown"].read_text()
    again = run_suite("report", paths["json"], "-q", env=environment())
    assert again.returncode == 0
    assert "bars are met" in again.stdout


def test_a_wrong_library_is_refused_with_its_reason(tmp_path, env):
    wrong = compiled(tmp_path, "wrong", "-DWRONG=1")
    done = run_suite("peers", *FAST, "--backend", f"cblas:{wrong}", env=env)
    assert done.returncode == 1
    assert "computes a small gemm of float32 wrongly" in done.stderr


def test_pinned_to_avx2_and_labelled(toy, env):
    done = run_suite("peers", *FAST, "--isa", "avx2", "--backend", f"cblas:{toy}", "-q", env=env)
    assert done.returncode == 0, done.stderr
    assert "ours and every peer held to AVX2" in done.stdout


def test_more_threads_than_can_run_are_those_that_can(toy, env):
    words = ("--threads", "1,4096", "--backend", f"cblas:{toy}", "--dry-run")
    done = run_suite("peers", *words, env=env)
    assert done.returncode == 0
    assert "note: --threads 4096: " in done.stderr and "4096" not in done.stdout


def test_what_is_no_library_is_refused_in_one_line(env):
    done = run_suite("peers", "--backend", f"cblas:{SOURCE}", env=env)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "fake_cblas.c cannot be loaded: invalid ELF header" in done.stderr


def test_the_plan_is_shown_and_nothing_measured(toy, env):
    done = run_suite("peers", "--dry-run", "--backend", f"cblas:{toy}", env=env)
    assert done.returncode == 0
    assert "ours against cblas:" in done.stdout and "not found here" not in done.stdout
    assert "4-16" in done.stdout and "GFLOP" not in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dtype", "float16"), "dtype 'float16' is unknown"),
        (("--classes", "huge"), "class 'huge' is unknown"),
        (("--threads", "0"), "threads '0' is not a whole number"),
        (("--isa", "sse"), "instruction set 'sse' is unknown"),
        (("--backend", "numpy"), "is no CBLAS"),
        (("--backend", "cblas:/nowhere/lib.so"), "there is no file /nowhere/lib.so"),
        (("--backend", "cblas:lib.so"), "backend 'cblas:lib.so' is unknown: use one of cblas:"),
        (("--backend", "native"), "--backend native is ours"),
        (("--sizes", "9", "--classes", "rectangles"), "--sizes 9 make no problem"),
        (("--time-budget", "none"), "is not a number of seconds"),
    ],
)
def test_wrong_words_are_usage_errors(words, message, env):
    done = run_suite("peers", *words, env=env)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_worker_of_a_dead_library_is_reported(tmp_path, env):
    """One that ends its process in the middle costs its own figures only, and the run says so."""
    dying = compiled(tmp_path, "dying", "-DDIES_AT=8")
    done = run_suite("peers", *FAST, "--classes", "4-16", "--backend", f"cblas:{dying}", env=env)
    assert done.returncode == 0, done.stderr
    assert "ended with status 2" in done.stderr
    shown = [line.split()[0] for line in done.stdout.splitlines() if line[:2].strip() in ("8", "16")]
    assert shown == ["16"]


def test_what_cannot_run_pinned_is_named_and_left_out(tmp_path, env):
    """Usable as the command starts, not under the environment that pins the instruction set."""
    unwilling = compiled(tmp_path, "unwilling", "-DUNLESS_PINNED=1")
    done = run_suite("peers", *FAST, "--isa", "avx2", "--backend", f"cblas:{unwilling}", env=env)
    assert "note: gemm/8x8x8" in done.stderr
    assert "cblas:libunwilling.so cannot run so: " in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupted_run_is_gone_on_with(toy, env, tmp_path):
    journal = tmp_path / "kept.jsonl"
    words = ["peers", *FAST[:4], "--classes", "4-16,24-96", "--backend", f"cblas:{toy}", "-q"]
    words += ["--time-budget", "60", "--journal", str(journal)]
    code, said = interrupted(words, journal, env)
    assert code == 130
    assert said.startswith("error: interrupted: ") and said.count("\n") == 1, said
    assert f"--journal {journal} --resume" in said
    again = run_suite(*words[:-3], "3", *words[-2:], "--resume", env=env)
    assert again.returncode == 0, again.stderr
    assert "bars are met" in again.stdout and not journal.exists()
