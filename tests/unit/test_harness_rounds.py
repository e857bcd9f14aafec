"""How a group is measured: sides interleaved and woken, chosen on pilots, stopped by one rule, never lost."""

import random

import pytest

from backends.base import Problem
from backends.null import NullBackend
from suite.analysis.controls import DELAY_KEY, group_resolution
from suite.analysis.crossover import points
from suite.clock import FakeClock
from suite.harness import Event, Settings, measure_group
from suite.harness_rounds import looks
from suite.record import GateResult, group_key

MODES = (("resident", 1), ("once", 10), ("always", 1))
P = Problem(m=4, n=4, k=4)
FIRST_LOOK = Settings().rounds_min


class Trace:
    """A backend pair on one false clock that writes down, in order, what was done to whom."""

    def __init__(self, cpu_s=1e-3, gpu_s=5e-4, sigma=0.0, **more):
        self.clock, self.log, self.rng, self.sigma = FakeClock(), [], random.Random(3), sigma
        self.cpu = self.backend("cpu", "cpu", cpu_s, **more)
        self.gpu = self.backend("gpu", "cuda", gpu_s, **more)

    def backend(self, name, device, seconds, **more):
        def time_fn(problem, transfer, reuse, index):
            self.log.append((name, transfer, self.clock.true_s))
            noise = self.rng.lognormvariate(0, self.sigma) if self.sigma else 1.0
            return (seconds(transfer) if callable(seconds) else seconds * reuse) * noise

        return NullBackend(name, device, time_fn, clock=self.clock, compute=False, **more)

    def run(self, backends=None, modes=MODES, **settings):
        options = {"gate": False, "group_budget_s": 1e9, "block_s": 0.0, **settings}
        events = []
        cells = measure_group(
            P, "pageable", modes, Settings(**options), clock=self.clock, clocks=None, memory_bytes=1 << 40,
            backends=[self.cpu, self.gpu] if backends is None else backends, on_event=events.append,
        )  # fmt: skip
        self.events = events
        return cells


def of(cells, backend, role="candidate", transfer="resident"):
    return next(c for c in cells if (c.backend, c.role, c.transfer) == (backend, role, transfer))


def test_every_mode_of_both_sides_is_sampled_in_the_same_rounds():
    cells = Trace(sigma=0.01).run()
    timed = [c for c in cells if c.samples_s]
    assert len({c.round_of for c in timed}) == 1
    assert {c.group for c in cells} == {group_key(P, "pageable")}
    assert {(c.backend, c.transfer, c.reuse) for c in timed if c.role == "candidate"} == {
        (b, t, r) for b in ("cpu", "gpu") for t, r in MODES
    }


def test_a_cpu_cell_holds_its_run_as_often_as_the_mode_reuses_it():
    cells = Trace(cpu_s=1e-3).run()
    once, resident = of(cells, "cpu", transfer="once"), of(cells, "cpu")
    assert (once.scaled_by, resident.scaled_by) == (10, 1)
    assert once.samples_s == tuple(10 * s for s in resident.samples_s)
    assert of(cells, "gpu", transfer="once").scaled_by == 1


def test_one_interruption_in_a_visit_does_not_make_the_time_of_its_round():
    trace = Trace(cpu_s=1e-5)
    quick = trace.backend("gpu", "cuda", lambda transfer: 1e-5)
    steady, calls = quick.time_fn, iter(range(1 << 30))
    quick.time_fn = lambda *about: steady(*about) + (0.5 if next(calls) % 331 == 0 else 0.0)
    cells = trace.run([trace.cpu, quick], block_s=1e-3, takes=3, rounds_min=6)
    gpu = of(cells, "gpu")
    assert len(gpu.samples_s) == 3 * len(gpu.times_s)
    assert max(gpu.samples_s) > 1e-3
    assert max(gpu.times_s) == pytest.approx(1e-5)


def test_slow_calls_are_not_repeated_for_a_median():
    cells = Trace(cpu_s=2e-3, gpu_s=5e-3).run(block_s=1.5e-3, takes=3)
    taken = {name: len(of(cells, name).samples_s) / len(of(cells, name).times_s) for name in ("cpu", "gpu")}
    assert taken == {"cpu": 2, "gpu": 1}


def test_the_order_of_sides_is_random_and_repeatable():
    def order(seed):
        trace = Trace()
        trace.run(seed=seed, rounds_min=12, rounds_max=12, same=1.0, wake_s=0.0)
        return [name for name, _, _ in trace.log]

    assert order(1) == order(1)
    assert order(1) != order(2)
    tail = "".join(name[0] for name in order(1)[-60:])
    assert "cg" in tail and "gc" in tail


def test_after_every_switch_a_side_works_untimed_before_it_is_timed():
    """Between the first call of a turn and its first sample lie at least wake_s of its own work."""
    trace = Trace(cpu_s=1e-3, gpu_s=1e-3)
    cells = trace.run(wake_s=0.02, rounds_min=4, rounds_max=4, modes=[("resident", 1)], controls=False)
    count = len(of(cells, "cpu").samples_s)
    assert count == 4
    turns = []
    for name, _, at in trace.log[-4 * 2 * 21 :]:
        if not turns or turns[-1][0] != name:
            turns.append((name, []))
        turns[-1][1].append(at)
    for _, times in turns:
        assert times[-1] - times[0] >= 0.02 - 1e-9


def test_sessions_are_parked_before_the_next_one_is_activated():
    trace = Trace()
    order = []
    for backend in (trace.cpu, trace.gpu):
        opened = backend.open

        def spy(*args, opened=opened, name=backend.name, **kwargs):
            session = opened(*args, **kwargs)
            session.activate = lambda: order.append(("activate", name))
            session.quiesce = lambda: order.append(("quiesce", name))
            return session

        backend.open = spy
    trace.run()
    assert len(order) > 40
    for (first, owner), (second, other) in zip(order[::2], order[1::2], strict=True):
        assert (first, second, owner) == ("activate", "quiesce", other)


def test_slow_calls_are_not_repeated_to_wake():
    trace = Trace(cpu_s=2.0, gpu_s=1e-3)
    cells = trace.run(modes=[("resident", 1)], group_budget_s=5.0, rounds_max=FIRST_LOOK)
    samples = len(of(cells, "cpu").samples_s)
    calls = sum(name == "cpu" for name, _, _ in trace.log)
    assert samples >= 2
    assert calls == samples + 2  # the first call and one screening call
    assert not any(c.role != "candidate" for c in cells if c.backend == "cpu")
    assert any(c.role == "control_aa" for c in cells if c.backend == "gpu")


def test_two_rounds_are_made_whatever_they_cost():
    cells = Trace(cpu_s=100.0, gpu_s=1e-3).run(modes=[("resident", 1)], group_budget_s=0.1)
    cell = of(cells, "cpu")
    assert len(cell.samples_s) == 2
    assert "time_budget" in cell.flags
    found = points(cells, "resident", 1, lambda p: p.m)
    assert found[0].ratio.verdict == "win"


def test_six_rounds_are_made_where_a_few_budgets_suffice():
    """Two rounds of a noisy pair decide nothing, however far apart the sides are."""
    trace = Trace(cpu_s=2e-2, gpu_s=1e-3, sigma=0.3)
    cells = trace.run(modes=[("resident", 1)], group_budget_s=0.15, rounds_least=6)
    assert 2 < len(of(cells, "cpu").times_s) <= 6
    assert points(cells, "resident", 1, lambda p: p.m)[0].ratio.verdict == "win"


def test_a_clear_case_stops_at_the_first_look_and_a_close_one_goes_on():
    clear = of(Trace(cpu_s=1e-2, sigma=0.05).run(), "cpu")
    close = of(Trace(cpu_s=5.2e-4, sigma=0.05).run(modes=[("resident", 1)]), "cpu")
    assert len(clear.samples_s) == FIRST_LOOK
    assert 2 * FIRST_LOOK < len(close.samples_s) <= 40


def test_a_ratio_of_one_is_given_up_once_it_is_sure_to_be_too_close():
    cells = Trace(cpu_s=5e-4, gpu_s=5e-4, sigma=0.005).run(modes=[("resident", 1)])
    assert len(of(cells, "cpu").samples_s) <= 12


def test_rounds_end_at_their_maximum():
    cells = Trace(cpu_s=5e-4, gpu_s=5e-4, sigma=0.3).run(modes=[("resident", 1)], rounds_max=15)
    assert len(of(cells, "cpu").samples_s) == 15
    assert "noisy" in of(cells, "cpu").flags


def test_one_side_alone_is_measured_too():
    trace = Trace(sigma=0.01)
    cells = trace.run(backends=[trace.cpu])
    assert len(of(cells, "cpu").samples_s) == 2 * FIRST_LOOK
    assert of(cells, "cpu", "control_aa").samples_s


@pytest.mark.parametrize(("first", "last"), [(2, 2), (6, 40), (6, 7), (2, 100)])
def test_looks_are_few_and_end_at_the_maximum(first, last):
    found = looks(first, last)
    assert found[0] == first and found[-1] == last
    assert found == sorted(set(found))
    assert len(found) <= 14


def test_the_best_backend_and_thread_count_stand_for_the_cpu():
    trace = Trace(gpu_s=1e-2)
    fast = trace.backend("fast", "cpu", 4e-4, thread_factor={1: 3.0, 2: 1.4, 4: 1.0, 8: 1.2, 16: 1.6})
    near = trace.backend("near", "cpu", 5e-4)
    cells = trace.run(backends=[trace.cpu, near, fast, trace.gpu])
    best = of(cells, "fast")
    assert best.threads == 4
    assert {c.backend for c in cells if c.role == "candidate" and c.device == "cpu"} == {"fast"}
    pilots = {(c.backend, c.threads) for c in cells if c.role == "pilot" and c.samples_s}
    assert {("fast", 4), ("near", 1)} <= pilots
    skipped = [c for c in cells if c.backend == "cpu"]
    assert skipped and all("screening" in c.skip_reason and not c.samples_s for c in skipped)
    assert best.round_of == tuple(range(len(best.samples_s)))


def test_of_slow_runs_half_the_threads_are_tried_too():
    trace = Trace(gpu_s=1.0)
    smt = trace.backend("smt", "cpu", 0.2, thread_factor={1: 8.0, 8: 1.0, 16: 1.2})
    cells = trace.run(backends=[smt, trace.gpu], rounds_max=FIRST_LOOK)
    assert of(cells, "smt").threads == 8
    assert {c.threads for c in cells if c.backend == "smt"} == {8, 16}


@pytest.mark.parametrize(("used", "timed"), [(1, {1}), (None, {2, 4, 8}), (4, {1, 2, 4})])
def test_counts_of_which_the_library_used_as_many_threads_are_one_candidate(used, timed):
    """A product too small to share runs on one thread, whatever the limit."""
    trace = Trace(gpu_s=1.0)
    factor = {1: 1.0, 2: 1.0, 4: 1.0, 8: 1.0} if used == 1 else {1: 1.1, 2: 1.1, 4: 1.0, 8: 1.0}
    small = trace.backend("small", "cpu", 1e-3, thread_factor=factor)
    opened, small.open = small.open, lambda *about, **more: count(opened(*about, **more))

    def count(session):
        asked = session.info.threads
        session.observed_threads = lambda: used if used is None else min(used, asked)
        return session

    cells = trace.run(backends=[small, trace.gpu], rounds_max=FIRST_LOOK)
    assert {c.threads for c in cells if c.backend == "small"} == timed


def test_a_thread_count_that_is_asked_for_is_the_only_one():
    trace = Trace()
    many = trace.backend("many", "cpu", 1e-3, thread_factor={1: 3.0, 4: 1.0})
    cells = trace.run(backends=[many], threads=1)
    assert {c.threads for c in cells} == {1}


def test_the_best_gpu_backend_is_chosen_in_each_mode():
    trace = Trace(cpu_s=1e-2)
    kernel = trace.backend("kernel", "cuda", lambda t: 1e-4 if t == "resident" else 9e-4)
    copies = trace.backend("copies", "cuda", lambda t: 1.4e-4 if t == "resident" else 7e-4)
    cells = trace.run(backends=[trace.cpu, kernel, copies])
    chosen = {c.transfer: c.backend for c in cells if c.device == "cuda" and c.role == "candidate"}
    assert chosen == {"resident": "kernel", "once": "copies", "always": "copies"}


def test_a_hopelessly_slow_candidate_is_not_tried_in_every_mode():
    trace = Trace(cpu_s=0.5, gpu_s=0.01)
    naive = trace.backend("naive", "cuda", 0.4)
    cells = trace.run(backends=[trace.cpu, trace.gpu, naive])
    assert [transfer for name, transfer, _ in trace.log if name == "naive"] == ["resident", "resident"]
    assert {c.backend for c in cells if c.device == "cuda" and c.role == "candidate"} == {"gpu"}


def test_the_slow_one_stands_when_the_fast_one_was_wrong():
    trace = Trace(cpu_s=0.5, gpu_s=0.01)
    naive = trace.backend("naive", "cuda", 0.4)

    def gate(session):
        return GateResult(ok=session.backend.name != "gpu", failed="exact", detail="wrong")

    cells = measure_group(
        P, "pageable", MODES, backends=[trace.cpu, trace.gpu, naive], clock=trace.clock, clocks=None,
        memory_bytes=1 << 40, gate=gate,
    )  # fmt: skip
    timed = {c.backend for c in cells if c.device == "cuda" and c.samples_s}
    assert timed == {"naive"}
    assert of(cells, "naive", transfer="once").samples_s[0] == pytest.approx(4.0)


def test_a_near_tie_keeps_to_one_backend():
    trace = Trace(cpu_s=1e-2)
    one = trace.backend("one", "cuda", lambda t: 1e-4 if t == "resident" else 9.0e-4)
    two = trace.backend("two", "cuda", lambda t: 1.3e-4 if t == "resident" else 8.95e-4)
    cells = trace.run(backends=[trace.cpu, two, one])
    assert {c.backend for c in cells if c.device == "cuda" and c.role == "candidate"} == {"one"}


def test_the_controls_see_nothing_where_nothing_is_and_a_delay_where_one_is():
    cells = Trace(sigma=0.01, cpu_s=6e-4).run(modes=[("once", 10)])
    roles = [(c.role, c.device) for c in cells if c.role.startswith("control")]
    assert sorted(roles) == [("control_aa", "cpu"), ("control_aa", "cuda"), ("control_delay", "cpu")]
    delay = of(cells, "cpu", "control_delay", "once")
    assert delay.config[DELAY_KEY] == pytest.approx(0.05 * 6e-3, rel=0.1)
    found = group_resolution(cells)
    assert found.delays_seen == (1, 1)
    assert found.ratio < 1.05


def test_queued_calls_are_waited_for_once_in_throughput_timing():
    """A queue of 1 ms calls whose launch costs nothing: the wait is timed, per call."""
    trace = Trace(gpu_s=1e-3, cpu_s=1e-3, queue=True)
    cells = trace.run(timing="throughput", block_s=0.01)
    assert {c.timing for c in cells} == {"throughput"}
    for transfer, runs in (("resident", 1), ("once", 10), ("always", 1)):
        cell = of(cells, "gpu", transfer=transfer)
        assert cell.samples_s[0] == pytest.approx(1e-3 * runs)
    assert of(cells, "gpu").inner[0] >= 10


def test_an_empty_run_and_the_parts_are_recorded_beside_the_time():
    parts = {"h2d": 1e-5, "kernel": 2e-5}
    cells = Trace(empty_s=3e-6, parts_s=parts).run()
    assert of(cells, "gpu").empty_s == pytest.approx(3e-6)
    assert of(cells, "gpu").parts_s == parts
    assert of(cells, "cpu").cpu_per_wall == pytest.approx(1.0)


def test_what_a_candidate_raises_costs_its_own_cells_only():
    trace = Trace()
    lost = trace.backend("lost", "cuda", 1e-3, open_error=MemoryError("out of memory on the device"))
    refusing = trace.backend("refusing", "cuda", 1e-3, unsupported="no fp32 here")
    partly = trace.backend("partly", "cuda", 1e-4, transfers=frozenset({"resident"}))
    cells = trace.run(backends=[trace.cpu, lost, refusing, partly, trace.gpu])
    reasons = {(c.backend, c.transfer): c.skip_reason for c in cells if c.skip_reason}
    assert "out of memory on the device" in reasons["lost", "once"]
    assert reasons["refusing", "resident"] == "no fp32 here"
    assert reasons["partly", "once"] == "partly does not offer transfer mode once"
    assert of(cells, "partly").samples_s
    assert of(cells, "gpu", transfer="once").samples_s


def test_the_backend_is_asked_which_modes_it_refuses_for_a_problem():
    """Not only for the set that it offers at all."""
    trace = Trace()
    picky = trace.backend("picky", "cuda", 1e-4)
    asked = []
    picky.refuses = lambda p, mode, memory: (
        asked.append((p, mode, memory)) or ("16 bytes too many" if mode == "always" else None)
    )
    cells = trace.run(backends=[trace.cpu, picky, trace.gpu])
    reasons = {(c.backend, c.transfer): c.skip_reason for c in cells if c.skip_reason}
    assert reasons["picky", "always"] == "16 bytes too many"
    assert {(p.m, memory) for p, _, memory in asked} == {(of(cells, "picky").problem.m, "pageable")}
    assert of(cells, "picky").samples_s
    assert of(cells, "gpu", transfer="always").samples_s


def test_a_candidate_that_fails_in_the_rounds_is_dropped_with_its_reason():
    trace = Trace()

    def breaks(problem, transfer, reuse, index):
        if index > 40 and transfer == "once":
            raise RuntimeError("an illegal memory access was encountered")
        return 1e-3 * reuse

    bad = NullBackend("bad", "cuda", breaks, clock=trace.clock, compute=False)
    cells = trace.run(backends=[trace.cpu, bad], wake_s=0.0)
    cell = next(c for c in cells if c.backend == "bad" and c.transfer == "once" and c.role == "candidate")
    assert cell.samples_s == () and "illegal memory access" in cell.skip_reason
    assert len(of(cells, "bad").samples_s) >= 6
    assert len(of(cells, "cpu").samples_s) >= 6


def test_an_interrupt_closes_every_session_and_passes_through():
    trace = Trace()

    def interrupted(problem, transfer, reuse, index):
        if index > 30:
            raise KeyboardInterrupt
        return 1e-3

    gpu = NullBackend("gpu", "cuda", interrupted, clock=trace.clock, compute=False)
    with pytest.raises(KeyboardInterrupt):
        trace.run(backends=[trace.cpu, gpu])
    sessions = [*trace.cpu.sessions, *gpu.sessions]
    assert len(sessions) >= 2
    assert all(s.log.count("close") == 1 for s in sessions)


def test_every_session_is_closed_once_in_the_end():
    trace = Trace()
    many = trace.backend("many", "cpu", 5e-4, thread_factor={1: 1.0, 2: 1.1, 4: 5.0})
    trace.run(backends=[trace.cpu, many, trace.gpu])
    assert len(many.sessions) == 3
    assert all(s.log.count("close") == 1 for b in (trace.cpu, many, trace.gpu) for s in b.sessions)


def test_what_does_not_fit_into_memory_is_skipped_with_the_figures():
    big = Problem(m=30_000, n=30_000, k=30_000)
    trace = Trace()
    cells = measure_group(
        big, "pageable", MODES, backends=[trace.cpu, trace.gpu], clock=trace.clock, memory_bytes=10**9
    )
    assert len(cells) == 6
    assert all(c.samples_s == () for c in cells)
    assert cells[0].skip_reason == "host memory: needs 27.00 GB, 1.00 GB are free"


def test_pinned_memory_without_cuda_is_a_reason(monkeypatch):
    from backends.base import Unavailable

    def absent(problem, host_memory):
        raise Unavailable("pinned host memory needs a CUDA device")

    monkeypatch.setattr("suite.harness.allocate", absent)
    trace = Trace()
    cells = measure_group(P, "pinned", MODES, Settings(gate=False), backends=[trace.cpu], clock=trace.clock)
    assert {c.skip_reason for c in cells} == {"Unavailable: pinned host memory needs a CUDA device"}
    assert {c.host_memory for c in cells} == {"pinned"}


def test_progress_is_told():
    trace = Trace()
    trace.run(backends=[trace.cpu, trace.backend("b", "cpu", 1e-3), trace.gpu])
    kinds = [e.kind for e in trace.events]
    assert {"open", "pilot", "round", "done"} == set(kinds)
    assert kinds[-1] == "done"
    assert all(isinstance(e, Event) and e.done <= max(e.total, e.done) for e in trace.events)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"rounds_min": 1}, "got 1"), ({"rounds_min": 50}, "got 50 and 40"), ({"confidence": 1.0}, "got 1.0")],
)
def test_settings_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Settings(**wrong)
