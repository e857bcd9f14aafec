"""How to measure: one comparison group, both sides under one rule, interleaved in rounds.

    allocate -> open and screen all candidates -> gate -> pilot -> choose -> fresh rounds -> cells

Both sides work on the same pre-touched host arrays. All transfer modes of a size are sampled in the same
rounds, and so are the controls. Opening, compiling and the gate lie outside the time budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from backends import registry
from backends.base import Backend, DeviceLost, HostMemory, Problem
from backends.operands import Operands, allocate, fill_random

from . import clocks as clock_rates
from .clock import Clock, PerfClock
from .harness_candidates import Candidate, Skip, gate_contenders, open_all
from .harness_cells import cell, nothing, skipped
from .harness_compare import compare, entry_of
from .harness_memory import available_bytes, too_large
from .harness_rounds import ReadClocks, Visit, Watch, prepare, rounds
from .harness_settings import Bench, Event, Gate, Mode, Settings, reason_of
from .record import Cell, group_key

__all__ = ["Event", "Settings", "measure_group"]

PILOT_SHARE = 1 / 3
"""Of the time budget of a group: what pilots may take."""


def measure_group(
    problem: Problem,
    host_memory: HostMemory,
    modes: Sequence[Mode],
    settings: Settings | None = None,
    *,
    backends: Sequence[Backend] | None = None,
    clock: Clock | None = None,
    gate: Gate | None = None,
    on_event: Callable[[Event], None] | None = None,
    clocks: ReadClocks | None = clock_rates.read_clocks,
    memory_bytes: int | None = None,
    cpu_problem: Problem | None = None,
) -> list[Cell]:
    """Time the best CPU candidate against the best GPU candidate in every mode of one problem.

    modes: (transfer, reuse) pairs. backends: the candidates (all usable ones when None). gate: judges an open
    session (`suite.gate.check` when None; none at all with settings.gate off). clocks: reads clock rates.
    memory_bytes: free host memory (asked of the system when None). cpu_problem: what the CPU side computes,
    the same product in another arithmetic (`problem` when None); operands of another type hold the same
    values.

    Returns candidates, pilots, controls, and cells without samples that say why, all of one group. What a
    candidate raises costs only its own cells; ClockError, DeviceLost and KeyboardInterrupt pass through,
    after every session is closed.
    """
    settings = settings or Settings()
    modes = tuple(dict.fromkeys(modes))
    group = group_key(problem, host_memory)
    backends = registry.usable(problem) if backends is None else list(backends)
    problems = {"cuda": problem, "cpu": cpu_problem or problem}
    operands, reason = _operands(problems, host_memory, settings, memory_bytes)
    if operands is None:
        return nothing(problems, host_memory, group, modes, settings, backends, reason)
    rng = Random(f"{settings.seed}/{group}")
    bench = Bench(problems, operands, host_memory, modes, settings, clock or PerfClock(), rng, group)
    bench.gate = (gate or default_gate(settings.seed)) if settings.gate else None
    bench.on_event = on_event
    return _measure(bench, backends, clocks)


def _operands(
    problems: dict[str, Problem], host_memory: HostMemory, settings: Settings, memory_bytes: int | None
) -> tuple[dict[str, Operands] | None, str]:
    """The host arrays of each device, the same ones where the type is the same, or why there are none."""
    free = available_bytes() if memory_bytes is None else memory_bytes
    gpu, cpu = problems["cuda"], problems["cpu"]
    reason = too_large(gpu, settings.gate, free, cpu)
    if reason:
        return None, reason
    try:
        shared = allocate(gpu, host_memory)
        own = shared if cpu.dtype == gpu.dtype else allocate(cpu, host_memory)
        return {"cuda": shared, "cpu": own}, ""
    except DeviceLost:
        raise
    except Exception as error:
        return None, reason_of(error)


def default_gate(seed: int) -> Gate:
    """The gate of the suite; references are computed once for all sessions of one group."""
    from .gate import ReferenceCache, check

    cache = ReferenceCache()
    return lambda session: check(session, seed=seed, cache=cache)


def _measure(bench: Bench, backends: Sequence[Backend], read: ReadClocks | None) -> list[Cell]:
    opened: list[Candidate] = []
    watch = Watch(read)
    try:
        skips = open_all(bench, backends, opened)
        skips += gate_contenders(bench, opened)
        _fill(bench)
        alive = [one for one in opened if not one.closed]
        for one in alive:
            skips += _upload(bench, one)
        alive = [one for one in opened if not one.closed]
        cells = _pilot(bench, alive, watch)
        cells += compare(bench, alive, watch)
    finally:
        bench.active.clear()
        for one in opened:
            _close(one)
    bench.tell("done")
    return [*cells, *(c for skip in skips for c in skipped(bench, skip))]


def _fill(bench: Bench) -> None:
    """Random operands, the same values on both sides."""
    fill_random(bench.operands["cuda"], bench.settings.seed)
    for source, target in zip(bench.operands["cuda"], bench.operands["cpu"], strict=True):
        if source is not None and target is not None and target is not source:
            target[...] = source


def _close(one: Candidate) -> None:
    try:
        one.close()
    except Exception:
        pass


def _upload(bench: Bench, one: Candidate) -> list[Skip]:
    """Give the device the random operands, as resident runs need them."""
    try:
        bench.enter(one.session)
        one.session.upload()
        one.session.synchronize()
        bench.leave()
    except DeviceLost:
        raise
    except Exception as error:
        _close(one)
        return [Skip(one.backend, one.threads, mode, reason_of(error)) for mode in one.modes]
    return []


def _pilot(bench: Bench, alive: Sequence[Candidate], watch: Watch) -> list[Cell]:
    """Time rivals for one side and mode against each other, so that `choose` can; their cells."""
    visits = []
    for one in alive:
        rivals = [other for other in alive if other.device == one.device and other is not one]
        contested = [mode for mode in one.modes if any(mode in other.modes for other in rivals)]
        one.pilots = {mode: entry_of(bench, one, mode, "pilot") for mode in contested}
        if one.pilots:
            visits.append(Visit(one.session, one.device, list(one.pilots.values())))
    if not visits:
        return []
    prepare(bench, visits)
    slow = any(entry.estimate_s > bench.settings.slow_s for visit in visits for entry in visit.entries)
    most = 1 if slow else bench.settings.pilot_rounds
    for done in rounds(bench, visits, watch, most, PILOT_SHARE * bench.settings.group_budget_s):
        bench.tell("pilot", f"{len(visits)} candidates", done, most)
    cells = [cell(bench, one, entry, mode, watch) for one in alive for mode, entry in one.pilots.items()]
    for one in alive:
        one.modes = tuple(m for m in one.modes if m not in one.pilots or not one.pilots[m].failed)
    return cells
