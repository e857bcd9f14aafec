"""The GPU's ladder climbed on the CPU stand-in: parts, figures, tables, and what is shown without a GPU."""

from __future__ import annotations

import csv
import importlib.util
import io
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from backends import Problem, _cuda_compile, _cuda_source, cublas
from backends._cuda_driver import CudaError
from backends._cuda_peaks import Rate
from suite import (
    journal,
    ladder_cuda,
    ladder_cuda_launch,
    ladder_cuda_measure,
    ladder_cuda_plan,
    verify_install,
)
from suite.analysis import ladder_cuda as analysis
from suite.exits import Exit, Stop
from suite.experiments import _ladder_cuda as experiment
from suite.experiments import ladder as command
from suite.ladder_cuda_measure import CudaClimb, CudaGroup, Spoiled, checked
from suite.ladder_cuda_plan import CudaRequest
from suite.ladder_measure import Trial
from suite.record import Clocks, GateResult
from suite.render import ladder as render
from suite.render.ladder_cuda_details import notes
from tests.cuda_on_cpu import device as stand_in

needs_compilers = pytest.mark.skipif(
    bool(stand_in.missing()), reason=stand_in.missing() or "compilers are here"
)
ROOT = Path(__file__).resolve().parents[2]
PEAK_FLOP_S, PEAK_BYTE_S = 1e12, 1e11


def right(sessions, seed, raised):
    return [GateResult(ok=True, max_error=1e-8) for _ in sessions]


ASKED = CudaRequest(
    sizes=(16, 32),
    ragged=(17,),
    parts=("square", "ragged", "gemv", "copy"),
    rungs=("01_naive", "01_naive/uncoalesced", "02_shared_tile", "20_gemv_warp_row", "31_copy"),
    time_budget_s=20.0,
)


@pytest.fixture(scope="module")
def world():
    """The stand-in for driver and cuBLAS, with scripted peaks and small problems."""
    if stand_in.missing():
        pytest.skip(stand_in.missing())
    with pytest.MonkeyPatch.context() as patch:
        path = str(stand_in.library("cublas"))
        patch.setattr(cublas, "library_paths", lambda: [path])
        patch.setattr(_cuda_compile, "version", lambda: (13, 0))
        patch.setattr(cublas.Handle, "_idle", {})
        cublas.library.cache_clear()
        patch.setattr(ladder_cuda_plan, "GEMV_SIZES", (24,))
        patch.setattr(ladder_cuda_plan, "VECTOR_SIZES", (64, 100))
        with stand_in.device():
            yield
    cublas.library.cache_clear()


def reader():
    """Clocks that fall by 15 MHz with each reading, of a GPU that grows warmer."""
    count = itertools.count()

    def read(device):
        n = next(count)
        reasons = ("sw_power_cap",) if n % 2 else ()
        return Clocks(
            before_mhz=1980 - 15 * n,
            nominal_mhz=1980,
            throttle=reasons,
            temperature_c=40 + n,
            power_w=600.0 + n,
        )

    return read


def climb(asked=ASKED, gate=right):
    one = experiment.climb_of(asked, ladder_cuda.CudaLadder())
    one.gates, one.read = gate, reader()
    peaks = {"bytes": Rate(PEAK_BYTE_S, "loads"), "fp32": Rate(PEAK_FLOP_S, "FFMA")}
    one.provider.peak = lambda kind, seconds: peaks[kind]
    return one


@pytest.fixture(scope="module")
def run(world):
    held = stand_in.held()
    found = command.measure(climb(), "gemm-crossover ladder --device cuda")
    assert stand_in.held() == held, "sessions, graphs or events were not freed"
    return found


def shown(run, width=200, quiet=False):
    file = io.StringIO()
    render.show(run, Console(file=file, width=width, highlight=False), quiet=quiet)
    return file.getvalue()


@needs_compilers
class TestClimb:
    def test_throughput_and_latency_stand_apart(self, run):
        cells = [c for c in run.cells if c.config["rung"] == "01_naive" and c.problem.m == 32]
        assert [c.timing for c in cells] == ["throughput", "latency"]
        assert [c.calls_from for c in cells] == ["device", "python"]
        assert all(c.samples_s and c.gate.ok for c in cells)
        assert cells[0].config["queued_by"] == "graph"

    def test_every_part_has_its_rungs(self, run):
        found = {
            group[0]: analysis.steps(run, group, analysis.problems(run, group)[-1]) for group in groups(run)
        }
        names = {part: [step.rung["name"] for step in steps] for part, steps in found.items()}
        assert names["square"] == ["01_naive", "01_naive/uncoalesced", "02_shared_tile", "cublas"]
        assert names["gemv"] == ["20_gemv_warp_row", "cublas"] and names["copy"] == ["31_copy"]

    def test_rates_and_what_they_are_part_of(self, run):
        steps = by_name(run, ("square", "float32", "fp32"), 32)
        naive, tiled, top = (steps[name] for name in ("01_naive", "02_shared_tile", "cublas"))
        assert naive.flop_s == pytest.approx(2 * 32**3 / naive.time_s)
        assert naive.of_reference == pytest.approx(top.time_s / naive.time_s) and top.of_reference == 1
        assert tiled.gain == pytest.approx(naive.time_s / tiled.time_s), "not over the variant beside it"
        least = max(2 * 32**3 / PEAK_FLOP_S, 3 * 32 * 32 * 4 / PEAK_BYTE_S)
        assert naive.share == pytest.approx(least / naive.time_s)
        assert naive.latency_s > 0

    def test_ragged_sizes_beside_the_nearest_whole_one(self, run):
        group = ("ragged", "float32", "fp32")
        steps = analysis.ragged(run, group, analysis.problems(run, group)[0])
        step = next(s for s in steps if s.rung["name"] == "02_shared_tile")
        whole = by_name(run, ("square", "float32", "fp32"), 16)["02_shared_tile"]
        assert step.of_whole == pytest.approx(step.flop_s / whole.flop_s)

    def test_what_the_compiler_and_the_tile_say(self, run):
        config = by_name(run, ("square", "float32", "fp32"), 32)["02_shared_tile"].cell.config
        assert config["flop_per_byte"] == {"tile": 8.0} and config["occupancy"] == 1.0
        assert config["registers"] == 32 and config["local_bytes"] == 0

    def test_clocks_are_read_after_every_round(self, run):
        (first,) = {c.clocks for c in run.cells if c.problem == run.cells[0].problem}
        assert first == Clocks(
            before_mhz=1980,
            after_mhz=1980 - 15 * 5,
            nominal_mhz=1980,
            throttle=("sw_power_cap",),
            temperature_c=45,
            power_w=605.0,
        )
        assert all(c.clocks for c in run.cells)

    def test_a_reader_that_raises_stops_nothing(self, world):
        one = climb(msgspec.structs.replace(ASKED, parts=("copy",)))
        one.read = lambda device: 1 / 0
        found = command.measure(one)
        assert all(c.samples_s and c.clocks is None for c in found.cells)
        assert "Clocks, temperature and power could not be read." in shown(found)

    def test_an_interrupted_climb_is_gone_on_with(self, world, tmp_path):
        asked = msgspec.structs.replace(ASKED, parts=("square", "copy"), sizes=(16,))
        path, first = tmp_path / "kept.jsonl", climb(asked)
        first.journal = command.journal_for(first, path, resume=False)
        kept = [
            cell for _, cell in zip(range(3), first.run(), strict=False)
        ]  # stopped within the first group
        first.journal.close()
        again = climb(asked)
        again.journal = command.journal_for(again, path, resume=True)
        cells = command.measure(again).cells
        again.journal.close()
        assert cells[0].samples_s == kept[0].samples_s
        assert {cell.problem.op for cell in cells} == {"gemm", "copy"}

    def test_a_rung_that_the_hardware_lacks_says_why(self, world, monkeypatch):
        monkeypatch.setenv("FAKE_COMPUTE", "30")
        stand_in._forget()
        try:
            found = command.measure(
                climb(msgspec.structs.replace(ASKED, parts=("copy",), rungs=("31_copy",)))
            )
        finally:
            monkeypatch.delenv("FAKE_COMPUTE")
            stand_in._forget()
        assert {c.skip_reason for c in found.cells} == {
            "Unavailable: cuda:31_copy needs compute capability 5.0, this is 3.0"
        }
        assert "skipped: 31_copy: Unavailable: cuda:31_copy needs" in shown(found)

    def test_a_wrong_rung_is_not_timed_and_ends_the_command_with_an_error(self, world):
        bad = GateResult(ok=False, failed="exact", detail="C[3, 3] is 1")

        def gate(sessions, seed, raised):
            good = right(sessions, seed, raised)
            return [bad if s.info.kernel == "shared_tile" else g for s, g in zip(sessions, good, strict=True)]

        one = climb(msgspec.structs.replace(ASKED, parts=("square",)), gate)
        found = command.measure(one)
        assert "WRONG RESULT, not timed: 02_shared_tile" in shown(found)
        with pytest.raises(Stop, match="wrong results: 02_shared_tile"):
            command.ending(found, None, one.provider)

    def test_a_first_call_that_loads_a_library_does_not_pass_for_a_slow_one(self, world, monkeypatch):
        one = climb(msgspec.structs.replace(ASKED, parts=("copy",)))
        group = one.group(Problem(op="copy", n=64), one.chosen(), one.clock.now() + 1.0, 0)
        ours, library = (Trial(rung) for rung in (group.rungs[0], one.chosen()[-1]))
        monkeypatch.setattr(ladder_cuda_measure, "timed", lambda *_: 1e-5)
        assert group._second_call(ours, None, 0.3) == group._second_call(library, None, 0.3) == 1e-5
        one.rates = {(trial.rung.name, "float32"): 1e12 for trial in (ours, library)}
        assert group._second_call(ours, None, 0.3) == 0.3, "a slow kernel is not run more often than it must"
        assert group._second_call(library, None, 0.3) == 1e-5

    def test_a_slow_rung_may_take_its_part_of_the_time_left(self, world):
        one = climb(ASKED)
        group = one.group(Problem(m=64, n=64, k=64), one.chosen(), one.clock.now() + 8.0, 0)
        trial = Trial(group.rungs[0])
        assert group._too_slow(trial, 0.05) == group._too_slow(trial, 0.1) == ""
        assert "a run takes about 0.2 s, checking and timing it 1.6 s: more than 1/8" in group._too_slow(
            trial, 0.2
        )

    def test_what_is_needed_is_compiled_ahead(self, world, monkeypatch):
        one, opened, early = climb(msgspec.structs.replace(ASKED, parts=("gemv",))), [], []
        real = _cuda_compile.compile_kernel
        monkeypatch.setattr(
            _cuda_compile, "compile_kernel", lambda name, *a: early.append(name) or real(name, *a)
        )
        monkeypatch.setattr(one, "group", lambda *_: opened.append(list(early)) or pytest.skip("enough"))
        with pytest.raises(pytest.skip.Exception):
            list(one.run())
        assert opened == [["cuda:20_gemv_warp_row"]]

    def test_the_real_gate_passes_on_the_stand_in(self, world):
        one = climb(msgspec.structs.replace(ASKED, parts=("square", "copy"), sizes=(16,)), checked)
        assert [c for c in command.measure(one).cells if not c.gate.ok or not c.samples_s] == []


SPOILING = """
import json, sys
from pathlib import Path
import pytest
from backends import _cuda_compile, cublas
from backends._cuda_peaks import Rate
from suite import ladder_cuda
from suite.cli import main
from tests.cuda_on_cpu import device as stand_in

with pytest.MonkeyPatch.context() as patch:
    patch.setattr(cublas, "library_paths", lambda path=str(stand_in.library("cublas")): [path])
    patch.setattr(_cuda_compile, "version", lambda: (13, 0))
    patch.setattr(ladder_cuda.CudaLadder, "peak", lambda *_: Rate(1e12, "FFMA"))
    with stand_in.device():
        with Path(sys.argv[0]).with_suffix(".starts").open("a") as file:
            file.write(json.dumps(sys.argv[1:]) + "\\n")
        main()
"""


@needs_compilers
class TestSpoiled:
    """A kernel after which no call of CUDA in its process works any more: `shared_tile`, found out late."""

    ASKED = msgspec.structs.replace(ASKED, parts=("square", "copy"), sizes=(16,))

    @pytest.fixture
    def spoiling(self, world, monkeypatch):
        monkeypatch.setenv("FAKE_SPOIL", "shared_tile")
        stand_in._forget()
        yield
        monkeypatch.delenv("FAKE_SPOIL")
        stand_in._forget()

    def test_the_climb_ends_and_the_next_process_leaves_the_rung_out(self, spoiling, tmp_path):
        path, first = tmp_path / "kept.jsonl", climb(self.ASKED, checked)
        first.journal = command.journal_for(first, path, resume=False)
        with pytest.raises(Spoiled, match=r"02_shared_tile spoiled CUDA .* at 16x16x16: .*700") as caught:
            command.measure(first)
        first.journal.close()
        assert [c.problem.op for c in caught.value.run.cells if c.samples_s] == ["copy"] * 4
        assert caught.value.run.cells[-1].gate.failed == "error" and not caught.value.run.complete

        stand_in._forget()  # as in a fresh process
        again = climb(self.ASKED, checked)
        again.journal = command.journal_for(again, path, resume=True)
        found = command.measure(again)
        again.journal.close()
        timed = {c.config["rung"]: bool(c.samples_s) for c in found.cells if c.problem.op == "gemm"}
        assert timed == {
            "01_naive": True, "01_naive/uncoalesced": True, "02_shared_tile": False, "cublas": True,
        }  # fmt: skip
        with pytest.raises(Stop, match="wrong results: 02_shared_tile"):
            command.ending(found, None, again.provider)
        assert "spoiled CUDA for its whole process" in shown(found)

    def test_whoever_raised_first_in_the_check_is_blamed(self, spoiling, monkeypatch):
        one = climb(self.ASKED, checked)
        monkeypatch.setattr(CudaGroup, "_prepare", silent(CudaGroup._prepare))
        with pytest.raises(Spoiled, match=r"^02_shared_tile spoiled CUDA"):
            list(one.run())

    def test_a_peak_is_no_rung(self, spoiling):
        one = climb(self.ASKED)

        def peak(kind, seconds):
            raise CudaError("launch of peak", 700, "CUDA_ERROR", "error")

        one.provider.peak = peak
        with pytest.raises(Spoiled, match="the peak of fp32: launch of peak") as caught:
            list(one.run())
        assert caught.value.cell is None

    def test_without_a_journal_what_was_measured_is_shown_and_is_an_error(self, spoiling):
        one = climb(self.ASKED, checked)
        with pytest.raises(Spoiled) as caught:
            command.measure(one)
        found = experiment.go_on(one, caught.value, 1.0)
        assert "31_copy" in shown(found)
        with pytest.raises(Stop, match="wrong results: 02_shared_tile"):
            command.ending(found, None, one.provider)
        whole = msgspec.structs.replace(found, cells=found.cells[:-1])
        with pytest.raises(Stop, match="CUDA was lost in this process"):
            command.ending(whole, None, one.provider)

    def test_the_command_goes_on_in_a_fresh_process(self, world, tmp_path):
        script, target = tmp_path / "climb.py", tmp_path / "run.json"
        script.write_text(SPOILING)
        words = ["ladder", "--device", "cuda", "--part", "square,ragged", "--sizes", "16", "--ragged", "17"]
        for name in ("01_naive", "02_shared_tile"):
            words += ["--rung", name]
        words += ["--time-budget", "60", "-q", "--export-json", str(target)]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "FAKE_SPOIL": "shared_tile"}
        env["XDG_STATE_HOME"] = str(tmp_path)
        done = subprocess.run(
            [sys.executable, str(script), *words], env=env, cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 1, done.stderr
        assert "note: 02_shared_tile spoiled CUDA for its whole process at 16x16x16" in done.stderr
        assert "error: wrong results: 02_shared_tile" in done.stderr
        starts = [json.loads(line) for line in script.with_suffix(".starts").read_text().splitlines()]
        assert len(starts) == 2 and starts[1][: len(words)] == words and "--resume" in starts[1]
        cells = journal.load_run(target).cells
        assert {(c.config["rung"], c.problem.m) for c in cells if c.samples_s} == {
            (name, size) for name in ("01_naive", "cublas") for size in (16, 17)
        }
        assert list((tmp_path / "gemm-crossover").glob("*.jsonl")) == [], "the journal is not left behind"


def silent(prepare):
    """`_prepare` on a device where the kernel that spoils it has not been launched yet."""

    def prepared(self, bench, trial):
        stand_in.spoil(False)
        prepare(self, bench, trial)
        stand_in.spoil(True)

    return prepared


def groups(run):
    return analysis.groups(run)


def by_name(run, group, size):
    problem = next(p for p in analysis.problems(run, group) if p.m == size)
    return {step.rung["name"]: step for step in analysis.steps(run, group, problem)}


@needs_compilers
class TestTables:
    def test_everything_is_there(self, run):
        text = shown(msgspec.structs.replace(run, options=run.options | {"launch": COST}))
        for words in (
            "what it changes", "float32 in fp32, M = N = K: 32×32×32", "% of cuBLAS", "% of roof",
            "occupancy",
            "FLOP/B", "float32 in fp32, y = A x: GB/s", "% of the nearest whole size", "by FFMA",
            "starting an empty kernel", "4.00 µs", "TFLOP/s over size; the line is the peak",
            "SM clock after the rounds", "(at most 1980), up to", "slowed down by sw_power_cap.",
            "c = a: GB/s", "2^6",
        ):  # fmt: skip
            assert words in text, words

    def test_quiet_is_the_rates_alone(self, run):
        text = shown(run, quiet=True)
        assert "M = N = K: TFLOP/s" in text and "what it changes" not in text and "occupancy" not in text

    @pytest.mark.parametrize("width", [60, 100])
    def test_narrow_terminals_lose_nothing(self, run, width):
        text = shown(run, width=width)
        assert "02_shared_tile" in text and max(map(len, text.splitlines())) <= width

    def test_counters_stand_beside_the_model(self, run):
        counters = {"dram_bytes": 1e6, "l2_bytes": 4e6}
        cells = tuple(msgspec.structs.replace(c, config=c.config | {"counters": counters}) for c in run.cells)
        text = shown(msgspec.structs.replace(run, cells=cells))
        assert "FLOP/B L2" in text and "DRAM MB" in text
        assert f"{2 * 32**3 / 1e6:.4f}"[:6] in text

    def test_what_stands_elsewhere_is_named_with_the_part_it_was_made_for(self, run):
        split = {"name": "13_split_k", "beside": False, "made_for": "long_k"}
        variant = {"name": "13_split_k/32", "beside": True, "made_for": "long_k"}
        options = run.options | {"rungs": [*run.options["rungs"], split, variant]}
        wider = msgspec.structs.replace(run, options=options)
        said = {group[0]: " ".join(notes(wider, group)) for group in analysis.groups(wider)}
        assert "Not here: 13_split_k (made for part long_k)." in said["square"]
        assert "Not here" not in said["copy"]
        here = ("long_k", "float32", "fp32")
        cells = tuple(
            msgspec.structs.replace(c, config=c.config | {"part": here[0]})
            for c in run.cells
            if c.config["part"] == "square"
        )
        there = " ".join(notes(msgspec.structs.replace(wider, cells=cells), here))
        assert "Not here" not in there and "only those stand here whose CTA tile fits into C." in there

    def test_a_peak_that_is_missing_says_why(self, run):
        why = {"fp32, ffma": "it does not compile", "bytes, copy": "no room", "fp64, dfma": "another"}
        text = shown(msgspec.structs.replace(run, options=run.options | {"absent_peaks": why}))
        assert "No peak of fp32, ffma: it does not compile" in text and "bytes, copy: no room" in text
        assert "dfma" not in text

    def test_one_arithmetic_after_the_other_however_it_was_measured(self, run):
        cells = [c for c in run.cells if c.config["part"] in ("square", "copy")]
        other = [
            msgspec.structs.replace(
                c, problem=msgspec.structs.replace(c.problem, dtype="float64", math="fp64")
            )
            for c in cells
        ]
        mixed = tuple(c for pair in zip(other, cells, strict=True) for c in pair)
        maths = [["float32", "fp32"], ["float64", "fp64"]]
        whole = msgspec.structs.replace(run, cells=mixed, options=run.options | {"arithmetics": maths})
        assert analysis.groups(whole) == [
            (part, *how) for how in map(tuple, maths) for part in ("square", "copy")
        ]

    def test_csv_and_markdown(self, run):
        rows = list(csv.DictReader(io.StringIO(render.makers(run)["csv"]().decode())))
        assert {row["part"] for row in rows} == set(ASKED.parts)
        first = rows[0]
        assert float(first["flop_s"]) > 0 and first["roof_instruction"] == "FFMA"
        assert first["flop_per_byte_tile"] == "0.25" and first["gate"] == "ok"
        assert float(first["power_w"]) >= 600 and first["throttle"] == "sw_power_cap"
        text = render.makers(run)["markdown"]().decode()
        assert "| 02_shared_tile |" in text and "### float32 in fp32, M = N = K: TFLOP/s" in text

    def test_json_comes_back(self, run, tmp_path):
        path = tmp_path / "run.json"
        path.write_bytes(render.makers(run)["json"]())
        again = journal.load_run(path)
        render.check(again)
        assert shown(again) == shown(run)
        assert json.loads(path.read_text())["options"]["device"] == "cuda"

    def test_a_cell_of_no_rung_is_named(self, run):
        bad = msgspec.structs.replace(run.cells[1], config={})
        with pytest.raises(ValueError, match=r"cells\[1\].config.rung"):
            render.check(msgspec.structs.replace(run, cells=(run.cells[0], bad)))
        with pytest.raises(ValueError, match="rungs"):
            render.check(msgspec.structs.replace(run, options={"device": "cuda"}))


COST = {"launch_s": 4e-6, "latency_s": 9e-6, "node_s": 6e-7, "queued_by": "graph"}


@needs_compilers
def test_what_a_launch_costs(world):
    held = stand_in.held()
    found = ladder_cuda_launch.measure()
    assert 0 < found.launch_s < 1e-4 and found.latency_s > 0 and found.node_s > 0
    assert found.queued_by == "graph" and stand_in.held() == held


class TestRecorded:
    REASON = "no NVIDIA driver; install it"

    def saved(self, run, tmp_path):
        (tmp_path / "some.json").write_bytes(render.makers(run)["json"]())
        return tmp_path

    def test_what_was_recorded_is_shown_and_says_so(self, run, tmp_path):
        found = experiment.recorded(ASKED, self.REASON, self.saved(run, tmp_path))
        text = shown(found)
        assert text.startswith("RECORDED: ") and "02_shared_tile" in text
        assert {cell.provenance for cell in found.cells} == {"recorded"}
        assert b"**RECORDED: " in render.makers(found)["markdown"]()

    def test_only_what_was_asked_for(self, run, tmp_path):
        asked = msgspec.structs.replace(ASKED, rungs=("01_naive",), parts=("square",))
        found = experiment.recorded(asked, self.REASON, self.saved(run, tmp_path))
        assert [rung["name"] for rung in found.options["rungs"]] == ["01_naive", "cublas"]

    def test_what_was_not_recorded_is_one_line(self, run, tmp_path):
        asked = msgspec.structs.replace(ASKED, arithmetics=(("float64", "fp64"),))
        with pytest.raises(Stop, match=r"no GPU .*install it .*it holds float32 in fp32") as stop:
            experiment.recorded(asked, self.REASON, self.saved(run, tmp_path))
        assert stop.value.code == Exit.ERROR

    def test_without_a_record_the_line_has_the_cure(self, tmp_path):
        with pytest.raises(Stop, match="no GPU to climb on: no NVIDIA driver; install it"):
            experiment.recorded(ASKED, self.REASON, tmp_path)

    def test_a_gpu_may_be_required(self, monkeypatch):
        one = CudaClimb(ASKED, ladder_cuda.CudaLadder())
        monkeypatch.setattr(one.provider, "unavailable", lambda: self.REASON)
        with pytest.raises(Stop, match="--require-gpu: no usable GPU: no NVIDIA driver") as stop:
            command.recorded(one, required=True)
        assert stop.value.code == Exit.NO_GPU


@pytest.fixture(scope="module")
def generator():
    path = ROOT / "docs" / "generate.py"
    spec = importlib.util.spec_from_file_location("generate_ladder", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate_ladder"] = module
    spec.loader.exec_module(module)
    return module


class TestDocuments:
    """The tables of README and docs, made of a record that verify wrote and install took over."""

    @pytest.fixture
    def records(self, run, tmp_path, generator, monkeypatch):
        whole = msgspec.structs.replace(run, machine={**run.machine, "gpus": [{"name": "NVIDIA H999 NVL"}]})
        (tmp_path / "ladder-cuda.json").write_bytes(render.makers(whole)["json"]())
        said = verify_install.install_ladder(tmp_path, tmp_path / "records")
        assert "written to suite/profiles/ladders/h999-nvl.json" in said
        monkeypatch.setattr(generator, "RECORDS", tmp_path / "records")
        return tmp_path / "records"

    def test_the_readme_has_a_row_for_every_rung(self, run, records, generator):
        text = generator.ladder_cuda_short()
        assert text.startswith(f"RECORDED: NVIDIA H999 NVL, measured {run.created[:10]}, M = N = K = 32.")
        step = by_name(run, ("square", "float32", "fp32"), 32)["02_shared_tile"]
        rate, share = generator.figures.significant(step.flop_s / 1e12), f"{step.of_reference * 100:.0f}"
        assert f"| 02_shared_tile | float32 in fp32 | {rate} | {share} |" in text
        assert "| cublas | float32 in fp32 |" in text and text.count("| 01_naive") == 1

    def test_the_document_has_every_part(self, records, generator):
        text = generator.ladder_cuda()
        for words in (
            "ragged M = N = K: TFLOP/s",
            "y = A x: GB/s",
            "M = N = K: 32×32×32",
            "01_naive/uncoalesced",
        ):
            assert words in text, words

    def test_a_record_that_changed_makes_the_readme_stale(self, records, generator):
        renewed = generator.renewed((ROOT / "README.md").read_text())
        assert "H999" in renewed and generator.renewed(renewed) == renewed
        (records / "h999-nvl.json").unlink()
        assert generator.renewed(renewed) != renewed

    def test_every_kernel_file_is_in_the_table_of_rungs(self, generator):
        text = generator.ladder_cuda_rungs()
        assert all(f"[{path.stem}](../cuda/kernels/{path.name})" in text for path in _cuda_source.files())

    def test_every_part_is_explained(self):
        text = (ROOT / "docs" / "ladder-cuda.md").read_text()
        assert [part for part in ladder_cuda_plan.TITLES if f"`{part}`" not in text] == []

    def test_a_run_without_a_ladder_installs_none(self, tmp_path):
        assert verify_install.install_ladder(tmp_path, tmp_path) == ""
