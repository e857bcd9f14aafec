"""The long steps of the hardware run, without hardware: what is kept, gone on with, and blamed on whom."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from suite import verify_gpu, verify_record, verify_state, verify_steps
from suite.exits import Stop
from suite.verify_gpu import Workers
from suite.verify_state import Context, Failed, Kept, OutOfTime, Skipped, State
from tests import gpu_sanitize, outcomes

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    """There is one, which the programs of a test use one after the other if it does not say otherwise."""
    monkeypatch.setattr(verify_gpu, "need_gpu", lambda _: None)
    share(monkeypatch, 1)


def share(monkeypatch, processes, large_beside=False):
    monkeypatch.setattr(verify_gpu, "workers", lambda _: Workers(processes, 2, large_beside))


class Scripted(Context):
    """What each program it is told to run does, in turn: a function of its words. The last stays."""

    def __init__(self, out, *programs, budget_s=None):
        super().__init__(out, State(), budget_s)
        self.programs, self.asked, self.environments = list(programs), [], []

    def run(self, command, *, watch=None, **environment):
        self.asked.append(list(command))
        self.environments.append(environment)
        program = self.programs.pop(0) if len(self.programs) > 1 else self.programs[0]
        done = program(list(command))
        if watch and done.stdout:
            watch(done.stdout)
        return done


def ended(code=0, text=""):
    return subprocess.CompletedProcess([], code, text, "")


def part_of(command):
    return command[command.index("--part") + 1]


class TestTests:
    def writing(self, code, **outcomes):
        def program(command):
            file = Kept(Path(command[command.index("--outcomes") + 1]))
            for name, outcome in outcomes.items():
                begun = {"test": name, "part": part_of(command)}
                file.append([begun, begun | {"outcome": outcome}] if outcome else [begun])
            return ended(code)

        return program

    def nothing(self, _):
        return ended(5)

    def test_a_spoiled_process_makes_place_for_another(self, tmp_path):
        spoiled = self.writing(2, a="passed", b="")
        c = Scripted(tmp_path, spoiled, self.writing(0, b="error", c="passed"), self.nothing)
        with pytest.raises(Failed, match="2 passed, 1 failed, 0 skipped; failed: b") as caught:
            verify_gpu.tests(c)
        assert caught.value.result["tests"] == {"a": "passed", "b": "error", "c": "passed"}
        assert list(tmp_path.glob("running-*")) == [], "the next call begins anew"

    def test_what_did_not_fit_is_left_for_the_next_call(self, tmp_path):
        def late(command):
            self.writing(0, a="passed", b="")(command)
            raise OutOfTime("late")

        with pytest.raises(OutOfTime):
            verify_gpu.tests(Scripted(tmp_path, late))
        (path,) = tmp_path.glob("running-tests*")
        assert Kept(path).read()[-1] == {"test": "b", "part": "0/1", "stopped": True}
        found = verify_gpu.tests(Scripted(tmp_path, self.writing(0, b="skipped: no room"), self.nothing))
        assert found["tests"] == {"a": "passed", "b": "skipped: no room"}
        assert found["summary"] == "1 passed, 0 failed, 1 skipped"

    def test_a_machine_that_goes_away_again_and_again_is_no_fault_of_a_test(self, tmp_path, monkeypatch):
        share(monkeypatch, 2)

        def begun(command, test):
            path = Path(command[command.index("--outcomes") + 1])
            return outcomes.Outcomes(path, "rest", "").begun.get(test, 0)

        def gone(command):
            if part_of(command) == "0/2" and not begun(command, "crash"):
                return self.writing(-11, crash="")(command)
            self.writing(0, **{f"at {part_of(command)}": ""})(command)
            raise IndexError  # nothing more is written

        for _ in range(3):
            with pytest.raises(IndexError):
                verify_gpu.tests(Scripted(tmp_path, gone))

        def last(command):
            assert begun(command, "at 0/2") == begun(command, "at 1/2") == 0
            assert begun(command, "crash") == 1, "which a process died of"
            return self.writing(0, crash="passed")(command)

        share(monkeypatch, 1)
        with pytest.raises(Failed, match="failed: at "):  # this program does not run them again
            verify_gpu.tests(Scripted(tmp_path, last, self.nothing))

    def test_pytest_that_runs_nothing_is_not_tried_for_ever(self, tmp_path):
        c = Scripted(tmp_path, lambda _: ended(4, "usage"))
        with pytest.raises(Failed, match="pytest ended with 4 and no test was run: usage"):
            verify_gpu.tests(c)
        assert len(c.asked) == 1

    def test_a_part_that_never_comes_to_an_end_is_no_result(self, tmp_path):
        crash = itertools.count()

        def program(command):
            return self.writing(-11, **{f"crash {next(crash)}": "error"})(command)

        with pytest.raises(Failed, match="part 0/1 of the tests took more than 40 processes"):
            verify_gpu.tests(Scripted(tmp_path, program))

    def test_shards_run_side_by_side_and_what_needs_the_machine_after_them(self, tmp_path, monkeypatch):
        share(monkeypatch, 3, large_beside=True)
        together = threading.Barrier(4, timeout=20)

        def program(command):
            if part_of(command) != "rest":
                together.wait()  # breaks where they come one after the other
            return self.writing(0, **{part_of(command): "passed"})(command)

        c = Scripted(tmp_path, program)
        found = verify_gpu.tests(c)
        assert found["tests"] == dict.fromkeys(found["tests"], "passed")
        assert set(found["tests"]) == {"0/3", "1/3", "2/3", "large", "rest"}
        assert part_of(c.asked[-1]) == "rest" and c.environments[-1] == {}
        assert c.environments[0] == dict.fromkeys(verify_gpu.THREADS, "2")

    def test_a_shard_that_ends_too_soon_is_the_only_one_begun_again(self, tmp_path, monkeypatch):
        share(monkeypatch, 3)
        crashed = []

        def program(command):
            if part_of(command) == "1/3" and not crashed:
                crashed.append(command)
                return self.writing(-11, first="passed", crash="")(command)
            return self.writing(0, **{part_of(command): "passed"})(command)

        c = Scripted(tmp_path, program)
        with pytest.raises(Failed, match="5 passed, 1 failed, 0 skipped; failed: crash"):
            verify_gpu.tests(c)
        assert sorted(map(part_of, c.asked)) == ["0/3", "1/3", "1/3", "2/3", "rest"]

    def test_a_fault_of_one_shard_lets_the_others_end_and_outweighs_want_of_time(self, tmp_path, monkeypatch):
        share(monkeypatch, 3)

        def program(command):
            if part_of(command) == "0/3":
                raise OutOfTime("late")
            if part_of(command) == "1/3":  # what others write meanwhile is no success of its own
                path = Path(command[command.index("--outcomes") + 1])
                Kept(path).append([{"test": "good", "part": "2/3", "outcome": "passed"}])
                return ended(4, "usage")
            return self.writing(0, good="passed")(command)

        c = Scripted(tmp_path, program)
        with pytest.raises(Failed, match="no test was run"):
            verify_gpu.tests(c)
        assert sorted(map(part_of, c.asked)) == ["0/3", "1/3", "2/3"]
        (path,) = tmp_path.glob("running-tests*")
        assert verify_gpu.outcomes(Kept(path).read()) == {"good": "passed"}


class TestSomeKernels:
    """`--kernels`: for somebody who works on one; never enough to call it verified."""

    @pytest.fixture(autouse=True)
    def tool(self, monkeypatch):
        monkeypatch.setattr(verify_gpu, "find_sanitizer", lambda: "compute-sanitizer")

    def some(self, folder, program, *kernels):
        c = Scripted(folder, program)
        c.kernels = list(kernels)
        return c

    def test_tests_of_others_are_left_for_a_call_for_all(self, tmp_path):
        one, other = "test[cuda:07_warp_tile-float32]", "test[cuda:07_warp_tile/sliced-float32]"

        def program(command):
            mine = one if "--kernels" in command else other
            return TestTests().writing(0, **{mine: "failed" if mine == one else "passed"})(command)

        c = self.some(tmp_path, program, "cuda:07_warp_tile", "cuda:01_naive")
        outcome = verify_state.run_step(c, "tests", verify_gpu.tests, "hash")
        assert outcome.status == "unfinished" and outcome.result == {}
        assert outcome.reason == f"only cuda:07_warp_tile, cuda:01_naive: 1 tests, failed: {one}"
        assert c.asked[0][-1] == "cuda:07_warp_tile,cuda:01_naive"
        whole = verify_state.run_step(Scripted(tmp_path, program), "tests", verify_gpu.tests, "hash")
        assert whole.result["tests"] == {one: "failed", other: "passed"}

    def test_sanitizers_see_these_and_the_step_stays_unfinished(self, tmp_path):
        seen = []

        def program(command):
            seen.extend(command[command.index("--claims") + 2 :])
            return TestSanitize().all_right(command, most=1)

        c = self.some(tmp_path, program, "cuda:07_warp_tile", "cuda:01_naive")
        sanitize = partial(verify_gpu.sanitize, tool="racecheck")
        outcome = verify_state.run_step(c, "sanitize:racecheck", sanitize, "hash")
        assert set(seen) == {"cuda:07_warp_tile", "cuda:01_naive"}
        assert (outcome.status, outcome.result) == ("unfinished", {})
        assert outcome.reason == "only cuda:07_warp_tile, cuda:01_naive: racecheck finds nothing wrong"
        with pytest.raises(Skipped):
            verify_record.write_verified(c, tmp_path / "in_place.json")
        seen.clear()
        verify_state.run_step(Scripted(tmp_path, program), "sanitize:racecheck", sanitize, "hash")
        assert "cuda:01_naive" not in seen and "cuda:02_shared_tile" in seen

    def test_what_is_wrong_is_said(self, tmp_path):
        wrong = "begin cuda:01_naive\nend cuda:01_naive wrong: float32: off\n"
        c = self.some(tmp_path, lambda _: ended(1, wrong), "cuda:01_naive")
        with pytest.raises(OutOfTime, match="only cuda:01_naive: memcheck finds cuda:01_naive: wrong: float"):
            verify_gpu.sanitize(c, "memcheck")

    def test_kernels_are_named_by_a_pattern(self):
        from suite.experiments import verify

        assert verify.matching("") == []
        assert verify.matching("07_*") == verify.matching("cuda:07_*") != []
        assert all(name.startswith("cuda:07_") for name in verify.matching("07_*"))
        with pytest.raises(Stop, match="'99_\\*' matches none of cuda:01_naive"):
            verify.matching("99_*")

    def test_a_part_does_not_replace_the_whole(self, tmp_path):
        from suite.experiments import verify

        words = ["--out", str(tmp_path), "--kernels", "07_*", "--redo"]
        with pytest.raises(Stop, match="--redo with --kernels"):
            verify.command.main(words, standalone_mode=False)


@pytest.mark.parametrize(
    ("cpus", "gigabytes", "expected"),
    [
        (16, 139, Workers(12, 1, True)),
        (64, 139, Workers(12, 5, True)),
        (16, 24, Workers(6, 2, False)),
        (2, 80, Workers(2, 1, True)),
        (8, 0, Workers(1, 8, False)),
    ],
)
def test_processes_are_as_many_as_cpus_and_device_memory_allow(cpus, gigabytes, expected):
    assert verify_gpu.sharing(cpus, gigabytes << 30) == expected


@pytest.mark.parametrize(("said", "processes"), [("151397597184\n", 4), ("Traceback\n", 1), ("", 1)])
def test_the_device_is_asked_for_its_memory(tmp_path, monkeypatch, said, processes):
    monkeypatch.undo()
    monkeypatch.setattr(verify_gpu, "allowed_cpus", lambda: 4)
    assert verify_gpu.workers(Scripted(tmp_path, lambda _: ended(0, said))).processes == processes


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


APART = """
import pytest, time
def test_on_the_cpu():
    assert False, "left out by -m gpu, and no part of the dealing"
@pytest.mark.gpu
@pytest.mark.large
def test_large():
    pass
@pytest.mark.gpu
@pytest.mark.alone
def test_alone():
    pass
@pytest.mark.gpu
@pytest.mark.parametrize("x", range(8))
def test_one(x):
    time.sleep(0.05)
"""


NAMED = """
import pytest
@pytest.mark.parametrize("x", ["cuda:a", "cuda:a/two", "cuda:a_b", "cuda:b", "cuda:b/two"])
def test_named(x):
    pass
"""


GPU = """
import pytest
@pytest.mark.gpu
def test_one():
    pass
"""


class TestOutcomes:
    """The plugin, in processes of its own."""

    def start(self, folder, *options, **environment):
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.outcomes"]
        words += ["--outcomes", str(folder / "kept"), "--rootdir", str(folder), str(folder / "test_x.py")]
        env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **environment}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen([*words, *options], cwd=folder, env=env, **pipes)

    def run(self, folder, *options, **environment):
        running = self.start(folder, *options, **environment)
        text, _ = running.communicate()
        return subprocess.CompletedProcess([], running.returncode, text)

    def test_a_run_goes_on_where_a_crash_ended_it(self, tmp_path):
        (tmp_path / "test_x.py").write_text(EXAMPLE)
        for _ in range(2):  # the first time it may have been stopped
            assert self.run(tmp_path, CRASH="2").returncode == 7
        again = self.run(tmp_path)
        assert again.returncode == 1 and "3 deselected" in again.stdout, again.stdout
        found = verify_gpu.outcomes(Kept(tmp_path / "kept").read())
        assert found == {
            "test_x::test_one[0]": "passed",
            "test_x::test_one[1]": "passed",
            "test_x::test_one[2]": "error",
            "test_x::test_one[3]": "failed",
            "test_x::test_skipped": "skipped: Skipped: no reason",
        }
        assert self.run(tmp_path).returncode == 5, "nothing is left"

    def test_tests_have_one_name_wherever_the_file_is_and_whether_it_exists(self, tmp_path, monkeypatch):
        monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
        for folder in ("checkout/tests", "results"):
            (tmp_path / folder).mkdir(parents=True)
        (tmp_path / "checkout/pyproject.toml").write_text(
            '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n'
        )
        (tmp_path / "checkout/tests/test_z.py").write_text(GPU)
        context, file = (
            Context(tmp_path / "results", State(), root=tmp_path / "checkout"),
            tmp_path / "results/kept",
        )
        context.env["PYTHONPATH"] = str(ROOT)
        for part in ("0/2", "1/2", "rest"):
            verify_gpu.run_part(context, Kept(file), part, {})
        found = Kept(file).read()
        assert [line["test"] for line in found if "outcome" in line] == ["test_z::test_one"]

    def test_a_test_that_was_stopped_once_is_run_again(self, tmp_path):
        (tmp_path / "test_x.py").write_text(EXAMPLE)
        self.run(tmp_path, CRASH="2")
        assert self.run(tmp_path).returncode == 1
        found = verify_gpu.outcomes(Kept(tmp_path / "kept").read())
        assert found["test_x::test_one[2]"] == "passed"

    def test_a_cuda_error_that_spoils_the_process_ends_it(self, tmp_path):
        (tmp_path / "test_x.py").write_text(EXAMPLE)
        spoil = "from tests import outcomes\noutcomes.spoiled = lambda: True\n"
        (tmp_path / "conftest.py").write_text(spoil)
        (tmp_path / "test_y.py").write_text("def test_after():\n    pass\n")
        assert self.run(tmp_path).returncode == 2
        found = verify_gpu.outcomes(Kept(tmp_path / "kept").read())
        assert found["test_x::test_one[3]"] == "failed" and "test_x::test_skipped" not in found
        assert self.run(tmp_path).returncode == 0, "the next process runs what is left"

    def test_a_torn_line_is_ignored(self, tmp_path):
        (tmp_path / "test_x.py").write_text(EXAMPLE)
        (tmp_path / "kept").write_text('{"test": "test_x::test_one[0]", "outcome": "passed"}\n{"test": "te')
        assert "1 deselected" in self.run(tmp_path).stdout
        again = self.run(tmp_path)
        assert again.returncode == 5, "nor does it spoil the line after it: nothing is left"

    def test_parts_side_by_side_run_every_test_once(self, tmp_path):
        (tmp_path / "test_x.py").write_text(APART)
        running = [
            self.start(tmp_path, "--part", part, "-m", "gpu") for part in ("0/3", "1/3", "2/3", "large")
        ]
        assert [process.wait() for process in running] == [0] * 4, [p.stdout.read() for p in running]
        assert self.run(tmp_path, "--part", "rest", "-m", "gpu").returncode == 0
        begun = {
            line["test"]: line["part"] for line in Kept(tmp_path / "kept").read() if "outcome" not in line
        }
        lines = Kept(tmp_path / "kept").read()
        assert len(lines) == 2 * len(begun) == 20, "each test begins once and ends once"
        assert begun.pop("test_x::test_large") == "large" and begun.pop("test_x::test_alone") == "rest"
        assert begun == {f"test_x::test_one[{i}]": f"{i % 3}/3" for i in range(8)}

    def test_whose_test_it_is_does_not_depend_on_what_has_been_run(self, tmp_path):
        (tmp_path / "test_x.py").write_text(APART)
        done = [{"test": f"test_x::test_one[{i}]", "part": "rest", "outcome": "passed"} for i in (0, 1, 2, 4)]
        Kept(tmp_path / "kept").append(done)
        self.run(tmp_path, "--part", "1/3", "-m", "gpu")
        assert {line["test"] for line in Kept(tmp_path / "kept").read() if line["part"] == "1/3"} == {
            "test_x::test_one[7]"
        }

    def test_only_tests_that_name_a_kernel_asked_for_are_run(self, tmp_path):
        (tmp_path / "test_x.py").write_text(NAMED)
        self.run(tmp_path, "--kernels", "cuda:a,cuda:b/two", "--part", "0/2")
        self.run(tmp_path, "--kernels", "cuda:a,cuda:b/two", "--part", "rest")
        assert list(verify_gpu.outcomes(Kept(tmp_path / "kept").read())) == [
            "test_x::test_named[cuda:a]",
            "test_x::test_named[cuda:b/two]",
        ]

    def test_what_is_left_of_any_part_is_run_at_last(self, tmp_path):
        (tmp_path / "test_x.py").write_text(APART)
        self.run(tmp_path, "--part", "0/3", "-m", "gpu")
        self.run(tmp_path, "--part", "rest", "-m", "gpu")
        assert len(verify_gpu.outcomes(Kept(tmp_path / "kept").read())) == 10

    def test_a_test_under_way_elsewhere_is_no_error(self, tmp_path):
        """Begun twice, the second time by a process that has not ended: it is that one's to judge."""
        (tmp_path / "test_x.py").write_text(APART)
        Kept(tmp_path / "kept").append([{"test": "test_x::test_one[0]", "part": "0/3"}] * 2)
        self.run(tmp_path, "--part", "1/3", "-m", "gpu")
        assert verify_gpu.outcomes(Kept(tmp_path / "kept").read()[2:]) == {
            f"test_x::test_one[{i}]": "passed" for i in (1, 4, 7)
        }
        self.run(tmp_path, "--part", "0/3", "-m", "gpu")
        assert verify_gpu.outcomes(Kept(tmp_path / "kept").read())["test_x::test_one[0]"] == "error"

    def test_a_test_stopped_for_want_of_time_has_shown_nothing(self, tmp_path):
        (tmp_path / "test_x.py").write_text(APART)
        begun = {"test": "test_x::test_one[0]", "part": "0/3"}
        Kept(tmp_path / "kept").append([begun, begun | {"stopped": True}] * 2)
        self.run(tmp_path, "--part", "0/3", "-m", "gpu")
        assert verify_gpu.outcomes(Kept(tmp_path / "kept").read())["test_x::test_one[0]"] == "passed"


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

    def taken(self, command, most):
        """The kernels that a process gets hold of; at most so many."""
        names = command[command.index("--claims") + 2 :]
        claims = Path(command[command.index("--claims") + 1])
        return list(itertools.islice((name for name in names if gpu_sanitize.claimed(name, claims)), most))

    def all_right(self, command, most=2):
        """Two kernels a process."""
        names = self.taken(command, most)
        return ended(0, "".join(f"begin {n}\nend {n} right: float32: 1 products\n" for n in names))

    def test_every_kernel_is_run_however_many_processes_it_takes(self, tmp_path):
        c = Scripted(tmp_path, self.all_right)
        found = verify_gpu.sanitize(c, "racecheck")
        assert list(found["kernels"]) == verify_gpu.unseen([])
        assert len(c.asked) == -(-len(found["kernels"]) // 2)
        assert c.asked[0][:3] == ["compute-sanitizer", "--tool", "racecheck"]
        assert list(tmp_path.glob("running-*")) == []

    def test_processes_side_by_side_share_the_kernels(self, tmp_path, monkeypatch):
        share(monkeypatch, 4)
        together = threading.Barrier(4, timeout=20)
        shares = []

        def program(command):
            together.wait()
            shares.append(self.taken(command, most=20))
            return ended(0, "".join(f"begin {n}\nend {n} right: float32: 1\n" for n in shares[-1]))

        c = Scripted(tmp_path, program)
        found = verify_gpu.sanitize(c, "memcheck")
        assert sorted(itertools.chain(*shares)) == sorted(found["kernels"]) == sorted(verify_gpu.unseen([]))
        assert c.environments[0] == dict.fromkeys(verify_gpu.THREADS, "2")
        assert set(verify_gpu.SHARING) < set(c.asked[0]), "else ten find a port at most"

    def test_real_processes_run_every_kernel_once(self, tmp_path, monkeypatch):
        """The script itself in three processes, under a program that only starts it; a GPU is not needed."""
        share(monkeypatch, 3)
        program = tmp_path / "sanitizer"
        start = 'while [ "$1" != "$PYTHON" ]; do shift; done; exec "$@"'
        program.write_text(f"#!/bin/sh\n{start}\n")
        program.chmod(0o755)
        monkeypatch.setattr(verify_gpu, "find_sanitizer", lambda: str(program))
        c = Context(tmp_path, State())
        c.env |= {"PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
        found = verify_gpu.sanitize(c, "synccheck")["kernels"]
        assert sorted(found) == sorted(verify_gpu.unseen([]))
        begun = [line for line in (tmp_path / "log.txt").read_text().splitlines() if line.startswith("begin")]
        assert sorted(begun) == sorted(f"begin {name}" for name in found)
        assert all(verdict.startswith("not run: ") for verdict in found.values()), found

    def test_a_cut_off_loses_only_the_kernel_under_way(self, tmp_path):
        """In programs of their own: each prints as the kernels end, and never ends with the third."""
        names = verify_gpu.unseen([])
        text = "".join(f"begin {n}\nend {n} right: float32: 1\n" for n in names[:2]) + f"begin {names[2]}\n"
        script = f"import time; print({text!r}, flush=True); time.sleep(60)"
        c = Context(tmp_path, State(), budget_s=2.0)
        file = Kept(tmp_path / "running")
        with pytest.raises(OutOfTime):
            verify_gpu.watched(c, file, [sys.executable, "-c", script], {})
        assert file.read() == [{"kernel": n, "verdict": "right: float32: 1"} for n in names[:2]]

    def test_what_is_said_after_the_end_of_a_kernel_still_counts(self, tmp_path):
        late = "begin a\nend a right: float32: 1\n", "========= Invalid __global__ write\n"
        script = f"import sys, time; print({late[0]!r}, flush=True); time.sleep(1.5); print({late[1]!r})"
        file = Kept(tmp_path / "running")
        verify_gpu.watched(Context(tmp_path, State()), file, [sys.executable, "-c", script], {})
        assert file.read() == [{"kernel": "a", "verdict": "Invalid __global__ write"}]

    def test_kernels_that_are_left_wait_for_the_next_call(self, tmp_path):
        def gone(_):
            raise IndexError

        with pytest.raises(IndexError):  # as when the machine goes away
            verify_gpu.sanitize(Scripted(tmp_path, self.all_right, gone), "memcheck")
        first, _, third = verify_gpu.unseen([])[:3]
        c = Scripted(tmp_path, self.all_right)
        verify_gpu.sanitize(c, "memcheck")
        assert first not in c.asked[0] and third in c.asked[0]
        with pytest.raises(OutOfTime, match=f"kernels are left: {first} is next"):
            verify_gpu.sanitize(Scripted(tmp_path, budget_s=30.0), "memcheck")

    def test_one_wrong_kernel_fails_the_step_and_is_named(self, tmp_path):
        c = Scripted(tmp_path, lambda _: ended(9, REPORT), self.all_right)
        with pytest.raises(Failed, match="memcheck: 1 kernels: cuda:02_shared_tile: Invalid") as caught:
            verify_gpu.sanitize(c, "memcheck")
        assert caught.value.result["kernels"]["cuda:01_naive"].startswith("right")

    @pytest.mark.parametrize(
        "text", ["", "end {0} wrong: float32: Unavailable: 5 bytes of device memory are needed, 4 are free\n"]
    )
    @pytest.mark.parametrize("times", [1, 2])
    def test_a_death_or_want_of_memory_counts_when_it_comes_again_to_a_process_alone(
        self, tmp_path, monkeypatch, text, times
    ):
        share(monkeypatch, 3)
        name, tries = "cuda:01_naive", []

        def program(command):
            if name not in (names := self.taken(command, 9)):
                return ended(0, "".join(f"begin {n}\nend {n} right: float32: 1\n" for n in names))
            tries.append(command[command.index("--claims") + 2 :])
            done = ended(0, f"begin {name}\nend {name} right: float32: 1\n")
            return ended(-9, f"begin {name}\n" + text.format(name)) if len(tries) <= times else done

        c = Scripted(tmp_path, program)
        if times == 1:
            assert verify_gpu.sanitize(c, "memcheck")["kernels"][name].startswith("right")
        else:
            with pytest.raises(Failed, match=f"memcheck: 1 kernels: {name}: (the process ended|wrong)"):
                verify_gpu.sanitize(c, "memcheck")
        assert len(tries) == 2 and tries[1] == [name] and len(tries[0]) > 1
        assert sum(name in command for command in c.asked[-3:]) == 1, "alone"

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
