"""Known ways to measure wrongly, each played on scripted backends: the harness must not be taken in."""

import math

import pytest

from backends.base import Problem
from backends.null import NullBackend
from suite.clock import Clock, ClockError, FakeClock, PerfClock
from suite.harness import Settings, measure_group
from suite.record import Clocks, GateResult
from suite.stats import spread

MODES = (("resident", 1), ("once", 10), ("always", 1))
SMALL = Problem(m=2, n=2, k=2)


def fixed(name, device, seconds, clock, **more):
    """A backend whose runs always take `seconds`; once pays for its reuse."""
    return NullBackend(name, device, lambda p, t, r, i: seconds * r, clock=clock, **more)


def measure(backends, clock, problem=SMALL, modes=MODES, gate=None, clocks=None, **settings):
    options = {"gate": gate is not None, "group_budget_s": 1e9, **settings}
    return measure_group(
        problem, "pageable", modes, Settings(**options), backends=backends, clock=clock, gate=gate,
        clocks=clocks, memory_bytes=1 << 40,
    )  # fmt: skip


def candidate(cells, backend, transfer="resident", role="candidate"):
    (found,) = [c for c in cells if (c.backend, c.transfer, c.role) == (backend, transfer, role)]
    return found


def test_p01_work_that_is_queued_is_waited_for():
    """The backend queues 50 ms of work and returns at once."""
    clock = FakeClock()
    cells = measure([fixed("gpu", "cuda", 0.05, clock, queue=True)], clock)
    for transfer, runs in (("resident", 1), ("once", 10), ("always", 1)):
        samples = candidate(cells, "gpu", transfer).samples_s
        assert min(samples) >= 0.05 * runs * (1 - 1e-9)


def test_p02_the_first_call_stands_apart():
    """The first call takes a second more, and compiling took two."""
    clock = FakeClock()
    gpu = fixed("gpu", "cuda", 1e-4, clock, first_call_s=1.0, compile_s=2.0)
    cell = candidate(measure([gpu], clock), "gpu")
    assert cell.first_call_s == pytest.approx(1.0001)
    assert cell.compile_s == 2.0 and cell.pin_s is None
    assert max(cell.samples_s) == pytest.approx(1e-4)


def test_what_a_session_says_of_its_opening_stands_in_every_cell(monkeypatch):
    clock = FakeClock()
    gpu = fixed("gpu", "cuda", 1e-4, clock)
    opened = gpu.open

    def opening(*call, **how):
        session = opened(*call, **how)
        session.info.alloc_s, session.info.pin_s = 0.25, 0.5
        return session

    monkeypatch.setattr(gpu, "open", opening)
    cells = [cell for cell in measure([gpu], clock) if cell.samples_s]
    assert cells and {(cell.alloc_s, cell.pin_s) for cell in cells} == {(0.25, 0.5)}


@pytest.mark.parametrize("seconds", [1e-6, 1e-4, 0.3])
def test_p04_a_coarse_timer_is_outlasted(seconds):
    """Steps of 15.6 ms: samples repeat a short product until they are many steps long."""
    clock = FakeClock(step=0.0156)
    cpu = fixed("cpu", "cpu", seconds, clock, compute=False)
    cell = candidate(measure([cpu], clock, modes=[("resident", 1)], rounds_min=2, rounds_max=2), "cpu")
    assert spread(cell.samples_s).median == pytest.approx(seconds, rel=0.06)
    assert all(s * n >= 10 * 0.0156 for s, n in zip(cell.samples_s, cell.inner, strict=True))
    assert all(math.isfinite(s) and s > 0 for s in cell.samples_s)
    assert "below_resolution" not in cell.flags


def test_p04_what_stays_below_the_resolution_is_marked(monkeypatch):
    monkeypatch.setattr("suite.harness_sample.MAX_INNER", 1 << 12)
    clock = FakeClock(step=0.0156)
    cpu = fixed("cpu", "cpu", 1e-5, clock, compute=False)
    cell = candidate(measure([cpu], clock, modes=[("resident", 1)]), "cpu")
    assert "below_resolution" in cell.flags
    assert all(math.isfinite(s) for s in cell.samples_s)


def test_p04_a_clock_that_stands_still_is_an_error_not_a_hang():
    clock = FakeClock(stuck=True)
    with pytest.raises(ClockError, match="did not move"):
        measure([fixed("cpu", "cpu", 1e-5, clock, compute=False)], clock)


def test_p04_a_real_clock_that_stands_still_is_found():
    clock = PerfClock()
    clock.now = lambda: 7.0
    with pytest.raises(ClockError, match=r"stood still at 7\.0"):
        clock.resolution()


def test_the_real_clock():
    clock: Clock = PerfClock()
    assert 0 < clock.resolution() < 1e-3
    start = clock.now()
    clock.spin(0.002)
    assert 0.002 <= clock.now() - start < 0.5


def shown_ok(session):
    """A gate that looks at whether the result was written at all."""
    session.operands.a.fill(1)
    session.operands.b.fill(1)
    session.operands.c.fill(float("nan"))
    session.upload()
    session.run()
    session.synchronize()
    ok = bool((session.operands.c == session.problem.k).all())
    return GateResult(ok=ok, failed="" if ok else "exact", detail="" if ok else "C was not written")


def test_p05_a_backend_that_computes_nothing_gets_no_time():
    """It would be the fastest; the honest one stands for its side."""
    clock = FakeClock()
    cells = measure(
        [
            fixed("idle", "cpu", 1e-9, clock, compute=False),
            fixed("honest", "cpu", 1e-4, clock),
            fixed("gpu", "cuda", 1e-5, clock),
        ],
        clock,
        gate=shown_ok,
    )
    idle = [c for c in cells if c.backend == "idle"]
    assert {c.transfer for c in idle} == {"resident", "once", "always"}
    assert all(c.samples_s == () and not c.gate.ok for c in idle)
    assert all("C was not written" in c.skip_reason for c in idle)
    assert candidate(cells, "honest").gate.ok
    assert len(candidate(cells, "honest").samples_s) >= 6


def test_a_gate_that_raises_counts_as_failed():
    def broken(session):
        raise ArithmeticError("no reference")

    clock = FakeClock()
    (cell,) = measure([fixed("cpu", "cpu", 1e-4, clock)], clock, gate=broken, modes=[("resident", 1)])
    assert (cell.gate.failed, cell.samples_s) == ("error", ())
    assert "no reference" in cell.skip_reason


def test_p10_throttled_rows_are_kept_and_flagged():
    """The clock always stands at 59 % of nominal."""
    clock = FakeClock()

    def slow(device):
        return Clocks(before_mhz=1168, nominal_mhz=1980) if device == "cuda" else None

    backends = [fixed("gpu", "cuda", 1e-4, clock), fixed("cpu", "cpu", 1e-4, clock)]
    cells = measure(backends, clock, clocks=slow)
    cell = candidate(cells, "gpu")
    assert "throttled" in cell.flags
    assert len(cell.samples_s) >= 6
    assert (cell.clocks.before_mhz, cell.clocks.after_mhz, cell.clocks.nominal_mhz) == (1168, 1168, 1980)
    assert "throttled" not in candidate(cells, "cpu").flags


def test_p10_throttle_reasons_flag_a_row_at_full_clock():
    clock = FakeClock()
    readings = iter([Clocks(before_mhz=1980, nominal_mhz=1980)])

    def then_capped(device):
        return next(readings, Clocks(before_mhz=1975, nominal_mhz=1980, throttle=("sw_power_cap",)))

    cell = candidate(measure([fixed("gpu", "cuda", 1e-4, clock)], clock, clocks=then_capped), "gpu")
    assert cell.clocks.throttle == ("sw_power_cap",)
    assert "throttled" in cell.flags


def test_p10_a_reader_that_raises_costs_no_row():
    clock = FakeClock()
    calls = []

    def lost(device):
        calls.append(device)
        raise OSError("GPU is lost")

    cell = candidate(measure([fixed("gpu", "cuda", 1e-4, clock)], clock, clocks=lost), "gpu")
    assert len(cell.samples_s) >= 6
    assert cell.clocks is None
    assert "clocks_unread" in cell.flags
    assert calls == ["cuda"]
