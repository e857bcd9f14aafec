"""`peers`: what is measured, how one visit goes, what is concluded; scripted clocks and made-up records."""

from __future__ import annotations

import functools
import itertools
import json
from typing import Any

import msgspec
import numpy as np
import pytest

from backends.base import Problem
from backends.operands import Operands, allocate, fill_random
from suite import journal, peers_plan, peers_run
from suite.analysis import peers as analysis
from suite.exits import Exit, Stop
from suite.peers_bench import Bench, Setup, arena, fill
from suite.peers_check import Reference
from suite.peers_plan import CLASSES, Group, Rates, Turn, affordable, class_of, groups
from suite.peers_rounds import joined
from suite.peers_run import Asked, Reply
from suite.peers_timing import LONG_S, SAMPLES, WARM_S, visit
from suite.record import Cell, Run
from suite.render import peers as render

RATES = Rates(flops=1e11, bytes_read=1e10)


class Clock:
    """Time that passes only in calls: `costs` seconds each, a CPU for `busy` of it."""

    def __init__(self, costs: float, busy: float = 1.0) -> None:
        self.now = self.used = 0.0
        self.costs, self.busy, self.calls = costs, busy, 0

    def run(self, calls: int) -> float:
        self.calls += calls
        self.now += calls * self.costs
        self.used += calls * self.costs * self.busy
        return calls * self.costs

    def visit(self, expected_s: float = 0.0, warm: Any = None):
        return visit(self.run, expected_s, warm, lambda: self.now, lambda: self.used)


class TestPlan:
    def test_every_class_of_the_comparison_is_there(self):
        found = groups("float32", (1, 2))
        assert {group.kind for group in found} == set(CLASSES)
        squares = [g.problem.m for g in found if g.kind in peers_plan.SQUARE_CLASSES and g.threads == 1]
        assert tuple(squares) == peers_plan.SQUARES
        assert len({group.key for group in found}) == len(found)

    @pytest.mark.parametrize(
        ("problem", "kind"),
        [
            (Problem(m=16, n=16, k=16), "4-16"), (Problem(m=17, n=17, k=17), "24-96"),
            (Problem(m=512, n=512, k=512), "128-512"), (Problem(m=513, n=513, k=513), "768-up"),
            (Problem(m=64, n=64, k=65), "rectangles"), (Problem(m=1, n=64, k=64), "gemv"),
            (Problem(m=64, n=1, k=64), "gemv"), (Problem(op="gemv", m=9, n=9), "gemv"),
            (Problem(m=8, n=8, k=8, batch=9), "batch"),
        ],
    )  # fmt: skip
    def test_classes(self, problem, kind):
        assert class_of(problem) == kind

    def test_all_fits_a_budget_that_pays_one_round_of_each(self):
        wanted = groups("float32", (1,))
        spent = sum(peers_plan.cost_s(group, 4, RATES) for group in wanted)
        assert set(affordable(wanted, 1.001 * spent, 4, RATES)) == set(wanted)

    def test_a_small_budget_thins_out_and_keeps_the_ends_of_each_class(self):
        wanted = groups("float32", (1, 2))
        spent = sum(peers_plan.cost_s(group, 4, RATES) for group in wanted)
        kept = affordable(wanted, 0.6 * spent, 4, RATES)
        assert 0.5 * spent < sum(peers_plan.cost_s(group, 4, RATES) for group in kept) <= 0.6 * spent
        for kind in peers_plan.SQUARE_CLASSES:
            sizes = [g.problem.m for g in wanted if g.kind == kind]
            left = {g.problem.m for g in kept if g.kind == kind}
            assert {min(sizes), max(sizes)} <= left
        assert len(kept) < len(wanted)

    def test_a_key_names_its_group(self):
        for group in groups("float64", (1, 16)):
            assert peers_plan.group_of(group.key) == group
        assert peers_plan.group_of("gemm/4x4x4/...") is None

    def test_what_is_dear_costs_more(self):
        costs = [peers_plan.cost_s(Group(Problem(m=m, n=m, k=m), 1), 4, RATES) for m in (64, 1024, 4096)]
        assert all(a < b for a, b in itertools.pairwise(costs))


class TestVisit:
    def test_it_is_busy_for_50_ms_before_a_sample_counts(self):
        clock = Clock(1e-6)
        before = []
        found = visit(
            lambda calls: before.append(clock.now) or clock.run(calls),
            0.0,
            None,
            lambda: clock.now,
            lambda: 0.0,
        )
        assert len(found.samples_s) == SAMPLES
        assert before[-SAMPLES] >= WARM_S
        assert found.samples_s == pytest.approx([1e-6] * SAMPLES)
        assert 0.003 < found.inner * 1e-6 < 0.005

    def test_a_long_call_is_warmed_by_a_short_one_and_timed_once(self):
        clock = Clock(1.0)
        warmed = []

        def warm(calls: int) -> float:
            warmed.append(calls)
            clock.now += 0.01 * calls
            return 0.01 * calls

        found = clock.visit(LONG_S, warm)
        assert found.samples_s == (1.0,)
        assert clock.calls == 1
        assert sum(warmed) * 0.01 >= WARM_S

    def test_middling_calls_are_timed_one_by_one(self):
        found = Clock(0.015).visit()
        assert found.inner == 1
        assert len(found.samples_s) == 2

    def test_it_tells_how_many_cpus_were_busy(self):
        assert Clock(1e-5, busy=1.9).visit().cpus == pytest.approx(1.9)


class TestCheck:
    def operands(self, problem: Problem) -> Operands:
        found = allocate(problem)
        fill_random(found, 1)
        return found

    @pytest.mark.parametrize(
        "problem",
        [
            Problem(m=70, n=40, k=300), Problem(m=40, n=50, k=60, dtype="float64"),
            Problem(m=8, n=8, k=8, batch=5),
            Problem(op="gemv", m=90, n=300), Problem(op="gemv", m=30, n=200, trans_a=True),
        ],
    )  # fmt: skip
    def test_right_passes_and_wrong_does_not(self, problem):
        operands = self.operands(problem)
        a, b, _ = operands
        right = (a.T if problem.trans_a else a) @ b
        reference = Reference(problem, operands)
        assert reference.judge(right).ok
        assert reference.judge(right, right).ok
        last = right[-1] if right.ndim == 3 else right
        for fault in (np.nan, 0.1):
            wrong = right.copy()
            (wrong[-1] if right.ndim == 3 else wrong)[(0,) * last.ndim] += fault
            assert not reference.judge(wrong).ok
        elsewhere = right.copy()  # in a row that float64 did not compute: seen beside ours
        (elsewhere[-1] if right.ndim == 3 else elsewhere)[1, ...] += 0.1
        assert not reference.judge(elsewhere, right).ok

    def test_one_lost_product_among_thousands_is_seen(self):
        problem = Problem(m=16, n=16, k=4096)
        operands = self.operands(problem)
        a, b, _ = operands
        lost = a[:, :-1] @ b[:-1]
        assert not Reference(problem, operands).judge(lost).ok


def cells(
    group: Group, times: dict[str, float], roof_s: float = 0.0, visits: str = "interleaved"
) -> list[Cell]:
    def cell(name: str, seconds: float, **more: Any) -> Cell:
        backend, _, call = name.partition("/")
        config = {"visits": visits, **({"call": call} if call else {}), **more.pop("config", {})}
        return Cell(
            problem=group.problem, backend=backend, device="cpu", calls_from=group.calls_from,
            threads=group.threads, samples_s=(seconds,), round_of=(0,), inner=(1,), group=group.key,
            kernel="lib.so 1.2", config=config, **more,
        )  # fmt: skip

    found = [cell(name, seconds) for name, seconds in times.items()]
    return found + ([cell("roof", roof_s, config={"roof": "fma"})] if roof_s else [])


def in_round(found: list[Cell], round_: int) -> list[Cell]:
    return [msgspec.structs.replace(cell, round_of=(round_,)) for cell in found]


def run_of(*parts: list[Cell], **options: Any) -> Run:
    caches = [
        {"level": 2, "bytes": 1 << 20, "kind": "unified"},
        {"level": 3, "bytes": 32 << 20, "kind": "unified"},
    ]
    machine = {"cpu": {"model": "Toy", "caches": caches}, "threads": {"usable": 2}}
    return Run(
        experiment="peers",
        created="2026-01-02",
        machine=machine,
        options=options,
        cells=tuple(itertools.chain.from_iterable(parts)),
    )


def square(m: int, threads: int = 1, dtype: str = "float32", calls_from: str = "c") -> Group:
    return Group(Problem(m=m, n=m, k=m, dtype=dtype), threads, calls_from)


class TestAnalysis:
    def test_a_figure_is_the_better_of_interleaved_and_alone(self):
        group = square(64)
        run = run_of(
            cells(group, {"native": 2.0, "cblas:a": 3.0, "cblas:b": 4.0}),
            cells(group, {"native": 2.5, "cblas:a": 5.0, "cblas:b": 1.0}, visits="alone"),
        )
        (entry,) = analysis.entries(run)
        assert entry.ours_s == 2.0
        assert entry.peers_s == {"cblas:a": 3.0, "cblas:b": 1.0}
        assert (entry.best_peer, entry.ratio) == ("cblas:b", 0.5)

    def test_the_least_disturbed_round_counts_by_its_median(self):
        cell = cells(square(64), {"native": 1.0})[0]
        noisy = msgspec.structs.replace(
            cell, samples_s=(9, 2, 3, 8, 8, 0.1), round_of=(0, 0, 0, 1, 1, 1), inner=(1,) * 6
        )
        assert analysis.figure_s([noisy]) == 3

    def test_bars_are_met_by_the_geometric_mean_over_the_class(self):
        run = run_of(
            cells(square(4), {"native": 1.0, "cblas:a": 4.0}),
            cells(square(16), {"native": 1.0, "cblas:a": 1.0}),
            cells(square(64), {"native": 1.0, "cblas:a": 1.04}, roof_s=0.9),
        )
        judged = {(bar.kind, bar.words): results for bar, results in analysis.judged(run)}
        column = ("float32", 1)
        assert judged["4-16", analysis.MEAN][column].value == pytest.approx(2.0)
        assert judged["4-16", analysis.MEAN][column].met
        assert not judged["24-96", analysis.MEAN][column].met
        assert judged["24-96", "of the FMA peak at 64"][column].value == pytest.approx(0.9)
        assert ("batch", "mean against a loop over the best peer") not in judged

    def test_a_mean_says_from_how_many_sizes_of_how_many_it_comes(self):
        keys = [square(m).key for m in (6, 12, 64)] + [square(8, threads=2).key, "what else there is"]
        run = run_of(
            cells(square(4), {"native": 1.0, "cblas:a": 4.0}),
            cells(square(8), {"native": 1.0, "cblas:a": 4.0}),
            cells(square(16), {"cblas:a": 1.0}),  # ours has no figure there
            unmeasured=keys,
        )
        judged = {(bar.kind, bar.words): results for bar, results in analysis.judged(run)}
        column = ("float32", 1)
        every, small = (judged["4-16", f"{analysis.MEAN}{more}"][column] for more in ("", ", 4 to 8"))
        assert (every.count, every.of, small.count, small.of) == (2, 5, 2, 3)
        text = render.to_markdown(run).decode()
        assert "| 4.00 met (2/5) |" in text and "| 4.00 met (2/3) |" in text and render.FRACTION in text

    def test_a_disturbed_peak_is_replaced_by_the_highest_of_the_run(self):
        run = run_of(
            cells(square(64), {"native": 1.0, "cblas:a": 1.0}, roof_s=2.0),
            cells(square(128), {"native": 8.0, "cblas:a": 8.0}, roof_s=4.0),
            cells(square(128, threads=2), {"native": 8.0, "cblas:a": 8.0}, roof_s=1.0),
        )
        assert [entry.share for entry in analysis.entries(run)] == [0.5, 0.5, 0.125]

    def test_threads_have_bars_of_their_own(self):
        run = run_of(
            cells(square(8), {"native": 1.0, "cblas:a": 2.0}),
            cells(square(8, threads=2), {"native": 2.0, "cblas:a": 2.0}),
            cells(square(512, threads=2), {"native": 1.0, "cblas:a": 2.0}, roof_s=0.8),
            cells(square(512, threads=16), {"native": 1.0, "cblas:a": 2.0}, roof_s=0.6),
        )
        judged = {bar.words: results for bar, results in analysis.judged(run)}
        gain = judged["all threads against one, mean"]
        assert set(gain) == {("float32", 2)}
        assert gain["float32", 2].value == pytest.approx(0.5)
        peak = judged["of the FMA peak at 512"]
        assert [(r.least, r.met) for r in (peak["float32", 2], peak["float32", 16])] == [
            (0.82, False),
            (0.5, True),
        ]

    @pytest.mark.parametrize(
        ("m", "place"), [(128, ""), (1024, "l3"), (2000, "l3"), (2600, ""), (4096, "dram")]
    )
    def test_where_a_matrix_lies(self, m, place):
        group = Group(Problem(op="gemv", m=m, n=m), 1)
        assert analysis.place_of(group, {2: 1 << 20, 3: 32 << 20}) == place

    def test_calls_from_python(self):
        times = {"native/gemm": 2.0, "native/prepared": 1.0, "numpy/matmul": 1.4}
        run = run_of(
            cells(square(8, calls_from="python"), times), cells(square(32, calls_from="python"), times)
        )
        judged = {bar.words: results["float32", 1] for bar, results in analysis.judged(run)}
        assert judged["gemm against np.matmul, lowest"].value == pytest.approx(0.7)
        assert judged["prepared call to 16, lowest"].value == pytest.approx(1.4)
        assert judged["prepared call at 32"].met

    def test_what_has_no_peer_or_no_time_gives_no_entry(self):
        wrong = [
            msgspec.structs.replace(
                c, samples_s=(), round_of=(), inner=(), skip_reason="its result is wrong: x"
            )
            for c in cells(square(8), {"cblas:a": 1.0})
        ]
        run = run_of(cells(square(8), {"native": 1.0}), wrong)
        assert analysis.entries(run) == []
        assert analysis.left_out(run) == [(square(8).key, "cblas:a", "its result is wrong: x")]
        assert "NOT COUNTED: cblas:a in gemm/8x8x8" in render.to_markdown(run).decode()


class TestTables:
    def run(self) -> Run:
        return run_of(
            cells(square(64), {"native": 1e-5, "cblas:mkl": 2e-5, "cblas:blis": 3e-5}, roof_s=0.5e-5),
            in_round(cells(square(64), {"native": 1.01e-5, "cblas:mkl": 2.01e-5}, visits="alone"), 1),
            cells(Group(Problem(m=8, n=8, k=8, batch=4), 2), {"native": 1e-6, "cblas:mkl": 1.9999e-6}),
            label="toy", isa="avx2", unmeasured=["gemm/4x4x4/..."],
        )  # fmt: skip

    def test_markdown_has_figures_and_verdicts(self):
        text = render.to_markdown(self.run()).decode()
        assert (
            "toy: Toy, 2 CPUs, ours and every peer held to AVX2; blis 1.2, mkl 1.2; measured 2026-01-02"
            in text
        )
        assert "| 64 | 52.4 (50 %) | 17.5 (17 %) | 26.2 (25 %) | mkl | 2.00 |" in text
        assert "| 4 of 8 | ~" in text  # visited once
        assert "2 comparisons of 1 to 2 rounds; in 1 a figure that counts never settled (~)" in text
        assert "24 to 96, f32, 1 thread, held to AVX2" in text
        assert "In brackets: part of the FMA peak of the same round" in text
        assert "| 24 to 96 | mean against the best peer | ≥ 1.05 | 2.00 met |" in text
        assert "1.99 NOT MET" in text  # rounded down: nearly 2 is not 2
        assert "1 group did not fit the time budget: gemm/4x4x4/..." in text

    def test_the_compact_record_is_read_back_as_it_was(self, tmp_path):
        run = self.run()
        path = tmp_path / "run.json"
        path.write_bytes(journal.compact(run))
        assert journal.load_run(path) == run
        assert len(path.read_text().splitlines()) < 60
        assert journal.compact(run_of()) == journal.readable(run_of())


class Script:
    """Stands in for the measuring process."""

    asked: list[Group] = []

    def __init__(self, setup: Setup, isa: str) -> None:
        self.setup, self.first = setup, Reply(rates=RATES)

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def measure(self, turn: Turn) -> Reply:
        self.asked.append(turn.group)
        if turn.group.problem.m == 6:
            return Reply(error="it died")
        return Reply(tuple(in_round(cells(turn.group, {"native": 1.0, "cblas:a": 2.0}), turn.round_)))


measure = functools.partial(peers_run.measure, sleep=lambda seconds: None)


class TestRun:
    asked = Asked(threads=(1, 2), classes=("4-16",), time_budget_s=100.0)

    def test_groups_and_errors(self, monkeypatch):
        monkeypatch.setattr(Script, "asked", [])
        outcome = measure(self.asked, ("native", "cblas:a"), start=Script)
        assert {g.problem.dtype for g in Script.asked} == {"float32", "float64"}
        assert all(g.expected_s > 0 for g in Script.asked)
        assert len(outcome.cells) == 2 * 2 * 2 * 4
        assert [error.split(":")[1].strip() for error in outcome.errors] == ["it died"] * 4
        assert outcome.unmeasured == []

    def test_what_does_not_fit_is_named(self):
        clock = iter(np.arange(0, 1e4, 30.0))
        outcome = measure(self.asked, ("native", "cblas:a"), start=Script, clock=lambda: next(clock))
        assert outcome.unmeasured
        assert len(outcome.unmeasured) + len({c.group for c in outcome.cells}) + len(outcome.errors) == 20

    def test_a_journal_is_gone_on_with(self, tmp_path, monkeypatch):
        path, head = tmp_path / "j", Run(experiment="peers")
        with journal.Journal.create(path, head) as kept:
            measure(
                msgspec.structs.replace(self.asked, dtypes=("float32",)),
                ("native",),
                journal=kept,
                start=Script,
            )
        monkeypatch.setattr(Script, "asked", [])
        with journal.Journal.resume(path, head) as kept:
            outcome = measure(self.asked, ("native",), journal=kept, start=Script)
        assert {(g.problem.dtype, g.problem.m) for g in Script.asked if g.problem.m != 6} == {
            ("float64", m) for m in (4, 8, 12, 16)
        }
        assert len({c.group for c in outcome.cells}) == 16

    def test_too_large_for_the_memory_is_left_out(self, monkeypatch):
        monkeypatch.setattr(peers_run.harness_memory, "available_bytes", lambda: 10_000_000)
        asked = Asked(threads=(1,))
        largest = max(g.problem.m * g.problem.n for g in asked.groups("float64"))
        assert largest * 8 < 10_000_000
        left = asked.too_large()
        assert "gemm/4096x4096x4096/1/float64/fp64/nn/1/c" in left
        text = render.to_markdown(run_of(too_large=left)).decode()
        assert f"{len(left)} groups did not fit into the memory: gemm/" in text

    def test_where_nothing_fits_it_says_how_much_there_is(self, monkeypatch):
        monkeypatch.setattr(peers_run.harness_memory, "available_bytes", lambda: 1_000_000_000)
        asked = Asked(threads=(1,), sizes=(10_000,), classes=("768-up",))
        with pytest.raises(Stop, match=r"smallest problem needs 4\.0 GB in all, 0\.6 GB may be used"):
            peers_run.check(asked)

    @pytest.mark.parametrize(
        ("kind", "size", "words"),
        [
            ("rectangles", 9, "--sizes 9 make no problem of --classes rectangles: rectangles take none"),
            ("batch", 33, "batch takes those up to 32"),
            ("24-96", 97, "24-96 takes those from 17 to 96"),
            ("768-up", 512, "768-up takes those from 513"),
        ],
    )
    def test_sizes_that_a_class_has_not_are_refused(self, kind, size, words):
        with pytest.raises(Stop, match=words) as stop:
            peers_run.check(Asked(threads=(1,), sizes=(size,), classes=(kind,)))
        assert stop.value.code == Exit.USAGE


def first_round(bench: Bench, group: Group) -> list[Cell]:
    return bench.measure(Turn(group))


class TestBench:
    """The measuring itself, in this process: ours alone, so that no other library is needed."""

    def bench(self, name: str = "native", together: bool = True) -> Bench:
        memory = [arena(5000, "float32"), arena(5000, "float32")]
        for seed, array in enumerate(memory):
            fill(array, seed)
        return Bench(Setup("float32", ("native",), (5000, 5000, 5000)), memory, (name,), together)

    @pytest.mark.parametrize(
        "problem",
        [Problem(m=20, n=20, k=20), Problem(op="gemv", m=40, n=40), Problem(m=4, n=4, k=4, batch=9)],
    )
    def test_a_group(self, problem):
        bench, group = self.bench(), Group(problem, 1)
        rounds = [bench.measure(Turn(group, round_, ("native",))) for round_ in range(2)]
        assert [cell.backend for found in rounds for cell in found] == ["native", "roof"] * 2
        ours, roof = map(joined, *rounds)
        assert ours.gate.ok
        assert set(ours.round_of) == set(roof.round_of) == {0, 1}
        assert ours.config["visits"] == "interleaved"
        assert ours.config["isa"]
        assert 0 < min(roof.samples_s) < min(ours.samples_s) * 2
        assert roof.config["roof"] == ("read" if problem.op == "gemv" else "fma")

    def test_calls_from_python_are_three(self):
        group = Group(Problem(m=8, n=8, k=8), 1, "python")
        *found, roof = first_round(self.bench(), group)
        assert [(c.backend, c.config["call"]) for c in found] == [
            ("native", "gemm"), ("native", "prepared"), ("numpy", "matmul"),
        ]  # fmt: skip
        assert all(c.samples_s and c.gate.ok for c in found)
        assert (roof.backend, roof.config["roof"], roof.calls_from) == ("roof", "fma", "python")
        alone = first_round(self.bench("numpy", together=False), group)
        assert [(c.backend, c.config["visits"]) for c in alone] == [("numpy", "alone")]

    def test_a_wrong_result_has_no_time(self, monkeypatch):
        monkeypatch.setattr("suite.peers_check.CENTRED", 1e-9)
        cell = first_round(self.bench(), Group(Problem(m=20, n=20, k=20), 1))[0]
        assert not cell.gate.ok
        assert cell.samples_s == ()
        assert "its result is wrong" in cell.skip_reason

    @pytest.mark.parametrize(("cpus", "counts"), [(2, False), (1, True)])
    def test_more_threads_than_asked_are_not_counted_where_there_are_more(self, monkeypatch, cpus, counts):
        monkeypatch.setattr("suite.peers_bench.CPU_TOLERANCE", -0.9)
        monkeypatch.setattr("suite.peers_bench.allowed_cpus", lambda: cpus)
        cell = first_round(self.bench(), Group(Problem(m=20, n=20, k=20), 1))[0]
        assert bool(cell.samples_s) == counts
        assert ("CPUs busy where threads = 1" in cell.skip_reason) != counts


def test_records_are_json(tmp_path):
    run = run_of(cells(square(64), {"native": 1.0, "cblas:a": 1.0}))
    assert json.loads(journal.compact(run))["experiment"] == "peers"


def test_blis_is_pinned_by_number():
    """BLIS 0.9 takes the value by atoi(): a name is 0, its AVX-512 kernels."""
    assert peers_run.PINS["avx2"]["BLIS_ARCH_TYPE"].isdigit()
