"""The long steps of the hardware run, without hardware: what is kept, gone on with, and blamed on whom."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from suite import verify_gpu, verify_state, verify_steps
from suite.verify_state import Context, Failed, OutOfTime, Skipped, State

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    monkeypatch.setattr(verify_gpu, "need_gpu", lambda _: None)


class Scripted(Context):
    """What each program it is told to run does, in turn: a function of its words."""

    def __init__(self, out, *programs, budget_s=None):
        super().__init__(out, State(), budget_s)
        self.programs, self.asked = list(programs), []

    def run(self, command, **environment):
        self.asked.append(list(command))
        return self.programs.pop(0)(list(command))


def ended(code=0, text=""):
    return subprocess.CompletedProcess([], code, text, "")


class TestTests:
    def writing(self, code, **outcomes):
        def program(command):
            path = Path(command[command.index("--outcomes") + 1])
            with path.open("a") as file:
                for name, outcome in outcomes.items():
                    file.write(json.dumps({"test": name}) + "\n")
                    if outcome:
                        file.write(json.dumps({"test": name, "outcome": outcome}) + "\n")
            return ended(code)

        return program

    def test_a_spoiled_process_makes_place_for_another(self, tmp_path):
        c = Scripted(tmp_path, self.writing(2, a="passed", b=""), self.writing(0, b="error", c="passed"))
        with pytest.raises(Failed, match="2 passed, 1 failed, 0 skipped; failed: b") as caught:
            verify_gpu.tests(c)
        assert caught.value.result["tests"] == {"a": "passed", "b": "error", "c": "passed"}
        assert list(tmp_path.glob("running-*")) == [], "the next call begins anew"

    def test_what_did_not_fit_is_left_for_the_next_call(self, tmp_path):
        def late(command):
            self.writing(0, a="passed")(command)
            raise OutOfTime("late")

        with pytest.raises(OutOfTime):
            verify_gpu.tests(Scripted(tmp_path, late))
        assert len(list(tmp_path.glob("running-tests*"))) == 1
        found = verify_gpu.tests(Scripted(tmp_path, self.writing(0, b="skipped: no room")))
        assert found["tests"] == {"a": "passed", "b": "skipped: no room"}
        assert found["summary"] == "1 passed, 0 failed, 1 skipped"

    def test_pytest_that_runs_nothing_is_not_tried_for_ever(self, tmp_path):
        c = Scripted(tmp_path, lambda _: ended(4, "usage"), lambda _: ended(4))
        with pytest.raises(Failed, match="pytest ended with 4 and no test was run: usage"):
            verify_gpu.tests(c)


EXAMPLE = """
import os, pytest
@pytest.mark.parametrize("x", range(4))
def test_one(x):
    if os.environ.get("CRASH") == str(x):
        os._exit(7)
    assert x != 3
def test_skipped():
    pytest.skip("no reason")
"""


class TestOutcomes:
    """The plugin, in processes of its own."""

    def run(self, folder, **environment):
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.outcomes"]
        words += ["--outcomes", str(folder / "kept"), "--rootdir", str(folder), str(folder / "test_x.py")]
        env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **environment}
        return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)

    def test_a_run_goes_on_where_a_crash_ended_it(self, tmp_path):
        (tmp_path / "test_x.py").write_text(EXAMPLE)
        for _ in range(2):  # the first time it may have been stopped
            assert self.run(tmp_path, CRASH="2").returncode == 7
        again = self.run(tmp_path)
        assert again.returncode == 1 and "3 deselected" in again.stdout, again.stdout
        found = verify_gpu.outcomes(verify_gpu.Kept(tmp_path / "kept").read())
        assert found == {
            "test_x::test_one[0]": "passed",
            "test_x::test_one[1]": "passed",
            "test_x::test_one[2]": "error",
            "test_x::test_one[3]": "failed",
            "test_x::test_skipped": "skipped: Skipped: no reason",
        }
        assert self.run(tmp_path).returncode == 5, "nothing is left"

    def test_a_test_that_was_stopped_once_is_run_again(self, tmp_path):
        (tmp_path / "test_x.py").write_text(EXAMPLE)
        self.run(tmp_path, CRASH="2")
        assert self.run(tmp_path).returncode == 1
        found = verify_gpu.outcomes(verify_gpu.Kept(tmp_path / "kept").read())
        assert found["test_x::test_one[2]"] == "passed"

    def test_a_cuda_error_that_spoils_the_process_ends_it(self, tmp_path):
        (tmp_path / "test_x.py").write_text(EXAMPLE)
        spoil = "from tests import outcomes\noutcomes.spoiled = lambda: True\n"
        (tmp_path / "conftest.py").write_text(spoil)
        (tmp_path / "test_y.py").write_text("def test_after():\n    pass\n")
        assert self.run(tmp_path).returncode == 2
        found = verify_gpu.outcomes(verify_gpu.Kept(tmp_path / "kept").read())
        assert found["test_x::test_one[3]"] == "failed" and "test_x::test_skipped" not in found
        assert self.run(tmp_path).returncode == 0, "the next process runs what is left"

    def test_a_torn_line_is_ignored(self, tmp_path):
        (tmp_path / "test_x.py").write_text(EXAMPLE)
        (tmp_path / "kept").write_text('{"test": "test_x::test_one[0]", "outcome": "passed"}\n{"test": "te')
        assert "1 deselected" in self.run(tmp_path).stdout


REPORT = """========= COMPUTE-SANITIZER
begin cuda:01_naive
end cuda:01_naive right: float32: 9 products
begin cuda:02_shared_tile
========= Invalid __global__ read of size 4 bytes
=========     at shared_tile+0x190
end cuda:02_shared_tile right: float32: 9 products
begin cuda:02_shared_tile/16
========= ERROR SUMMARY: 2 errors
"""


class TestSanitize:
    @pytest.fixture(autouse=True)
    def tool(self, monkeypatch):
        monkeypatch.setattr(verify_gpu, "find_sanitizer", lambda: "compute-sanitizer")

    def test_a_report_is_blamed_on_the_kernel_it_stands_in(self):
        assert verify_gpu.verdicts(REPORT, 9) == {
            "cuda:01_naive": "right: float32: 9 products",
            "cuda:02_shared_tile": "Invalid __global__ read of size 4 bytes; at shared_tile+0x190",
            "cuda:02_shared_tile/16": "the process ended with 9",
        }

    def test_what_is_said_late_or_by_the_exit_status_alone_speaks_against_the_last_kernel(self):
        right = "begin a\nend a right: float32: 9 products\nbegin b\nend b right: float32: 9 products\n"
        late = right + "========= Invalid __global__ write of size 4 bytes\n"
        assert verify_gpu.verdicts(right, 0)["b"].startswith("right")
        assert verify_gpu.verdicts(late, 9)["b"].startswith("Invalid __global__ write")
        assert verify_gpu.verdicts(right, 9)["b"] == "the process ended with 9"
        assert verify_gpu.verdicts(late, 9)["a"].startswith("right")

    def all_right(self, command):
        """Two kernels a process."""
        names = command[command.index("--seconds") + 2 :][:2]
        return ended(0, "".join(f"begin {n}\nend {n} right: float32: 1 products\n" for n in names))

    def test_every_kernel_is_run_however_many_processes_it_takes(self, tmp_path):
        c = Scripted(tmp_path, *[self.all_right] * 100)
        found = verify_gpu.sanitize(c, "racecheck")
        assert list(found["kernels"]) == verify_gpu.unseen([])
        assert len(c.asked) == -(-len(found["kernels"]) // 2)
        assert c.asked[0][:3] == ["compute-sanitizer", "--tool", "racecheck"]
        assert list(tmp_path.glob("running-*")) == []

    def test_kernels_that_are_left_wait_for_the_next_call(self, tmp_path):
        with pytest.raises(IndexError):  # as when the machine goes away
            verify_gpu.sanitize(Scripted(tmp_path, self.all_right), "memcheck")
        c = Scripted(tmp_path, *[self.all_right] * 100)
        verify_gpu.sanitize(c, "memcheck")
        assert "cuda:01_naive" not in c.asked[0]
        with pytest.raises(OutOfTime, match="kernels are left: cuda:01_naive is next"):
            verify_gpu.sanitize(Scripted(tmp_path, budget_s=30.0), "memcheck")

    def test_one_wrong_kernel_fails_the_step_and_is_named(self, tmp_path):
        c = Scripted(tmp_path, lambda _: ended(9, REPORT), *[self.all_right] * 100)
        with pytest.raises(Failed, match="memcheck: 2 kernels: cuda:02_shared_tile: Invalid") as caught:
            verify_gpu.sanitize(c, "memcheck")
        assert caught.value.result["kernels"]["cuda:01_naive"].startswith("right")

    def test_a_tool_that_runs_nothing_fails(self, tmp_path):
        with pytest.raises(Failed, match="ended with 255 and ran no kernel: Device not supported"):
            verify_gpu.sanitize(Scripted(tmp_path, lambda _: ended(255, "Device not supported")), "memcheck")

    def test_without_the_tool_it_is_skipped(self, tmp_path, monkeypatch):
        monkeypatch.setattr(verify_gpu, "find_sanitizer", lambda: None)
        with pytest.raises(Skipped, match="compute-sanitizer was not found"):
            verify_gpu.sanitize(Scripted(tmp_path), "memcheck")


def test_verdicts_that_speak_against_a_kernel():
    against = verify_gpu.speaks_against
    assert against("wrong: float32: AssertionError") and against("Invalid __global__ write")
    assert not against("right: float32: 3 products") and not against("not run: float16: needs 9.0")


def test_the_steps_are_those_of_the_command(tmp_path):
    from suite.experiments import verify

    names = list(verify.all_steps(tmp_path))
    assert {f"sanitize:{tool}" for tool in verify_gpu.TOOLS} < set(names)
    assert verify.chosen(("sanitize",), (), names) == [
        "build",
        "compile",
        *(f"sanitize:{tool}" for tool in verify_gpu.TOOLS),
        "record",
        "compare",
        "profile",
    ]
    assert "ladder-cuda" in names and verify_state.MOST_FILES == 8 and verify_steps.LADDER
