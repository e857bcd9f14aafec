"""From what was measured to the cells of the record."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence

from backends.base import Backend, Problem, SessionInfo

from . import plan
from .analysis.controls import DELAY_KEY
from .clock import Clock
from .harness_candidates import Candidate, Skip
from .harness_rounds import Watch
from .harness_sample import STEPS_PER_SAMPLE, Entry
from .harness_settings import CPU_MODE, Bench, Mode, Settings
from .record import Cell, Role, group_key
from .stats import spread

NOISY_SCATTER = 0.1
"""Robust relative scatter of the samples of a cell from which it is called noisy."""

NOISY_OUTLIERS = 0.1
"""Part of outliers among the samples of a cell above which it is called noisy; a single one never is."""


def cell(
    bench: Bench, one: Candidate, entry: Entry, mode: Mode, watch: Watch, flags: Iterable[str] = ()
) -> Cell:
    """The cell of one entry; a CPU entry, timed for one run, is multiplied to the reuse of `mode`."""
    transfer, reuse = mode
    scale = reuse if one.device == "cpu" else 1
    info = one.session.info
    config = dict(info.config)
    slow = sum((one.device, round_) in watch.slow for round_ in entry.rounds)
    if entry.role == "control_delay":
        config[DELAY_KEY] = entry.delay_s * scale
    return Cell(
        **_common(bench, one.backend.name, one.device, one.threads, info),
        role=entry.role,
        transfer=transfer,
        reuse=reuse,
        scaled_by=scale,
        calls_from=entry.kind if entry.kind in ("c", "device") else "python",
        cpu_per_wall=entry.cpu_s / entry.wall_s if entry.wall_s > 0 else None,
        samples_s=tuple(s * scale for s in entry.samples_s) if scale != 1 else tuple(entry.samples_s),
        round_of=tuple(entry.rounds),
        inner=tuple(entry.inners),
        visit_of=(0,) * len(entry.samples_s),
        throttled=slow,
        slow_visits=(0,) if 2 * slow > len(entry.samples_s) else (),
        outliers=spread(entry.samples_s).outliers,
        first_call_s=one.first_call_s,
        rough_s=_finite(one.rough_s.get(CPU_MODE if one.device == "cpu" else mode)),
        empty_s=one.empty_s,
        parts_s=one.parts_s,
        threads_observed=entry.threads_observed if one.device == "cpu" else None,
        gate=one.gate,
        clocks=watch.clocks(one.device),
        config=config,
        verified=one.backend.verified,
        flags=(*flags, *watch.flags(one.device), *sample_flags(entry, bench.clock)),
        skip_reason=entry.failed,
    )


def _common(bench: Bench, backend: str, device: str, threads: int | None, info: SessionInfo) -> dict:
    return {
        "problem": bench.problems[device],
        "backend": backend,
        "device": device,
        "host_memory": bench.host_memory,
        "timing": bench.settings.timing,
        "threads": (info.threads or threads) if device == "cpu" else None,  # a backend may cap what is asked
        "devices": (0,) if device == "cuda" else (),
        "compile_s": info.compile_s,
        "alloc_s": info.alloc_s,
        "pin_s": info.pin_s,
        "kernel": info.kernel,
        "kernel_hash": info.kernel_hash,
        "process_id": os.getpid(),
        "group": bench.group,
    }


def _finite(seconds: float | None) -> float | None:
    return seconds if seconds is not None and math.isfinite(seconds) else None


def sample_flags(entry: Entry, clock: Clock) -> tuple[str, ...]:
    """noisy, below_resolution: as the samples are."""
    found = []
    scatter = spread(entry.samples_s)
    wild = scatter.outliers > max(1, NOISY_OUTLIERS * scatter.count)
    if scatter.relative > NOISY_SCATTER or wild:
        found.append("noisy")
    shortest = STEPS_PER_SAMPLE / 2 * clock.resolution()
    if any(s * n < shortest for s, n in zip(entry.samples_s, entry.inners, strict=True)):
        found.append("below_resolution")
    return tuple(found)


def skipped(bench: Bench, skip: Skip) -> list[Cell]:
    """Cells without samples that say why; a CPU candidate stands in every mode."""
    info = skip.session.info if skip.session is not None else SessionInfo()
    device = skip.backend.device
    modes = bench.modes if device == "cpu" else (skip.mode,)
    role: Role = "candidate" if skip.session is None or skip.gate is not None else "pilot"
    common = _common(bench, skip.backend.name, device, skip.threads, info)
    return [
        Cell(
            **common,
            role=role,
            transfer=transfer,
            reuse=reuse,
            gate=skip.gate,
            rough_s=_finite(skip.rough_s),
            config=dict(info.config),
            verified=skip.backend.verified,
            skip_reason=skip.reason,
        )
        for transfer, reuse in modes
    ]


def nothing(
    problems: dict[str, Problem],
    host_memory: str,
    group: str,
    modes: Sequence[Mode],
    settings: Settings,
    backends: Sequence,
    reason: str,
) -> list[Cell]:
    """Cells of a group that could not even begin, for every backend and mode."""
    return [
        Cell(
            problem=problems[backend.device],
            backend=backend.name,
            device=backend.device,
            transfer=transfer,
            reuse=reuse,
            host_memory=host_memory,
            timing=settings.timing,
            verified=backend.verified,
            skip_reason=reason,
            process_id=os.getpid(),
            group=group,
        )
        for backend in backends
        for transfer, reuse in modes
    ]


def left_out(
    backends: Sequence[Backend],
    problem: Problem,
    host_memory: str,
    modes: Sequence[Mode],
    settings: Settings,
) -> list[Cell]:
    """Cells of those that the screening at neighbouring sizes showed to be too slow to be opened again."""
    problems = {"cuda": problem, "cpu": plan.cpu_problem(problem)}
    reason = "not opened: far slower than the best at the neighbouring sizes"
    return nothing(problems, host_memory, group_key(problem, host_memory), modes, settings, backends, reason)
