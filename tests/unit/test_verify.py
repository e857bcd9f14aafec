"""The hardware run without hardware: resuming, failing steps, the time budget, what counts as verified."""

from __future__ import annotations

import json
import math
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

import backends
from backends import _cuda_compile, _cuda_source
from suite import (
    journal,
    verify_compile,
    verify_gpu,
    verify_install,
    verify_kernels,
    verify_record,
    verify_state,
    verify_steps,
)
from suite.analysis.crossover import Crossover, Point, crossover
from suite.analysis.ratio import Ratio
from suite.exits import Exit, Stop
from suite.experiments import verify
from suite.journal import ANEW
from suite.peers_run import NO_PEER
from suite.record import Run
from suite.verify_state import Context, Failed, Outcome, OutOfTime, Skipped, State
from tests.cuda_on_cpu import device as stand_in

WIN, LOSS = Ratio(1.1, 1.2, 1.3, "win"), Ratio(0.7, 0.8, 0.9, "loss")


def context(tmp_path, budget_s=None, **steps):
    return Context(tmp_path, State(steps=steps), budget_s)


def raising(error):
    def step(_):
        raise error

    return step


def known(**steps):
    return {name: (step, ("suite/exits.py",)) for name, step in steps.items()}


def run(c, steps):
    return verify.run_all(c, verify.outstanding(c, list(steps), steps, redo=False), steps, lambda _: None)


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (Failed("broken", {"kept": 1}), "failed", "broken"),
        (Skipped("no GPU: none"), "skipped", "no GPU: none"),
        (OutOfTime("late"), "unfinished", "late"),
        (KeyError("odd"), "failed", "KeyError: 'odd'"),
    ],
)
def test_whatever_a_step_raises_is_kept_and_the_run_goes_on(tmp_path, error, status, reason):
    c = context(tmp_path)
    run(c, known(first=raising(error), second=lambda _: {"x": 2}))
    kept = verify_state.load(tmp_path).steps
    assert (kept["first"].status, kept["first"].reason) == (status, reason)
    assert (kept["second"].status, kept["second"].result) == ("done", {"x": 2})


def test_a_second_call_runs_only_what_is_left(tmp_path):
    calls = []
    steps = known(good=lambda _: calls.append("good") or {}, bad=raising(Failed("broken")))
    run(context(tmp_path), steps)
    again = Context(tmp_path, verify_state.load(tmp_path))
    assert verify.outstanding(again, list(steps), steps, redo=False) == ["bad"]
    assert verify.outstanding(again, list(steps), steps, redo=True) == ["good", "bad"]
    assert calls == ["good"]


def test_a_step_is_redone_when_its_sources_have_changed(tmp_path):
    steps = known(good=lambda _: {})
    c = context(tmp_path)
    run(c, steps)
    c.state.steps["good"].sources = "another hash"
    assert verify.outstanding(c, ["good"], steps, redo=False) == ["good"]


def test_sources_hash_sees_every_source(tmp_path):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "a.c").write_text("int a;")
    before = verify_state.sources_hash(["cpu"], tmp_path)
    (tmp_path / "cpu" / "a.c").write_text("int b;")
    assert verify_state.sources_hash(["cpu"], tmp_path) != before


def test_no_step_is_begun_without_time(tmp_path):
    c = context(tmp_path, budget_s=1.0)
    assert run(c, known(first=lambda _: {}, second=lambda _: {})) == 2
    assert c.state.steps == {}


def test_a_program_is_stopped_when_the_budget_ends(tmp_path):
    c = context(tmp_path, budget_s=1.5)
    start = time.monotonic()
    with pytest.raises(OutOfTime):
        c.python("-c", "import time; print('so far', flush=True); time.sleep(60)")
    assert time.monotonic() - start < 20
    assert "so far\n[exit -1]" in (tmp_path / "log.txt").read_text()


def test_the_log_holds_output_and_no_absolute_path(tmp_path):
    context(tmp_path).python("-c", "import os; print('here', os.getcwd(), os.environ['MARK'])", MARK="marked")
    log = (tmp_path / "log.txt").read_text()
    assert "here . marked" in log
    assert str(verify_state.ROOT) not in log
    assert str(tmp_path) not in log


@pytest.mark.parametrize(
    ("only", "skip", "expected"),
    [
        (("tests",), (), ["build", "compile", "tests", "record", "compare", "profile"]),
        (("tests",), ("compile",), ["build", "tests", "record", "compare", "profile"]),
        (
            ("sanitize:racecheck",),
            (),
            ["build", "compile", "sanitize:racecheck", "record", "compare", "profile"],
        ),
        (("peers", "ladder"), (), ["build", "record", "peers", "ladder", "compare", "profile"]),
        (("sweep:float32",), ("compare",), ["build", "compile", "record", "sweep:float32", "profile"]),
    ],
)
def test_steps_are_chosen_by_name_or_group(tmp_path, only, skip, expected):
    assert verify.chosen(only, skip, list(verify.all_steps(tmp_path))) == expected


def test_a_build_without_its_modules_says_which_and_how_to_get_them(tmp_path, monkeypatch):
    absent = '{"ok": false, "reason": "not built"}'
    c = context(tmp_path)
    monkeypatch.setattr(c, "python", lambda *words: subprocess.CompletedProcess(words, 0, absent, ""))
    monkeypatch.setattr(
        verify_steps.importlib.util, "find_spec", lambda name: None if name == "scikit_build_core" else name
    )
    with pytest.raises(Failed) as caught:
        verify_steps.build(c)
    assert str(caught.value) == (
        "the native library is absent (not built) and cannot be built: this Python has no module "
        "scikit_build_core: pip install scikit-build-core"
    )


def test_kernels_are_compiled_again_where_the_cubins_may_be_gone(tmp_path):
    known = verify.all_steps(tmp_path)
    done = {
        name: Outcome(status="done", sources=verify_state.sources_hash(parts))
        for name, (_, parts) in known.items()
        if name in ("compile", "tests")
    }
    c = verify_state.Context(tmp_path, State(steps=done))
    assert verify.outstanding(c, ["compile", "tests"], known, redo=False) == ["compile"]


def test_every_layout_is_compiled_for_the_device_and_failures_are_said(monkeypatch):
    asked = []

    def compiled(name, dtype, target, more):
        asked.append((name, dtype, more))
        assert target in ("sm_90a", "sm_80")
        if name == "cuda:08_wmma":
            raise backends.Unavailable("no header\nmore")

    monkeypatch.setattr(_cuda_compile, "compile_kernel", compiled)
    count, errors = verify_compile.compile_all((9, 0))
    assert len(asked) == len(set(asked)) == count + len(errors)
    every = ("float16", "bfloat16", "float32", "float64")
    assert errors == [f"cuda:08_wmma {dtype}: no header" for dtype in every for _ in range(4)]
    assert {more for name, _, more in asked if name == "cuda:01_naive"} == {()}
    assert len({more for name, _, more in asked if name == "cuda:10_mma_sync"}) == 4
    asked.clear()
    verify_compile.compile_all((8, 0))
    assert asked
    assert not any("wgmma" in name for name, _, _ in asked)


def test_cubins_without_a_folder_are_refused(monkeypatch, capsys):
    monkeypatch.delenv("GEMM_CUBIN_CACHE", raising=False)
    assert verify_compile.main() == 2
    assert "GEMM_CUBIN_CACHE" in capsys.readouterr().err


def test_an_unknown_step_is_a_usage_error(tmp_path):
    with pytest.raises(Stop, match="step 'test' is unknown: use one of build") as stop:
        verify.chosen(("test",), (), list(verify.all_steps(tmp_path)))
    assert stop.value.code == Exit.USAGE


@pytest.mark.parametrize(
    ("status", "left", "expected"),
    [("failed", 1, Exit.ERROR), ("done", 1, Exit.NO_VERDICT), ("skipped", 0, Exit.OK)],
)
def test_exit_code(status, left, expected):
    assert verify.ending(State(steps={"a": Outcome(status=status)}), ["a", "b"], left) == expected


def test_a_damaged_state_is_named(tmp_path):
    (tmp_path / "verify.json").write_text("{")
    with pytest.raises(ValueError, match=r"verify\.json is no"):
        verify_state.load(tmp_path)


def cross(*verdicts):
    return crossover([Point(size, WIN if won else LOSS) for size, won in verdicts])


SWEEP = cross(*((size, size >= 136) for size in range(8, 1025, 8)))


@pytest.mark.parametrize(
    ("adaptive", "agrees", "narrow"),
    [
        (cross((64, False), (128, False), (144, True), (256, True)), True, True),
        (cross((64, False), (128, False), (136, True), (256, True)), True, True),
        (cross((64, False), (128, False), (192, True), (256, True)), True, False),
        (cross((64, False), (152, False), (160, True), (256, True)), False, True),
        (cross((64, False), (104, False), (112, True), (256, True)), False, True),
        (cross((64, False), (256, False)), False, True),
    ],
)
def test_adaptive_and_exhaustive_crossovers_are_compared(adaptive, agrees, narrow):
    assert verify_record.agree(adaptive, SWEEP) is agrees
    assert verify_record.narrow(adaptive) is narrow


def test_sizes_that_speak_against_the_adaptive_answer_are_named():
    adaptive = cross((64, False), (128, False), (144, True), (256, True))
    assert verify_record.against(adaptive, SWEEP) == []
    odd = cross(*((size, (size >= 136) != (size in (40, 200))) for size in range(8, 1025, 8)))
    assert verify_record.against(adaptive, odd) == [40, 200]


def test_a_crossover_beyond_the_sweep_agrees_with_a_sweep_that_found_none():
    none = cross(*((size, False) for size in range(8, 1025, 8)))
    assert verify_record.agree(cross((1024, False), (1088, True), (2048, True)), none)
    assert not verify_record.agree(cross((512, False), (544, True), (1024, True)), none)
    assert verify_record.agree(Crossover(kind="> largest", resolution=math.inf), none)


class Exporting(Context):
    """Its measuring commands keep a journal while they run, and export a run; counts the files meanwhile."""

    files = 0
    fault = ""

    def python(self, *words, **environment):
        journal, self.words = words[words.index("--journal") + 1], words
        for path in (journal, self.out / "log.txt"):
            Path(path).touch()
        self.files = max(self.files, len(list(self.out.iterdir())))
        if self.fault:
            return subprocess.CompletedProcess(words, 1, "", f"error: {self.fault}\n")
        if "other conditions" in Path(journal).read_text():
            text = f"error: {journal} cannot be resumed: a was 1 there and is 2 now; {ANEW}\n"
            return subprocess.CompletedProcess(words, 2, "", text)
        run = {
            "experiment": words[2],
            "cells": [1],
            "complete": True,
            "options": {"absent": {"cblas:mkl": "x"}},
        }
        Path(words[words.index("--export-json") + 1]).write_text(json.dumps(run))
        Path(journal).unlink()
        return subprocess.CompletedProcess(words, 0, "a table\n", "")


def test_there_are_never_more_files_than_a_lent_machine_hands_back(tmp_path, monkeypatch):
    monkeypatch.setattr(verify_steps, "need_gpu", lambda _: None)
    monkeypatch.setattr(verify_gpu, "need_gpu", lambda _: None)
    monkeypatch.setattr(verify_record, "runs_in", lambda *_, **__: {"": Run(machine={})})
    monkeypatch.setattr(verify_record.profiles, "build", lambda *_: Run())
    c = Exporting(tmp_path, State())
    steps = verify.all_steps(tmp_path)
    kinds = ("crossover", "sweep", "peers", "ladder", "ladder-cuda", "profile")
    names = [name for name in steps if name.split(":")[0] in kinds]
    (tmp_path / "verified.json").touch()
    for _ in range(2):  # again with all files there
        for name in names:
            outcome = verify_state.run_step(c, name, steps[name][0], "")
            assert outcome.status == "done", (name, outcome.reason)
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "crossover.json", "ladder-cuda.json", "ladder.json", "log.txt", "peers.json", "profile.json",
            "verified.json", "verify.json",
        ]  # fmt: skip
    assert c.files == 8
    (tmp_path / "running-peers.jsonl").touch()
    (tmp_path / "profile.json").unlink()
    assert verify_state.run_step(c, "profile", steps["profile"][0], "").reason.startswith(
        "made when running-p"
    )
    assert len(list(tmp_path.iterdir())) == 8


def test_peers_is_run_with_its_budget_and_says_what_is_absent(tmp_path):
    c = Exporting(tmp_path, State())
    outcome = verify_state.run_step(c, "peers", verify.all_steps(tmp_path, 90)["peers"][0], "")
    assert (outcome.status, outcome.reason) == ("done", "not compared: cblas:mkl")
    assert outcome.result["absent"] == {"cblas:mkl": "x"} and outcome.result["table"] == "a table\n"
    assert json.loads((tmp_path / "peers.json").read_text())["experiment"] == "peers"
    assert c.words[-7:-3] == ("90", "--resume", "--journal", str(tmp_path / "running-peers.jsonl"))


def test_only_what_was_measured_with_the_same_sources_is_gone_on_with(tmp_path):
    c = Exporting(tmp_path, State())
    kept = [tmp_path / f"running-peers.{sources}.jsonl" for sources in ("old", "new")]
    other = tmp_path / "running-peers-too.old.jsonl"
    for path in (*kept, other):
        path.touch()
    c.fault = "killed"
    verify_state.run_step(c, "peers", verify.all_steps(tmp_path)["peers"][0], "new")
    assert c.words[c.words.index("--journal") + 1] == str(kept[1])
    assert [path.exists() for path in (*kept, other)] == [False, True, True]


def test_what_was_measured_under_other_conditions_is_measured_anew(tmp_path):
    """No step waits for somebody to delete the file of an interrupted run: the note says what differed."""
    c = Exporting(tmp_path, State())
    for name, also in (("peers", "; not compared: cblas:mkl"), ("ladder", "")):
        (tmp_path / f"running-{name}.jsonl").write_text("other conditions")
        outcome = verify_state.run_step(c, name, verify.all_steps(tmp_path)[name][0], "")
        assert outcome.status == "done"
        assert outcome.reason == (
            f"measured anew: running-{name}.jsonl cannot be resumed: a was 1 there and is 2 now{also}"
        )
        assert not (tmp_path / f"running-{name}.jsonl").exists()
    outcome = verify_state.run_step(c, "ladder", verify.all_steps(tmp_path)["ladder"][0], "")
    assert outcome.reason == ""


def test_a_journal_of_another_environment_names_that_remedy(tmp_path):
    """The words by which `measured` knows it."""
    path, run = tmp_path / "j", Run(machine={"threads": {"environment": {}}})
    journal.Journal.create(path, run).close()
    now = Run(machine={"threads": {"environment": {"MKL_THREADING_LAYER": "GNU"}}})
    with pytest.raises(journal.RecordError, match=f"MKL_THREADING_LAYER was None .*{ANEW}$"):
        journal.Journal.resume(path, now)


@pytest.mark.parametrize(
    ("fault", "status"), [(f"{NO_PEER}: pip install it", "skipped"), ("it died", "failed")]
)
def test_where_there_is_no_peer_the_step_says_so(tmp_path, fault, status):
    c = Exporting(tmp_path, State())
    c.fault = fault
    outcome = verify_state.run_step(c, "peers", verify.all_steps(tmp_path)["peers"][0], "")
    assert outcome.status == status and fault in outcome.reason


KERNELS = [k for k in _cuda_source.all_kernels().values() if isinstance(k, _cuda_source.Kernel)]
PROBLEM = {"op": "gemm", "m": 8, "n": 8, "k": 8, "dtype": "float32", "math": "fp32", "alpha": 1.0}


def hardware_run(tmp_path, outcome="passed", error=None, verdict="", missing=()):
    right = "right: float32: 9 products"
    verdict = verdict or right

    def watched(said):
        status = "done" if said.startswith("right") else "failed"
        return Outcome(status=status, result={"kernels": {k.name: said for k in KERNELS}})

    tests = {f"contract::test[{k.name}]": outcome for k in KERNELS}
    timed = {"problem": PROBLEM, "samples_s": [1.23456e-5], "error": error}
    timings = [{"backend": k.name, **timed} for k in KERNELS]
    steps = {
        "tests": Outcome(status="done", result={"tests": tests}),
        "kernels": Outcome(status="done", result={"compiler": "NVRTC 13.0", "timings": timings}),
        **{f"sanitize:{tool}": watched(right) for tool in verify_gpu.TOOLS if tool not in missing},
        "sanitize:memcheck": watched(verdict),
        "environment": Outcome(status="done", result={"machine": {"gpus": [{"name": "some GPU"}]}}),
    }
    return Context(tmp_path, State(steps=steps))


def record(c):
    return verify_record.write_verified(c, c.out / "in_place.json")


def test_verified_json_holds_what_was_shown(tmp_path):
    found = record(hardware_run(tmp_path))
    assert found["verified"] == sorted(k.name for k in KERNELS)
    content = json.loads((tmp_path / "verified.json").read_text())
    entry = content["kernels"][KERNELS[0].name]
    assert entry["source_hash"] == _cuda_source.source_hash(KERNELS[0])
    assert (entry["status"], entry["gpu"], entry["compiler"]) == ("verified", "some GPU", "NVRTC 13.0")
    assert entry["timings"][0]["samples_s"] == [1.235e-5]
    assert entry["sanitizers"]["memcheck"] == "right: float32: 9 products"
    assert set(entry["sanitizers"]) == set(verify_gpu.TOOLS)
    assert list(entry["tests"]) == [f"contract::test[{KERNELS[0].name}]"]
    assert (tmp_path / "in_place.json").read_bytes() == (tmp_path / "verified.json").read_bytes()


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({"outcome": "failed"}, "GPU tests failed"),
        ({"outcome": "skipped: no reason"}, "no GPU test of it passed"),
        ({"error": "gate: exact"}, "gate: exact"),
        ({"verdict": "Invalid __global__ read"}, "memcheck: Invalid __global__ read"),
        ({"missing": ("racecheck",)}, "racecheck: unfinished: not begun"),
    ],
)
def test_a_kernel_with_any_doubt_is_unverified(tmp_path, fault, why):
    with pytest.raises(Failed, match=why):
        record(hardware_run(tmp_path, **fault))
    content = json.loads((tmp_path / "verified.json").read_text())
    assert {entry["status"] for entry in content["kernels"].values()} == {"unverified"}


def test_what_was_shown_of_other_sources_does_not_count(tmp_path):
    c = hardware_run(tmp_path)
    c.expected = {"tests": "", "kernels": "", "sanitize:racecheck": "changed since"}
    with pytest.raises(Failed, match="racecheck: unfinished"):
        record(c)
    c.expected = {"tests": "changed since", "kernels": "changed since"}
    with pytest.raises(Skipped, match="neither GPU tests nor kernel timings"):
        record(c)


def test_every_arithmetic_of_every_kernel_is_timed():
    timed = {(p.op, p.dtype, p.math) for p in verify_kernels.problems()}
    for kernel in KERNELS:
        for dtype, arithmetic in zip(kernel.header.dtypes, kernel.header.math, strict=True):
            assert (kernel.header.op, dtype, arithmetic) in timed


def test_nothing_is_written_before_anything_was_run(tmp_path):
    with pytest.raises(Skipped):
        record(context(tmp_path))
    assert not (tmp_path / "verified.json").exists()


def test_install_copies_what_fits(tmp_path):
    record(hardware_run(tmp_path))
    target = tmp_path / "installed.json"
    said = verify_install.install(tmp_path, target)
    assert said.startswith(f"{len(KERNELS)} of {len(KERNELS)} kernels verified")
    assert target.read_bytes() == (tmp_path / "verified.json").read_bytes()


def test_install_refuses_a_run_of_other_sources(tmp_path):
    record(hardware_run(tmp_path))
    path = tmp_path / "verified.json"
    content = msgspec.json.decode(path.read_bytes())
    content["kernels"][KERNELS[0].name]["source_hash"] = "0" * 16
    path.write_bytes(msgspec.json.encode(content))
    with pytest.raises(Stop, match=f"{KERNELS[0].name} has the source hash .* here and had 0000"):
        verify_install.install(tmp_path, tmp_path / "installed.json")
    assert not (tmp_path / "installed.json").exists()


def test_install_needs_a_result(tmp_path):
    with pytest.raises(Stop, match=r"holds no verified\.json"):
        verify_install.install(tmp_path)


def test_runs_are_kept_by_their_options(tmp_path):
    target = tmp_path / "crossover.json"
    for key, cells in (("a", 1), ("b", 2), ("a", 3)):
        verify_steps.add_run(target, key, {"cells": cells})
    assert json.loads(target.read_text()) == {"a": {"cells": 3}, "b": {"cells": 2}}


FEW = ("cuda:01_naive", "cuda:20_gemv_warp_row", "cuda:31_copy")


@pytest.mark.skipif(bool(stand_in.missing()), reason=stand_in.missing() or "compilers are here")
def test_kernels_are_timed_and_hashed(tmp_path, monkeypatch):
    monkeypatch.setattr(verify_kernels, "GEMM_SIZES", (9,))
    monkeypatch.setattr(verify_kernels, "GEMV_SIZES", (33,))
    monkeypatch.setattr(verify_kernels, "VECTOR_SIZES", (100,))
    monkeypatch.setattr(verify_kernels, "WARM_S", 0.0)
    monkeypatch.setattr(_cuda_compile, "version", lambda: (13, 0))
    few = [backends.get(name) for name in FEW]
    monkeypatch.setattr(backends, "all_backends", lambda: few)
    monkeypatch.setattr(_cuda_source, "all_kernels", lambda: {b.name: b.kernel for b in few})
    with stand_in.device():
        assert verify_kernels.main(tmp_path / "kernels.json") == 0
    found = json.loads((tmp_path / "kernels.json").read_text())
    assert {entry["backend"] for entry in found["timings"]} == set(FEW) == set(found["cubins"])
    assert [entry["error"] for entry in found["timings"] if entry.get("error")] == []
    assert all(len(entry["samples_s"]) >= verify_kernels.FEW_SAMPLES for entry in found["timings"])
    assert found["compiler"] == "NVRTC 13.0"
    assert {len(digest) for kernel in found["cubins"].values() for digest in kernel.values()} == {64}
