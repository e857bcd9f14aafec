"""Counters without ncu: its list parsed, kernels given to rungs, and one line for whatever goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import msgspec
import psutil
import pytest

from backends import Problem
from suite import ladder_counters as counters
from suite.record import Cell, Run
from tests.cuda_on_cpu import device as stand_in

HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)
BYTES = {
    "dram__bytes_read.sum": "1,000",
    "dram__bytes_write.sum": "24.5",
    "lts__t_sectors_srcunit_tex.sum": "10",
}


def listed(*kernels):
    """What ncu prints for these kernels, with its remarks around it."""
    lines = ["==PROF== Connected to process 7", HEAD]
    for number, kernel in enumerate(kernels):
        for metric, value in BYTES.items():
            unit = "sector" if "sectors" in metric else "byte"
            words = (number, 7, "python", "h", kernel, 1, 7, "(32, 8, 1)", "(1, 1, 1)", 0, "9.0", "", metric)
            lines.append(",".join(f'"{word}"' for word in (*words, unit, value)))
    return "\n".join(lines) + "\n==PROF== Disconnected\n"


def test_kernels_between_separators_belong_to_a_rung():
    text = listed("empty_kernel(Problem)", "naive", "empty_kernel(Problem)", "gemm", "reduce")
    found = counters.parse(text, ["01_naive", "cublas"])
    assert found["01_naive"] == {"dram_bytes": 1024.5, "l2_bytes": 320.0}
    assert found["cublas"] == {"dram_bytes": 2049.0, "l2_bytes": 640.0}, "two kernels add up"


def test_a_rung_that_launched_nothing_has_no_counters():
    text = listed("empty_kernel", "empty_kernel", "naive")
    assert list(counters.parse(text, ["cublas", "01_naive"])) == ["01_naive"]


@pytest.mark.parametrize("text", ["", "==ERROR== nothing", HEAD])
def test_a_list_without_kernels_is_an_error(text):
    with pytest.raises(ValueError, match="listed no kernel"):
        counters.parse(text, ["01_naive"])


P = Problem(m=64, n=64, k=64)
RUN = Run(
    cells=(
        Cell(problem=P, backend="cuda:01_naive", device="cuda", timing="throughput", samples_s=(1.0,),
             config={"rung": "01_naive"}),
        Cell(problem=P, backend="cublas", device="cuda", timing="throughput", samples_s=(1.0,),
             config={"rung": "cublas"}),
        Cell(problem=P, backend="x", device="cuda", timing="throughput", config={"rung": "x"}),
    )
)  # fmt: skip


def ending(code, out="", err=""):
    def run(words, **_):
        run.words = words
        return subprocess.CompletedProcess(words, code, out, err)

    return run


@pytest.fixture
def ncu(monkeypatch):
    monkeypatch.setattr(counters, "find_ncu", lambda: "/opt/ncu")


def test_counters_go_into_the_cells_that_were_timed(ncu):
    run = ending(0, listed("empty_kernel", "naive", "empty_kernel", "gemm"))
    found, said = counters.count(RUN, run)
    assert said == ""
    assert [cell.config.get("counters") for cell in found.cells] == [
        {"dram_bytes": 1024.5, "l2_bytes": 320.0}, {"dram_bytes": 1024.5, "l2_bytes": 320.0}, None,
    ]  # fmt: skip
    assert run.words[0] == "/opt/ncu" and run.words[-1] == '["01_naive","cublas"]'
    assert "--clock-control" in run.words and run.words[run.words.index("--clock-control") + 1] == "none"


DENIED = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"


@pytest.mark.parametrize("code", [0, 1])
def test_counters_that_may_not_be_read_are_one_line_and_one_run(ncu, code):
    other = msgspec.structs.replace(RUN.cells[0], problem=Problem(m=128, n=128, k=128))
    runs = []

    def run(words):
        runs.append(words)
        return subprocess.CompletedProcess(words, code, f"==PROF== x\n{DENIED}\n{HEAD}\n", "")

    found, said = counters.count(msgspec.structs.replace(RUN, cells=(*RUN.cells, other)), run)
    assert all("counters" not in cell.config for cell in found.cells) and len(runs) == 1
    assert said == "no counters: ncu: ERR_NVGPUCTRPERM - The user does not have permission"


def test_an_error_of_one_problem_leaves_the_others(ncu):
    other = msgspec.structs.replace(RUN.cells[0], problem=Problem(m=128, n=128, k=128))
    answers = iter([(3, "==ERROR== a kernel failed"), (0, listed("empty_kernel", "naive"))])

    def run(words):
        return subprocess.CompletedProcess(words, *next(answers), "")

    found, said = counters.count(msgspec.structs.replace(RUN, cells=(*RUN.cells, other)), run)
    assert said == "no counters of gemm 64x64x64: ncu ended with 3: a kernel failed"
    assert ["counters" in cell.config for cell in found.cells] == [False, False, False, True]


def test_an_error_without_an_exit_status_is_said_too(ncu):
    _, said = counters.count(RUN, ending(0, f"==ERROR== no kernels were profiled\n{HEAD}\n"))
    assert said == "no counters of gemm 64x64x64: ncu: no kernels were profiled"


def test_ncu_that_takes_too_long_ends_with_what_it_started(ncu, monkeypatch, tmp_path):
    child = tmp_path / "child"
    script = f"sleep 60 & echo $! > {child}; wait"
    monkeypatch.setattr(counters, "LIMIT_S", 1.0)
    monkeypatch.setattr(counters, "command", lambda *_: ["sh", "-c", script])
    _, said = counters.count(RUN)
    assert said == "no counters of gemm 64x64x64: it did not end in time"
    number = int(child.read_text())
    for _ in range(100):
        if not alive(number):
            return
        time.sleep(0.05)
    os.kill(number, signal.SIGKILL)
    pytest.fail("what ncu had started went on")


def alive(number):
    """Does the process run? One that has ended and waits to be reaped does not."""
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_without_ncu_the_line_has_the_cure(monkeypatch):
    monkeypatch.setattr(counters, "find_ncu", lambda: None)
    found, said = counters.count(RUN)
    assert found == RUN and said.startswith("no counters: ncu was not found: install Nsight Compute")


@pytest.mark.skipif(bool(stand_in.missing()), reason=stand_in.missing() or "compilers are here")
def test_the_driver_runs_every_rung_once_with_a_separator_before_each():
    names = ["01_naive", "02_shared_tile"]
    with stand_in.device():
        held = stand_in.held()
        counters.drive(Problem(m=20, n=20, k=20), names)
        assert stand_in.held() == held


def test_what_is_run_under_ncu_can_be_read_back():
    words = counters.command("ncu", P, ["01_naive"])
    at = words.index("suite.ladder_counters")
    assert words[at - 2 : at] == [sys.executable, "-m"]
    assert msgspec.json.decode(words[at + 1], type=Problem) == P
