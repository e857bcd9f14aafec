"""The command line as a user meets it: exit codes, one-line errors, exports, interruption, no GPU, no TTY."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time

import msgspec
import pytest
import scripted
from click.testing import CliRunner
from scripted import ROOT, environment, records, run_suite

from suite import experiments, journal
from suite.cli import app

FAST = ("--sizes", "8,64", "--transfer", "resident", "--time-budget", "2", "--threads", "1")
SCRIPTED = ("--backend", "scripted-cpu", "--backend", "scripted-gpu")


def invoke(*words, **attributes):
    return CliRunner().invoke(app, [str(word) for word in words], **attributes)


class TestHelp:
    def test_every_command_has_help_with_an_example(self):
        for name in experiments.names():
            result = invoke(name, "--help")
            assert result.exit_code == 0, name
            assert f"gemm-crossover {name}" in result.output, f"{name} shows no example"

    def test_group_help_lists_commands_and_exit_codes(self):
        result = invoke("--help")
        assert result.exit_code == 0
        for word in ("crossover", "doctor", "list", "report", "profiles", "verify", "130 interrupted"):
            assert word in result.output

    def test_version(self):
        assert re.fullmatch(r"gemm-crossover, version \S+\n", invoke("--version").output)

    def test_crossover_help_explains_every_option(self):
        import click

        text = invoke("crossover", "--help").output
        for parameter in experiments.load("crossover").params:
            assert isinstance(parameter, click.Option) and parameter.help
            assert parameter.opts[0] in text

    def test_a_broken_experiment_leaves_the_others_alone(self, monkeypatch):
        load = experiments.load

        def broken(name):
            if name == "doctor":
                raise ImportError("no module named nothing")
            return load(name)

        monkeypatch.setattr(experiments, "load", broken)
        assert invoke("--help").exit_code == 0
        result = invoke("doctor", "--json")
        assert result.exit_code == 1
        assert "doctor cannot be loaded: ImportError: no module named nothing" in result.stderr


def test_without_a_command_the_help_is_shown_as_it_is():
    result = invoke()
    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: ") and "\nCommands:\n" in result.stderr


WRONG = [
    (("nosuch",), "command 'nosuch' is unknown: use one of calibrate, crossover, doctor"),
    (("crossover", "--nosuch"), "--nosuch"),
    (("crossover", "--dtype", "float33"), "'float33' is unknown: use one of float64, float32"),
    (("crossover", "--math", "fp31"), "'fp31' is unknown"),
    (("crossover", "--dtype", "f64", "--math", "tf32"), "tf32 does not compute float64"),
    (("crossover", "--sizes", "64:8"), "start:stop:x2"),
    (("crossover", "--sizes", "0"), "0 is outside 1"),
    (("crossover", "--sizes", "-5"), "-5"),
    (("crossover", "--shape", "round"), "'round' is unknown for gemm"),
    (("crossover", "--shape", "M=1,N=2,K=3", "--sizes", "4"), "one point"),
    (("crossover", "--transfer", "sometimes"), "'sometimes' is unknown: use one of resident"),
    (("crossover", "--host-memory", "paper"), "'paper' is unknown"),
    (("crossover", "--reuse", "0"), "'0' is not a whole number >= 1"),
    (("crossover", "--reuse", "1,,2"), "empty entry"),
    (("crossover", "--threads", "2.5"), "'2.5' is not a whole number >= 1"),
    (("crossover", "--threads", "-1"), "'-1' is not a whole number >= 1"),
    (("crossover", "--time-budget", "soon"), "'soon' is not a number of seconds"),
    (("crossover", "--time-budget", "nan"), "'nan' is not a number of seconds"),
    (("crossover", "--seed", "x"), "'x' is not a whole number >= 0"),
    (("crossover", "--resolution", "2"), "resolution '2' is no part of the size"),
    (("crossover", "--batch", "0"), "'0' is not a whole number"),
    (("crossover", "--backend", "nosuch"), "backend 'nosuch' is unknown: `list` names the "),
    (("crossover", "--op", "gemx"), "'gemx' is unknown: use one of gemm, gemv"),
    (("crossover", "--op", "gemv", "-k", "4"), "-k 4: gemv"),
    (("crossover", "--op", "gemv", "--batch", "2", "--sizes", "8"), "got k = 1, batch = 2"),
    (("crossover", "-m", "4"), "-n, -k missing"),
    (("crossover", "-m", "4", "-n", "4", "-k", "4", "--sizes", "4"), "one or the other"),
    (("crossover", "-m", "4", "-n", "4", "-k", "4", "--shape", "tall"), "no --shape 'tall'"),
    (("crossover", "--export-csv", "x", "--export-json", "./x"), "json and csv both go to"),
    (("crossover", "--export-csv", "-", "--export-markdown", "-"), "csv and markdown both go to '-'"),
    (("crossover", "--export-json", "x", "--journal", "x"), "json and the journal both go to 'x'"),
    (("crossover", "-m", "2000000000", "-n", "2000000000", "-k", "1"), "does not fit: host memory: needs"),
    (("crossover", "--profile", "nosuch"), "no profile 'nosuch'"),
    (("report", "nosuch.json"), "nosuch.json"),
    (("profiles", "build", "--out", "x.json", "--label", "x"), "Missing argument"),
    (("doctor", "extra"), "extra"),
]


@pytest.mark.parametrize(
    ("words", "named"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_bad_input_is_one_clear_line_and_status_2(words, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    result = invoke(*words)
    assert result.exit_code == 2, result.output
    errors = [line for line in result.stderr.splitlines() if not line.startswith("note:")]
    assert len(errors) == 1 and errors[0].startswith("error: ")
    assert named in errors[0]
    assert "Traceback" not in result.output


class TestDryRun:
    def test_prints_the_plan_and_measures_nothing(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        result = invoke(
            "crossover", "--dry-run", "--dtype", "f32,f64", "--reuse", "1,10", "--sizes", "64:256:x2"
        )
        assert result.exit_code == 0
        for text in (
            "64, 128, 256",
            "float32 in fp32",
            "float64 in fp64",
            "once x1, once x10",
            "estimated time",
        ):
            assert text in result.output, text
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("part", "words"), [("2%", "2 %, or one step"), ("1e-9", "1e-07 %, or one step"), ("0", "one step")]
    )
    def test_says_at_which_band_the_search_ends(self, part, words):
        output = invoke("crossover", "--dry-run", "--sizes", "64:256:x2", "--resolution", part).output
        assert f"the search ends at a band of {words} between sizes\n" in output

    def test_estimate_follows_the_budget(self):
        def estimate(*words):
            output = invoke("crossover", "--dry-run", *words).output
            return float(re.search(r"estimated time: (\d+) s", output)[1])

        assert estimate("--time-budget", "2m") == pytest.approx(120, abs=1)
        assert estimate() == pytest.approx(60, abs=1)


class TestOutputPlaces:
    """T05: the output place is looked at before anything is measured."""

    @pytest.mark.parametrize("option", ["--export-json", "--export-csv", "--export-markdown"])
    @pytest.mark.parametrize("place", ["missing/x", "folder", "/proc/x", "/dev/full"])
    def test_found_before_measuring(self, option, place, tmp_path, no_gpu):
        (tmp_path / "folder").mkdir()
        start = time.monotonic()
        done = run_suite("crossover", option, place, env=no_gpu, cwd=tmp_path)
        assert time.monotonic() - start < 2
        assert done.returncode == 2
        assert place in done.stderr and "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 1
        assert done.stdout == ""

    def test_an_existing_file_is_replaced_whole(self, plugin, tmp_path):
        target = tmp_path / "run.json"
        target.write_text("old")
        done = run_suite("crossover", *SCRIPTED, *FAST, "--export-json", target, env=plugin)
        assert done.returncode == 0, done.stderr
        assert json.loads(target.read_text())["experiment"] == "crossover"
        assert [path.name for path in tmp_path.iterdir()] == ["run.json"]

    def test_a_disk_that_fills_later_does_not_swallow_the_table(self, plugin, tmp_path):
        code = (
            "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
            "from suite.cli import main; main()"
        )
        words = ["crossover", *SCRIPTED, *FAST, "--journal", "kept.jsonl", "--export-json", "run.json"]
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(command, env=plugin, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        assert "from which size" in done.stdout
        assert "note: no journal any more" in done.stderr
        assert "error: json could not be written to 'run.json': File too large" in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "run.json").exists()

    @pytest.mark.parametrize("ending", ["| head -0", ">/dev/full", ">&-"])
    def test_a_table_that_cannot_be_shown_does_not_swallow_the_export(self, ending, plugin, tmp_path):
        words = ["-m", "suite", "crossover", *SCRIPTED, *FAST, "--export-json", str(tmp_path / "run.json")]
        command = f"{shlex.join([sys.executable, *words])} {ending}"
        done = subprocess.run(command, shell=True, env=plugin, capture_output=True, text=True, timeout=60)
        assert "Traceback" not in done.stderr and "AttributeError" not in done.stderr
        assert journal.load_run(tmp_path / "run.json").cells

    def test_no_place_for_the_journal_is_a_note(self, plugin, tmp_path):
        (tmp_path / "file").write_text("")
        env = plugin | {"XDG_STATE_HOME": str(tmp_path / "file")}
        done = run_suite("crossover", *SCRIPTED, *FAST, env=env)
        assert done.returncode == 0, done.stderr
        assert "note: --resume will not work: the journal" in done.stderr
        again = run_suite("crossover", *SCRIPTED, *FAST, "--resume", env=env)
        assert again.returncode == 1
        assert "cannot be written" in again.stderr

    def test_json_on_standard_output_leaves_the_table_to_standard_error(self, plugin):
        done = run_suite("crossover", *SCRIPTED, *FAST, "--export-json", "-", env=plugin)
        assert json.loads(done.stdout)["experiment"] == "crossover"
        assert "from which size" in done.stderr

    def test_svg_without_matplotlib_is_said_at_once(self, plugin, tmp_path):
        blocker = tmp_path / "matplotlib"
        blocker.mkdir()
        (blocker / "__init__.py").write_text("raise ImportError('hidden')")
        env = plugin | {"PYTHONPATH": f"{tmp_path}:{plugin['PYTHONPATH']}"}
        done = run_suite("crossover", *SCRIPTED, *FAST, "--export-svg", tmp_path / "x.svg", env=env)
        assert done.returncode == 2
        assert done.stderr == "error: --export-svg needs matplotlib: pip install 'gemm-crossover[plot]'\n"


class TestReducedPrecision:
    """--math tf32: answered with both arithmetics named, beside fp32 only in a row of its own."""

    def test_is_answered_and_labelled(self, plugin, tmp_path):
        target = tmp_path / "run.json"
        words = ("--math", "tf32", "--time-budget", "8", "--export-json", target, "-q")
        done = run_suite("crossover", *SCRIPTED, *FAST, *words, env=plugin)
        assert done.returncode == 0, done.stderr
        assert "float32, CPU fp32 against GPU tf32" in done.stdout and "REDUCED PRECISION" in done.stdout
        found = {(c["device"], c["problem"]["math"]) for c in records(target)}
        assert found == {("cpu", "fp32"), ("cuda", "tf32")}
        again = run_suite("report", target, env=plugin)
        assert again.returncode == 0 and "CPU fp32 against GPU tf32" in again.stdout

    def test_has_a_row_of_its_own_beside_fp32(self, plugin, tmp_path):
        target = tmp_path / "t.md"
        words = ("--math", "fp32,tf32", "--time-budget", "16", "--export-markdown", target, "-q")
        done = run_suite("crossover", *SCRIPTED, *FAST, *words, env=plugin)
        assert done.returncode == 0, done.stderr
        rows = [line for line in target.read_text().splitlines() if line.startswith("| gemm")]
        assert [row.split(" | ")[0] for row in rows] == [
            "| gemm float32, square",
            "| gemm float32, CPU fp32 against GPU tf32, square",
        ]

    def test_without_a_gpu_that_computes_it_there_is_no_verdict(self, plugin):
        words = ("--backend", "scripted-cpu", "--backend", "scripted-gpu", "--math", "bf16", "-q")
        done = run_suite("crossover", *words, *FAST, env=plugin)
        assert done.returncode == 4, done.stderr
        assert "NO VERDICT for float32 in bf16" in done.stdout and "no bf16 here" in done.stdout

    def test_the_plan_names_both(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        result = invoke("crossover", "--dry-run", "--dtype", "f16", "--sizes", "64")
        assert result.exit_code == 0
        assert "reduced precision: CPU float32 against GPU float16" in result.output
        assert "CPU candidates: none" not in result.output
        assert "reduced precision" not in invoke("crossover", "--dry-run", "--sizes", "64").output


class TestBrokenFiles:
    """T04: a cut, empty or foreign result file is named, with status 2."""

    @pytest.mark.parametrize(
        "content", [b"", b"{", b"hello {}", b"[1, 2]", b"\xff\xfe", b'{"schema": 99, "cells": []}']
    )
    @pytest.mark.parametrize("words", [["report"], ["profiles", "build", "--out", "p.json", "--label", "x"]])
    def test_is_named(self, content, words, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "cut.json").write_bytes(content)
        result = invoke(*words, "cut.json")
        assert result.exit_code == 2
        assert "cut.json" in result.stderr and len(result.stderr.splitlines()) == 1
        assert not (tmp_path / "p.json").exists()

    def test_a_cut_run_gives_the_position(self, scripted_run, tmp_path):
        whole = msgspec.json.encode(scripted_run)
        (tmp_path / "cut.json").write_bytes(whole[:500])
        result = invoke("report", tmp_path / "cut.json")
        assert result.exit_code == 2 and "500 bytes" in result.stderr

    def test_a_kill_during_the_write_leaves_the_old_file(self, tmp_path):
        target = tmp_path / "run.json"
        target.write_text("old")
        code = (
            "import os, signal, sys; from suite.journal import atomic_write\n"
            "def half(file):\n"
            "    file.write(b'{'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
            "atomic_write(sys.argv[1], half)\n"
        )
        done = subprocess.run([sys.executable, "-c", code, str(target)], env=environment(), timeout=30)
        assert done.returncode == -signal.SIGKILL
        assert target.read_text() == "old"


class TestReport:
    @pytest.fixture
    def saved(self, scripted_run, tmp_path):
        journal.save_run(tmp_path / "run.json", scripted_run)
        return tmp_path / "run.json"

    def test_shows_a_saved_run_and_exports_it(self, saved, tmp_path):
        result = invoke(
            "report", saved, "--export-markdown", tmp_path / "t.md", "--export-csv", tmp_path / "t.csv"
        )
        assert result.exit_code == 0, result.output
        assert "from which size is the GPU faster" in result.output
        assert "| resident | 23 | 23 |" in (tmp_path / "t.md").read_text()
        assert (tmp_path / "t.csv").read_text().startswith("op,m,n,k")

    def test_shows_a_profile_as_recorded(self, profile_path):
        result = invoke("report", profile_path)
        assert result.exit_code == 0
        assert "RECORDED" in result.output


class TestProfiles:
    def test_build_then_use(self, scripted_run, tmp_path, no_gpu):
        journal.save_run(tmp_path / "run.json", scripted_run)
        built = invoke(
            "profiles", "build", tmp_path / "run.json", "--out", tmp_path / "p.json", "--label", "mine"
        )
        assert built.exit_code == 0, built.output
        words = ("--sizes", "16,32", "--time-budget", "2", "--threads", "1", "--profile", tmp_path / "p.json")
        done = run_suite("crossover", *words, "--export-json", tmp_path / "out.json", env=no_gpu)
        assert done.returncode in (0, 4), done.stderr
        assert "RECORDED: Scripted GPU" in done.stdout and "mine" in done.stdout
        provenance = {
            (c["device"], c["provenance"]) for c in scripted.records(tmp_path / "out.json") if c["samples_s"]
        }
        assert provenance >= {("cpu", "measured"), ("cpu", "recorded"), ("cuda", "recorded")}
        assert ("cuda", "measured") not in provenance

    def test_unlike_machines_are_refused(self, scripted_run, tmp_path):
        other = msgspec.structs.replace(
            scripted_run, machine={**scripted_run.machine, "fingerprint": "f" * 12}
        )
        journal.save_run(tmp_path / "a.json", scripted_run)
        journal.save_run(tmp_path / "b.json", other)
        result = invoke(
            "profiles",
            "build",
            tmp_path / "a.json",
            tmp_path / "b.json",
            "--out",
            tmp_path / "p.json",
            "--label",
            "x",
        )
        assert result.exit_code == 2
        assert "not of one machine" in result.stderr

    def test_listing(self):
        assert invoke("profiles").exit_code == 0


class TestHiddenGpu:
    """C07: CuPy may be there, a device is not."""

    @pytest.mark.parametrize("hidden", ["", "-1", "99"])
    def test_the_cpu_part_runs_and_the_reason_is_shown(self, hidden, no_gpu, profile_path, tmp_path):
        env = no_gpu | {"CUDA_VISIBLE_DEVICES": hidden}
        words = ("--sizes", "16", "--transfer", "resident", "--time-budget", "1", "--threads", "1")
        target = tmp_path / "r.json"
        done = run_suite("crossover", *words, "--profile", profile_path, "--export-json", target, env=env)
        assert done.returncode == 0, done.stderr
        assert "note: no usable GPU: " in done.stderr and "GPU: none usable (" in done.stdout
        measured = [c for c in scripted.records(target) if c["provenance"] == "measured" and c["samples_s"]]
        assert {c["device"] for c in measured} == {"cpu"}

    @pytest.mark.parametrize("asking", [("--require-gpu",), ("--backend", "cublas"), ("--backend", "cuda")])
    def test_asking_for_the_gpu_exits_5_with_one_line(self, asking, no_gpu):
        done = run_suite("crossover", *asking, *FAST, env=no_gpu)
        assert done.returncode == 5
        assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("error: ")
        assert done.stdout == ""

    def test_doctor_and_list_say_why(self, no_gpu):
        found = json.loads(run_suite("doctor", "--json", env=no_gpu).stdout)
        cuda = [b for b in found["backends"] if b["device"] == "cuda"]
        assert cuda and all(not b["ok"] and b["reason"] for b in cuda)
        assert "no: " in run_suite("list", env=no_gpu).stdout


def test_c05_more_threads_than_there_are_is_said_and_the_count_used_is_recorded(no_gpu, tmp_path):
    target = tmp_path / "r.json"
    words = ("--backend", "native", "--threads", "257", "--sizes", "300", "--transfer", "resident")
    done = run_suite("crossover", *words, "--time-budget", "1", "--export-json", target, env=no_gpu)
    assert "note: --threads 257: " in done.stderr
    run = json.loads(target.read_text())
    timed = [cell for cell in run["cells"] if cell["samples_s"]]
    assert timed and {cell["threads"] for cell in timed} == {run["machine"]["threads"]["usable"]}
    assert run["options"]["threads"] == 257


class TestInterruption:
    """C11: Ctrl-C or SIGTERM ends with 130, keeps finished groups, and --resume goes on."""

    LONG = ("--sizes", "8,16,32,48,64,80,96", "--transfer", "resident", "--time-budget", "60")

    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
    def test_finished_groups_are_kept_and_resumed(self, how, plugin, tmp_path):
        target, kept = tmp_path / "run.json", tmp_path / "journal.jsonl"
        words = ["crossover", *SCRIPTED, *self.LONG, "--export-json", str(target), "--journal", str(kept)]
        running = subprocess.Popen(
            [sys.executable, "-m", "suite", *words],
            env=plugin,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.wait_for_group(running, kept)
        running.send_signal(how)
        _, errors = running.communicate(timeout=10)
        assert running.returncode == 130, errors
        assert re.search(r"interrupted: \d+ comparison groups are kept; go on with: ", errors)
        again = errors.partition("go on with: ")[2].strip()
        assert again == shlex.join([sys.executable, "-m", "suite", *words, "--resume"])
        assert "Traceback" not in errors
        assert not target.exists()
        before = journal.load(kept).groups

        short = [
            "crossover",
            *SCRIPTED,
            *self.LONG[:-1],
            "2",
            "--export-json",
            target,
            "--journal",
            kept,
            "--resume",
        ]
        done = run_suite(*short, env=plugin)
        assert done.returncode in (0, 4), done.stderr
        cells = scripted.records(target)
        owners = {c["group"]: {x["process_id"] for x in cells if x["group"] == c["group"]} for c in cells}
        assert all(len(ids) == 1 for ids in owners.values()), "a comparison group spans two processes"
        for group, old in before.items():
            assert owners[group] == {old[0].process_id}, "a finished group was measured again"
        assert not kept.exists()

    @staticmethod
    def wait_for_group(running, kept):
        end = time.monotonic() + 40
        while time.monotonic() < end and running.poll() is None:
            if kept.exists() and b'"group":' in kept.read_bytes() and journal.load(kept).groups:
                return
            time.sleep(0.05)
        pytest.fail(f"no comparison group ended: {running.communicate()}")

    def test_two_interrupts_end_as_well(self, plugin, tmp_path):
        kept = tmp_path / "journal.jsonl"
        words = ["crossover", *SCRIPTED, *self.LONG, "--journal", str(kept)]
        running = subprocess.Popen(
            [sys.executable, "-m", "suite", *words], env=plugin, stderr=subprocess.PIPE, text=True
        )
        self.wait_for_group(running, kept)
        running.send_signal(signal.SIGINT)
        time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=10)
        assert running.returncode in (130, -signal.SIGINT), errors


class TestPlainTerminals:
    def test_no_tty_no_colour_no_progress(self, plugin):
        done = run_suite("crossover", *SCRIPTED, *FAST, env=plugin)
        assert done.returncode in (0, 4), done.stderr
        assert "\x1b" not in done.stdout and "\x1b" not in done.stderr
        assert "left" not in done.stderr

    @pytest.mark.parametrize("columns", ["40", "72"])
    def test_narrow(self, plugin, columns):
        done = run_suite("crossover", *SCRIPTED, *FAST, env=plugin | {"COLUMNS": columns, "NO_COLOR": "1"})
        assert done.returncode in (0, 4), done.stderr
        assert max(map(len, done.stdout.splitlines())) <= int(columns)

    def test_ascii_only_output(self, plugin):
        done = run_suite("crossover", *SCRIPTED, *FAST, env=plugin | {"PYTHONIOENCODING": "ascii"})
        assert done.returncode in (0, 4), done.stderr
        assert done.stdout.isascii() and "from which size" in done.stdout

    def test_a_closed_pipe_is_no_traceback(self, plugin):
        command = f"{sys.executable} -m suite list | head -c 20"
        done = subprocess.run(command, shell=True, env=plugin, capture_output=True, text=True, timeout=60)
        assert "Traceback" not in done.stderr and "Exception" not in done.stderr


class TestProgress:
    def test_words_name_the_group_and_the_time_left(self):
        from suite.harness_settings import Event
        from suite.render.progress import words
        from suite.request import Sweep
        from suite.sweep import Step

        step = Step(Sweep("float32", "fp32", "pageable"), 64, 3, 9, 41.6, Event("round", "g", "", 2, 5))
        assert words(step) == "float32 pageable 64: round, about 42 s left"


class TestDoctor:
    @pytest.fixture
    def found(self):
        result = invoke("doctor", "--json")
        assert result.exit_code == 0
        return json.loads(result.stdout)

    def test_schema(self, found):
        assert found["schema"] == 1
        assert set(found) == {"schema", "machine", "backends", "conflicts"}
        machine = found["machine"]
        assert {"cpu", "threads", "blas", "gpus", "cuda", "compiler", "software", "fingerprint"} <= set(
            machine
        )
        assert {"model", "isa", "caches", "logical_cores", "memory_bytes"} <= set(machine["cpu"])
        assert {"affinity_cpus", "cgroup_cpus", "usable", "environment"} <= set(machine["threads"])
        assert {"driver", "runtime", "nvrtc", "nvcc", "cupy"} <= set(machine["cuda"])

    def test_every_absent_backend_has_a_reason_and_a_cure(self, found):
        for backend in found["backends"]:
            assert backend["ok"] or backend["reason"], backend["name"]
            if not backend["ok"] and backend["device"] == "cuda":
                assert backend["cure"], backend["name"]

    def test_names_the_blas_found(self, found):
        assert any(blas.get("library") for blas in found["machine"]["blas"])

    def test_table_names_what_json_names(self, found):
        output = invoke("doctor").output
        for backend in found["backends"]:
            assert backend["name"].split(":")[0] in output
        assert "threads usable" in output and "C compiler" in output


class TestList:
    def test_names_every_backend_command_and_profile(self):
        import backends

        output = invoke("list").output
        for backend in backends.all_backends():
            assert backend.name in output
        for name in experiments.names():
            assert name in output

    def test_unverified_is_marked(self, plugin):
        found = json.loads(run_suite("list", "--json", env=plugin).stdout)
        assert {"scripted-cpu", "scripted-gpu"} <= {b["name"] for b in found["backends"]}
        table = run_suite("list", env=plugin).stdout.splitlines()
        for backend in found["backends"]:
            row = next(line for line in table if line.startswith(backend["name"] + " "))
            assert ("UNVERIFIED" in row) == (not backend["verified"])


def test_python_dash_m_and_console_script_are_the_same_function():
    assert 'gemm-crossover = "suite.cli:main"' in (ROOT / "pyproject.toml").read_text()
    assert run_suite("--version", env=environment()).stdout.startswith("gemm-crossover, version")


def test_an_unexpected_fault_is_one_line_and_status_1(monkeypatch):
    from suite.experiments import doctor

    def fail():
        raise ZeroDivisionError("seven by zero")

    monkeypatch.setattr(doctor, "examine", fail)
    result = invoke("doctor")
    assert result.exit_code == 1
    assert result.stderr == "error: ZeroDivisionError: seven by zero (GEMM_DEBUG=1 shows where)\n"


def test_progress_with_time_left_on_a_terminal(plugin):
    import os
    import pty

    main, side = pty.openpty()
    command = [sys.executable, "-m", "suite", "crossover", *SCRIPTED, *FAST]
    env = plugin | {"TERM": "xterm", "COLUMNS": "120"}
    done = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=side)
    os.close(side)
    seen = b""
    while True:
        try:
            part = os.read(main, 4096)
        except OSError:  # the other end was closed
            break
        if not part:
            break
        seen += part
    os.close(main)
    assert done.wait(timeout=60) in (0, 4)
    assert re.search(rb"float32 pageable \d+: .*about \d+ s left", seen)
