"""What a hardware run amounts to: adaptive against exhaustive crossovers, and `verified.json`."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import msgspec

from backends import _cuda_source, _cuda_verified

from . import profiles, verify_gpu, verify_install
from .analysis.crossover import Crossover
from .journal import atomic_write, readable
from .record import Run
from .render.summary import Question, lines
from .verify_state import MOST_FILES, RUNNING, Context, Failed, Outcome, Skipped, names

WIDEST_BAND = 0.125
"""An adaptive crossover is known at least this well: (high - low) / low."""

EVERY_SO_MANY = ":+"
"""In the options of a sweep, and of no other run: sizes at even steps."""

STEP = 8
"""Sizes of the exhaustive sweep are multiples of this: no band is asked to be narrower."""


def runs_in(context: Context, *, sweeps: bool) -> dict[str, Run]:
    """The adaptive runs of crossover.json, or its sweeps, by their options. Skipped when there is none."""
    path = context.out / "crossover.json"
    runs = msgspec.json.decode(path.read_bytes(), type=dict[str, Run]) if path.exists() else {}
    found = {options: run for options, run in runs.items() if (EVERY_SO_MANY in options) == sweeps}
    if not found:
        raise Skipped(f"crossover.json holds no {'sweep' if sweeps else 'run'} yet: that step writes it")
    return found


def compare_runs(context: Context) -> dict[str, Any]:
    """Each adaptive GEMM crossover beside that of the exhaustive sweep, by the same definition."""
    adaptive, sweep = (answers(runs_in(context, sweeps=s)) for s in (False, True))
    rows = [row(question, adaptive[question], sweep[question]) for question in sweep if question in adaptive]
    if not rows:
        raise Skipped("no sweep and adaptive run of the same question yet")
    bad = [f"{row['dtype']} {row['mode']}" for row in rows if not (row["agree"] and row["narrow"])]
    verified = context.out / "verified.json"
    if verified.exists():
        whole = msgspec.json.decode(verified.read_bytes()) | {"sweep": rows}
        atomic_write(verified, readable(whole))
        verify_install.install(context.out)
    if bad:
        raise Failed(f"adaptive and exhaustive crossovers differ: {', '.join(bad)}", {"rows": rows})
    return {"rows": rows}


def write_profile(context: Context) -> dict[str, Any]:
    """profile.json: the crossover runs as what a machine without a GPU is compared with."""
    target = context.out / "profile.json"
    begun = sorted(path.name for path in context.out.glob(f"{RUNNING}*"))
    if begun and len({*context.out.iterdir(), target}) > MOST_FILES:
        raise Skipped(f"made when {', '.join(begun)} has ended: there are {MOST_FILES} files until then")
    runs = list(runs_in(context, sweeps=False).values())
    gpu = (runs[0].machine.get("gpus") or [{}])[0].get("name", "unknown GPU")
    profile = profiles.build(runs, gpu)
    atomic_write(target, profiles.encode(profile))
    return {"runs": len(runs), "cells": len(profile.cells)}


def answers(runs: dict[str, Run]) -> dict[Question, Crossover]:
    """The answer to every question that the runs asked."""
    return {line.question: line.crossover for run in runs.values() for line in lines(run)}


def row(question: Question, adaptive: Crossover, exhaustive: Crossover) -> dict[str, Any]:
    """Both answers, whether they agree, and whether the adaptive band is narrow enough."""
    return {
        "op": question.op,
        "dtype": question.dtype,
        "mode": question.mode,
        "host_memory": question.host_memory,
        "adaptive": summary(adaptive),
        "exhaustive": summary(exhaustive),
        "agree": agree(adaptive, exhaustive),
        "against": against(adaptive, exhaustive),
        "narrow": narrow(adaptive),
    }


def summary(c: Crossover) -> dict[str, Any]:
    """The answer without its points."""
    fields = ("kind", "first_win", "stable_from", "band", "undecided", "isolated_losses")
    return {field: getattr(c, field) for field in fields} | {"sizes": len(c.points)}


def agree(adaptive: Crossover, exhaustive: Crossover) -> bool:
    """Their bands overlap; a stable region beyond the sweep's end agrees with a sweep that found none."""
    end = exhaustive.points[-1].size if exhaustive.points else 0
    if exhaustive.stable_from is None:
        return adaptive.stable_from is None or adaptive.stable_from > end
    if adaptive.stable_from is None:
        return False
    low_a, low_b = adaptive.band[0] or 0, exhaustive.band[0] or 0
    return low_a < exhaustive.stable_from and low_b < adaptive.stable_from


def against(adaptive: Crossover, exhaustive: Crossover) -> list[int]:
    """Sizes of the sweep whose verdict speaks against the adaptive answer, isolated losses included."""
    low = adaptive.band[0] or 0
    stable = adaptive.stable_from or math.inf
    return [
        point.size
        for point in exhaustive.points
        if (point.ratio.verdict == "win" and point.size <= low)
        or (point.ratio.verdict == "loss" and point.size >= stable)
    ]


def narrow(c: Crossover) -> bool:
    """The band is at most WIDEST_BAND of its lower end wide, or one step of the sweep; or is open."""
    low, high = c.band
    return low is None or high is None or high - low <= max(STEP, WIDEST_BAND * low)


def write_verified(context: Context, target: Path | None = None) -> dict[str, Any]:
    """verified.json: for every kernel what was shown on this GPU; `verified` only if all of it went well.

    It is put into its place at `target` (cuda/verified.json) too, so that verified kernels are candidates in
    the runs that follow.
    """
    tests, timings = context.result("tests").get("tests", {}), context.result("kernels").get("timings", [])
    if not tests and not timings:
        raise Skipped("neither GPU tests nor kernel timings have been run yet")
    kernels = [k for k in _cuda_source.all_kernels().values() if isinstance(k, _cuda_source.Kernel)]
    about = provenance(context)
    entries = {k.name: about | kernel_entry(k, tests, timings, context) for k in kernels}
    peers = [{"backend": t["backend"], **compact(t)} for t in timings if t["backend"] not in entries]
    content = {
        "schema": _cuda_verified.SCHEMA,
        "kernels": entries,
        "peers": peers,
        "sweep": context.result("compare").get("rows", []),
    }
    atomic_write(context.out / "verified.json", readable(content))
    verify_install.install(context.out, target)
    doubtful = {name: e["why_not"] for name, e in entries.items() if e["status"] != "verified"}
    if doubtful:
        raise Failed(
            f"not verified: {'; '.join(f'{n}: {w}' for n, w in doubtful.items())}", {"not": doubtful}
        )
    return {"verified": sorted(entries)}


def provenance(context: Context) -> dict[str, Any]:
    """What all entries share: GPU, driver, compiler, date, sanitizer."""
    machine = context.result("environment").get("machine", {})
    gpus = machine.get("gpus") or [{}]
    return {
        "gpu": gpus[0].get("name", "unknown"),
        "cuda": machine.get("cuda", {}),
        "compiler": context.result("kernels").get("compiler", "unknown"),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def kernel_entry(
    kernel: _cuda_source.Kernel, tests: dict[str, str], timings: list[dict[str, Any]], context: Context
) -> dict[str, Any]:
    """Hash, status, tests, cubin hashes and raw timings of one kernel variant."""
    own_tests = {name: outcome for name, outcome in tests.items() if names(name, kernel.name)}
    own_timings = [entry for entry in timings if entry["backend"] == kernel.name]
    sanitizers = watched(kernel.name, context)
    why_not = doubt(own_tests, own_timings, sanitizers)
    return {
        "source_hash": _cuda_source.source_hash(kernel),
        "status": "unverified" if why_not else "verified",
        "why_not": why_not,
        "tests": own_tests,
        "sanitizers": sanitizers,
        "cubins": context.result("kernels").get("cubins", {}).get(kernel.name, {}),
        "timings": [compact(entry) for entry in own_timings],
    }


def watched(kernel: str, context: Context) -> dict[str, str]:
    """Tool -> what compute-sanitizer said of a kernel, or why it said nothing."""
    found = {}
    for tool in verify_gpu.TOOLS:
        step = context.outcome(f"sanitize:{tool}") or Outcome(status="unfinished", reason="not begun")
        whole = f"unfinished: {step.reason}" if step.status == "unfinished" else step.reason or step.status
        found[tool] = step.result.get("kernels", {}).get(kernel, whole)
    return found


def doubt(tests: dict[str, str], timings: list[dict[str, Any]], sanitizers: dict[str, str]) -> str:
    """Why a kernel cannot be called verified; empty when it can."""
    failed = [name for name, outcome in tests.items() if outcome in ("failed", "error")]
    errors = [entry["error"] for entry in timings if entry.get("error")]
    wrong = [f"{t}: {said}" for t, said in sanitizers.items() if verify_gpu.speaks_against(said)]
    if failed:
        return f"{len(failed)} GPU tests failed, the first is {failed[0]}"
    if "passed" not in tests.values():
        return "no GPU test of it passed"
    if errors or not timings:
        return errors[0] if errors else "it was not timed"
    return wrong[0] if wrong else ""


def compact(entry: dict[str, Any]) -> dict[str, Any]:
    """One timing without the fields that the kernel's entry has already."""
    named = ("op", "m", "n", "k", "dtype", "math", "trans_a")
    problem = {key: value for key, value in entry["problem"].items() if key in named}
    samples = [float(f"{sample:.4g}") for sample in entry.get("samples_s", ())]
    kept = {key: entry[key] for key in ("parts_s", "max_error", "error") if entry.get(key) is not None}
    return {"problem": problem, "samples_s": samples, **kept}
