"""README and docs from a record with every rung and variant at every size that `verify` climbs: made up here.

A rung's rate is RATE times its place in the ladder, less at small sizes; a variant's is a little less than
that of its default, but for some that are faster at one size.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import msgspec
import pytest

from backends import _cuda_source
from backends.arithmetic import canonical_dtype
from suite import ladder_cuda, ladder_cuda_plan, verify_gpu
from suite.analysis import ladder_cuda as analysis
from suite.experiments import _ladder_cuda as experiment
from suite.ladder_cuda_measure import CudaClimb
from suite.ladder_measure import key_of
from suite.record import Cell, Clocks, GateResult, Run
from suite.render import ladder as render
from suite.render import ladder_cuda_best as best

ROOT = Path(__file__).resolve().parents[2]
RATE = 1e12


def variant(stem):
    """The name of some variant of a rung, whichever there are."""
    names = (kernel.variant.name for kernel in _cuda_source.parse(_cuda_source.root() / f"kernels/{stem}.cu"))
    return next(name for name in names if name)


STAGES, SMALL = variant("06_cp_async"), variant("07_warp_tile")
FASTER = {(f"07_warp_tile/{SMALL}", 1024): 1.5, (f"06_cp_async/{STAGES}", 4096): 1.3}
"""(rung, m) -> times its usual rate."""

SLOWER = {("07_warp_tile", 4097): 0.95}
"""The same for all variants of a rung."""

LACKING = "09_wmma_staged"


def asked():
    words = dict(zip(verify_gpu.LADDER[::2], verify_gpu.LADDER[1::2], strict=True))
    dtypes = tuple(canonical_dtype(word) for word in words["--dtype"].split(","))
    return ladder_cuda_plan.CudaRequest(
        sizes=tuple(map(int, words["--sizes"].split(","))),
        dtypes=dtypes,
        arithmetics=ladder_cuda_plan.arithmetics(dtypes, words["--math"].split(",")),
    )


def seconds(rungs, rung, p):
    default = next(r for r in rungs if r.name == rung.name.partition("/")[0])
    place = 50.0 if rung.name == "cublas" else 1.0 + rungs.index(default) - 0.1 * rung.beside
    work = p.flops if p.op == "gemm" else 10 * p.bytes_min
    times = FASTER.get((rung.name, p.m), 1.0) * SLOWER.get((default.name, p.m), 1.0)
    return work / (RATE * place * times * min(1.0, p.m / 4096 + 0.5))


def cells_of(climb, rungs, p):
    for rung in rungs:
        common = {
            "problem": p, "backend": rung.backend.name, "device": "cuda", "group": key_of(p),
            "config": {
                "rung": rung.name, "part": ladder_cuda_plan.part_of(climb.asked, p),
                "computed_in": ladder_cuda.problem_of(rung, p).math,
                "flop_per_byte": ladder_cuda.model(rung, p),
                "roof_flop_s": 60e12, "roof_byte_s": 4e12, "roof_instruction": "FFMA",
            },
        }  # fmt: skip
        if rung.name.startswith(LACKING):
            yield Cell(**common, timing="throughput", calls_from="device", skip_reason="this GPU lacks it")
            continue
        gate, clocks = GateResult(ok=True, max_error=1.25e-7), Clocks(before_mhz=1980, after_mhz=1965)
        for timing, factor in (("throughput", 1.0), ("latency", 1.2)):
            times = tuple(factor * seconds(rungs, rung, p) for _ in range(6))
            yield Cell(
                **common, timing=timing, samples_s=times, round_of=tuple(range(6)), inner=(1,) * 6,
                gate=gate, clocks=clocks,
            )  # fmt: skip


@pytest.fixture(scope="module")
def run():
    climb = CudaClimb(asked(), ladder_cuda.CudaLadder())
    rungs = climb.provider.rungs()
    cells = [
        cell
        for p in climb.asked.problems
        for cell in cells_of(climb, [r for r in rungs if ladder_cuda.concerns(r, p)], p)
    ]
    machine = {"gpus": [{"name": "NVIDIA H999"}], "cpu": {"model": "some CPU"}}
    options = experiment.options_of(climb)
    return Run(
        created="2026-12-01T00:00:00+00:00", experiment="ladder", options=options, machine=machine,
        cells=tuple(msgspec.structs.replace(cell, provenance="recorded") for cell in cells),
    )  # fmt: skip


@pytest.fixture(scope="module")
def generator(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    (folder / "h999.json").write_bytes(render.makers(run)["json"]())
    spec = importlib.util.spec_from_file_location("generate_all", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate_all"] = module
    spec.loader.exec_module(module)
    module.RECORDS = folder
    return module


def rows(text):
    """First cell -> the others, of every row of the Markdown tables in a text."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and not set(line) <= set("|- "):
            found.setdefault(cells[0], []).append(cells[1:])
    return found


def stems():
    """Rungs on square products, with the number of their arithmetics."""
    return {
        rung.name: len(set(ladder_cuda_plan.offers(rung)))
        for rung in ladder_cuda.provider().rungs()
        if not rung.beside and rung.name != "cublas" and ladder_cuda.header_of(rung).op == "gemm"
        and not ladder_cuda.made_for(rung)
    }  # fmt: skip


class TestReadme:
    @pytest.fixture
    def text(self, generator):
        return generator.ladder_cuda_short()

    def test_a_row_for_every_rung_in_every_arithmetic_with_its_fastest_variant(self, text):
        found = rows(text)
        for stem, count in stems().items():
            named = [name for name in found if name.partition("/")[0] == stem]
            assert sum(len(found[name]) for name in named) == count, stem
        assert len(found["cublas"]) == 6

    def test_figures_stand_at_4096_and_shares_at_the_others(self, text, run):
        assert (
            "M = N = K = 4096. The fastest variant of each rung, named where it is not the default." in text
        )
        head = next(line for line in text.splitlines() if line.startswith("| rung"))
        assert [f"% of cuBLAS at {size}" in head for size in (1024, 2048, 4096, 8192)] == [
            True,
            True,
            False,
            True,
        ]
        step = by_name(run, "square", "float32", "fp32", 4096)["07_warp_tile"]
        row = next(row for row in rows(text)["07_warp_tile"] if row[0] == "float32 in fp32")
        rate, share = f"{step.flop_s / 1e12:.1f}", f"{step.of_reference * 100:.0f}"
        small = by_name(run, "square", "float32", "fp32", 1024)[f"07_warp_tile/{SMALL}"]
        assert row[1:3] == [rate, share] and row[-3] == f"{small.of_reference * 100:.0f} ({SMALL})"

    def test_what_this_gpu_lacks_has_a_dash(self, text):
        assert all(row[1] == "—" for row in rows(text)[LACKING])

    def test_gemv_has_its_sizes(self, text):
        for stored in ("A by rows", "A by columns"):
            found = [row for row in rows(text)[stored] if row[0] == "float32 in fp32"]
            assert [row[1] for row in found] == ["1024", "4096", "4097", "8192", "16384"]
            assert all(row[2].startswith("20_gemv") and row[3] and row[4] for row in found)


def by_name(run, part, dtype, math, size):
    group = (part, dtype, math)
    problem = next(p for p in analysis.problems(run, group) if p.m == size)
    return {step.rung["name"]: step for step in analysis.steps(run, group, problem)}


class TestDocument:
    @pytest.fixture
    def text(self, generator):
        return generator.ladder_cuda()

    def test_every_variant_is_there(self, text):
        names = {rung.name for rung in ladder_cuda.provider().rungs()}
        assert len(names) >= 58 and names <= set(rows(text))

    def test_one_table_for_each_arithmetic_with_all_sizes(self, text, run):
        heads = re.findall(r"### (.*), M = N = K, the fastest variant of each rung", text)
        assert heads == [f"{dtype} in {math}" for dtype, math in asked().arithmetics]
        sizes = [problem.m for _, problem in best.columns_of(run, "float32", "fp32")]
        assert sizes == [1000, 1023, 1024, 2047, 2048, 4096, 4097, 8192]

    def test_ragged_sizes_stand_beside_the_fastest_variant_of_the_whole_one(self, run):
        table = best.best_table(run, "float32", "fp32")
        row = next(row for row in table.rows if row[0] == "07_warp_tile")
        cells = dict(zip(table.columns, row, strict=True))
        ragged = by_name(run, "ragged", "float32", "fp32", 4097)["07_warp_tile"]
        whole = by_name(run, "square", "float32", "fp32", 4096)["07_warp_tile"]
        of_whole, of_cublas = ragged.flop_s / whole.flop_s, ragged.of_reference
        assert of_whole == pytest.approx(0.95)
        assert cells["4097"] == f"{ragged.flop_s / 1e12:.1f} (95, {of_cublas * 100:.0f})"
        assert cells["1024"].endswith(f") {SMALL}") and cells["4096"].endswith(")")
        near = by_name(run, "square", "float32", "fp32", 1024)[f"07_warp_tile/{SMALL}"]
        small = by_name(run, "ragged", "float32", "fp32", 1023)["07_warp_tile"]
        assert f"({small.flop_s / near.flop_s * 100:.0f}, " in cells["1023"]

    def test_gain_is_over_the_fastest_of_the_rung_before(self, run):
        group = ("square", "float32", "fp32")
        problem = next(p for p in analysis.problems(run, group) if p.m == 4096)
        found = {analysis.stem_of(step): step for step in analysis.bests(run, group, problem)}
        before, after = found["06_cp_async"], found["07_warp_tile"]
        assert analysis.variant_of(before) == STAGES
        assert after.gain == pytest.approx(before.time_s / after.time_s)

    def test_errors_clocks_and_what_is_skipped_are_said(self, text):
        assert "1.2e-07" in text and "SM clock after the rounds 1965 to 1980 MHz" in text
        assert f"skipped: {LACKING}: this GPU lacks it" in text

    def test_parts_without_steps_name_the_fastest_of_ours(self, text):
        found = rows(text)["fastest of ours"]
        assert any(
            cell.startswith("20_gemv_warp_row ") and cell.endswith(" %") for row in found for cell in row
        )
        assert any("14_batched" in cell for row in found for cell in row)


def test_a_rung_without_any_time_keeps_its_default_and_reason(run):
    group = ("square", "float16", "fp16")
    problem = analysis.problems(run, group)[0]
    found = {analysis.stem_of(step): step for step in analysis.bests(run, group, problem)}
    assert found[LACKING].rung["name"] == LACKING and found[LACKING].cell.skip_reason
    assert analysis.fastest_of_ours([found[LACKING], found["cublas"]]) is None
