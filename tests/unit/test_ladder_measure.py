"""A ladder climbed on scripted times: what is timed, too slow or wrong, and what is made of it."""

from __future__ import annotations

import csv
import io
import json

import msgspec
import pytest
from rich.console import Console

from backends import operands
from backends.base import Unavailable
from backends.null import NullBackend
from suite import journal, ladder_measure
from suite.analysis import ladder as analysis
from suite.clock import FakeClock
from suite.exits import Exit, Stop
from suite.experiments import ladder as experiment
from suite.ladder import Provider, Rung
from suite.ladder_measure import Climb, Request
from suite.record import GateResult
from suite.render import ladder as render

ROOF = 1e9
RATES = {"01_a": 1e6, "02_b": 5e6, "02_b/auto": 2e7, "03_c": 1e8}
"""FLOP/s of the scripted rungs, on one thread."""


class Scripted(Provider):
    """Four rungs; the last uses two threads and so is twice as fast."""

    device = "cpu"
    levels = (("FLOP/B", "registers"),)
    columns = (("tile", "tile"),)

    def __init__(self, clock, **more):
        self.clock, self.roofs, self.more = clock, [], more

    def unavailable(self):
        return self.more.get("reason", "")

    def rungs(self):
        return [self.rung(name, rate) for name, rate in {**RATES, **self.more.get("rates", {})}.items()]

    def rung(self, name, rate):
        backend = NullBackend(
            name,
            "cpu",
            lambda p, *_: p.flops / rate,
            clock=self.clock,
            compute=self.more.get("compute", {}).get(name, False),
            thread_factor={1: 1.0, 2: 0.5},
        )
        texts = {"title": name[3:], "idea": "i", "changes": f"change of {name}", "look_at": "l"}
        threads = None if name == "03_c" else 1
        return Rung(name=name, backend=backend, threads=threads, beside="/" in name, **texts)

    def threads(self, asked):
        return min(asked or 2, 2)

    def roof_flop_s(self, dtype, threads, seconds):
        self.clock.advance(seconds)
        self.roofs.append(threads)
        return ROOF * threads


def right(session, seed, cache):
    return GateResult(ok=True, max_error=1e-8)


def climb(asked=None, gate=right, **more):
    clock = FakeClock()
    asked = asked or Request(sizes=(8, 16), time_budget_s=60)
    return Climb(asked, Scripted(clock, **more), gate=gate, clock=clock)


@pytest.fixture(scope="module")
def run():
    return experiment.measure(climb(), "gemm-crossover ladder")


def by_name(run, size, dtype="float32"):
    return {step.rung["name"]: step for step in analysis.steps(run, dtype, size)}


class TestClimb:
    def test_rates_shares_and_gains(self, run):
        found = by_name(run, 16)
        assert [step.flop_s for step in found.values()] == pytest.approx([1e6, 5e6, 2e7, 2e8], rel=1e-6)
        assert found["01_a"].gain is None
        assert found["02_b"].gain == pytest.approx(5)
        assert found["02_b/auto"].gain == pytest.approx(4)
        assert found["03_c"].gain == pytest.approx(40), "over the rung above, not over the variant beside it"
        assert found["01_a"].share == pytest.approx(1e-3)
        assert found["03_c"].share == pytest.approx(0.1), "of the roof on as many threads"

    def test_every_round_measures_the_roof_on_every_count_of_threads(self):
        one = climb()
        list(one.run())
        rounds = 2 * 8
        assert sorted(one.provider.roofs) == [1] * rounds + [2] * rounds

    def test_only_the_rungs_asked_for(self):
        one = climb(Request(sizes=(8,), rungs=("03_c", "01_a")))
        assert [cell.config["rung"] for cell in one.run()] == ["01_a", "03_c"]

    def test_every_type_at_every_size(self):
        cells = list(climb(Request(sizes=(8, 16), dtypes=("float32", "float64"))).run())
        assert len(cells) == 4 * 4 and len({cell.group for cell in cells}) == 4

    def test_threads_asked_for_bind_the_rungs_that_use_several(self):
        cells = list(climb(Request(sizes=(8,), threads=1)).run())
        assert {cell.threads for cell in cells} == {1}

    def test_one_too_slow_has_no_time_and_says_how_long_it_takes(self):
        one = climb(Request(sizes=(8, 512), time_budget_s=30))
        cells = {(c.config["rung"], c.problem.m): c for c in one.run()}
        slow = cells["01_a", 512]
        assert slow.samples_s == () and slow.gate is None
        assert "a product takes about 2.7e+02 s" in slow.skip_reason and "--time-budget" in slow.skip_reason
        assert cells["01_a", 8].samples_s and cells["03_c", 512].samples_s
        assert one.clock.now() < 60

    def test_a_first_size_that_is_large_is_tried_small_before(self):
        one = climb(Request(sizes=(512,), time_budget_s=5), rates={"01_a": 1e7})
        slow = next(iter(one.run()))
        assert "a product takes about 27 s" in slow.skip_reason
        assert one.clock.now() < 10

    def test_a_slow_rung_is_left_out_of_the_later_rounds(self):
        cells = list(climb(Request(sizes=(64,), time_budget_s=100), rates={"01_a": 1e6}).run())
        rounds = {cell.config["rung"]: len(set(cell.round_of)) for cell in cells}
        assert rounds == {"01_a": 2, "02_b": 8, "02_b/auto": 8, "03_c": 8}

    def test_what_raises_costs_its_own_cell_only(self):
        def broken(problem, operands):
            raise MemoryError("no memory")

        cells = {c.config["rung"]: c for c in climb(compute={"02_b": broken}).run()}
        assert cells["02_b"].skip_reason == "MemoryError: no memory"
        assert cells["03_c"].samples_s

    def test_a_type_without_arrays_here_is_said_and_the_others_are_climbed(self, monkeypatch):
        def allocate(problem):
            if problem.dtype == "float64":
                raise Unavailable("no float64 arrays here")
            return operands.allocate(problem)

        monkeypatch.setattr(ladder_measure, "allocate", allocate)
        asked = Request(sizes=(8,), dtypes=("float64", "float32"), time_budget_s=60)
        cells = {(c.problem.dtype, c.config["rung"]): c for c in climb(asked).run()}
        assert cells["float64", "03_c"].skip_reason == "no float64 arrays here"
        assert cells["float32", "03_c"].samples_s

    def test_too_large_for_the_memory_is_said(self, monkeypatch):
        monkeypatch.setattr("suite.harness_memory.available_bytes", lambda: 1000)
        cells = list(climb().run())
        assert all("host memory: needs" in cell.skip_reason for cell in cells[4:])

    def test_the_same_seed_has_the_same_times(self):
        assert [c.samples_s for c in climb().run()] == [c.samples_s for c in climb().run()]


class TestWrong:
    def test_a_wrong_rung_is_caught_and_not_timed(self):
        from suite.ladder_measure import check

        def off_by_one(problem, operands):
            operands.c[...] = operands.a @ operands.b
            operands.c[-1, -1] += 1

        one = climb(gate=check, compute={**dict.fromkeys(RATES, True), "02_b": off_by_one})
        run = experiment.measure(one)
        bad = analysis.wrong(run)
        assert {cell.config["rung"] for cell in bad} == {"02_b"} and bad[0].samples_s == ()
        assert bad[0].skip_reason.startswith("gate failed (exact): integers: C[7, 7]")
        assert by_name(run, 16)["03_c"].gain is None, "there is no rate below to compare with"
        assert by_name(run, 16)["02_b/auto"].flop_s
        with pytest.raises(Stop, match="wrong results: 02_b") as stop:
            experiment.ending(run, None, one.provider)
        assert stop.value.code == Exit.ERROR
        assert "WRONG RESULT, not timed: 02_b" in shown(run)


def shown(run, width=140, encoding="utf-8", quiet=False):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    out = Console(file=file, width=width, highlight=False)
    render.show(run, out, quiet=quiet)
    file.flush()
    return file.buffer.getvalue().decode(encoding)


class TestTables:
    def test_everything_is_there(self, run):
        text = shown(run)
        for words in ("change of 02_b", "×40.0", "float32, M = N = K = 8", "GFLOP/s, logarithmic", "1.0e-08"):
            assert words in text, words
        assert "change of 02_b/auto" not in text, "a variant changes the compiler's part only"

    def test_quiet_is_the_rates_alone(self, run):
        text = shown(run, quiet=True)
        assert "by size" in text and "0.200 (10.0 %)" in text
        assert "logarithmic" not in text and "change of" not in text

    @pytest.mark.parametrize("width", [40, 60, 80])
    def test_narrow_terminals_lose_nothing(self, run, width):
        text = shown(run, width=width)
        assert "0.200" in text and "03_c" in text
        assert max(map(len, text.splitlines())) <= width

    def test_ascii(self, run):
        assert "###" in shown(run, encoding="ascii")

    def test_bars_are_logarithmic(self, run):
        lines = render.chart(analysis.steps(run, "float32", 16), 31, "#").splitlines()
        assert [line.count("#") for line in lines] == [1, 10, 18, 31]

    def test_the_reasons_are_gathered_below(self):
        run = experiment.measure(climb(Request(sizes=(8, 512), time_budget_s=30)))
        text = shown(run)
        assert "not timed: 01_a: a product takes about" in text and "01_a" + " " * 20 in text
        assert "—" in text and "not timed" in render.chart(analysis.steps(run, "float32", 512), 20, "#")

    def test_markdown(self, run):
        text = render.makers(run)["markdown"]().decode()
        assert "| 03_c | c | 0.200 (10.0 %) | 0.200 (10.0 %) |" in text
        assert "| 02_b | change of 02_b |" in text

    def test_csv(self, run):
        rows = list(csv.DictReader(io.StringIO(render.makers(run)["csv"]().decode())))
        assert len(rows) == 8 and rows[-1]["rung"] == "03_c"
        assert float(rows[-1]["flop_s"]) == pytest.approx(2e8, rel=1e-6)
        assert float(rows[-1]["share_of_roof"]) == pytest.approx(0.1) and rows[0]["gain"] == ""
        assert rows[2]["beside"] == "True" and rows[0]["gate"] == "ok"

    def test_json_comes_back(self, run, tmp_path):
        path = tmp_path / "run.json"
        path.write_bytes(render.makers(run)["json"]())
        again = journal.load_run(path)
        render.check(again)
        assert shown(again) == shown(run)
        assert json.loads(path.read_text())["experiment"] == "ladder"


class TestCheck:
    @pytest.mark.parametrize("name", ["rungs", "levels", "columns"])
    def test_a_record_that_lacks_an_option_is_named(self, run, name):
        options = {key: value for key, value in run.options.items() if key != name}
        with pytest.raises(ValueError, match=f"not a ladder: .*{name}"):
            render.check(msgspec.structs.replace(run, options=options))

    def test_a_cell_of_no_rung_is_named(self, run):
        cells = (*run.cells[:1], msgspec.structs.replace(run.cells[1], config={}))
        with pytest.raises(ValueError, match=r"cells\[1\].config.rung"):
            render.check(msgspec.structs.replace(run, cells=cells))


class TestRequest:
    def test_an_unknown_rung_is_named(self):
        with pytest.raises(Stop, match="'04_d' is unknown: use one of 01_a") as stop:
            experiment.checked(Request(rungs=("04_d",)), Scripted(FakeClock()))
        assert stop.value.code == Exit.USAGE

    def test_a_ladder_that_cannot_be_climbed_says_why(self):
        with pytest.raises(Stop, match="not built") as stop:
            experiment.checked(Request(), Scripted(FakeClock(), reason="not built; pip install ."))
        assert stop.value.code == Exit.ERROR

    def test_a_rung_without_any_time_is_no_verdict(self, capsys):
        one = climb(Request(sizes=(512,), time_budget_s=5))
        assert experiment.ending(experiment.measure(one), None, one.provider) == Exit.NO_VERDICT
        assert "01_a has no time at any size: a product takes about" in capsys.readouterr().err

    def test_more_threads_than_there_are_is_a_note(self, run, capsys):
        assert experiment.ending(run, 9, Scripted(FakeClock())) == Exit.OK
        assert "--threads 9: 2 can run at once here" in capsys.readouterr().err
