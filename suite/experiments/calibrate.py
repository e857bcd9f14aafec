"""`calibrate`: the constants of this machine's model, measured in seconds and kept."""

from __future__ import annotations

import shlex
from typing import Any

import click
import msgspec

from backends.arithmetic import canonical_dtype

from .. import calibrate, calibrate_judge, export, model_store, options, request
from ..analysis.model import as_record, of_record
from ..exits import Exit, Stop
from ..options import Parsed
from ..record import Run
from ..render import calibrate as render
from ..render import progress
from ._run import clean, new_run
from .report import console_for

EXPERIMENT = "calibrate"


@click.command(
    help="""Measure the constants of this machine's model: latency, rates, copies, on six sizes a type.

docs/model.md says what each means. They are kept for this machine, unless --backend chose who was timed.

\b
Examples:
  gemm-crossover calibrate
  gemm-crossover calibrate --op gemm --dtype f32 --host-memory both
  gemm-crossover calibrate --time-budget 30 --judge --export-json constants.json
"""
)
@options.many(
    "--op",
    parse=options.listed(options.one_of(("gemm", "gemv"), "operation")),
    kind="op",
    default=("gemm", "gemv"),
    show_default="gemm,gemv",
    help="C = A·B, y = A·x.",
)
@options.many(
    "--dtype",
    parse=options.listed(canonical_dtype),
    kind="dtype",
    default=("float32", "float64"),
    show_default="float32,float64",
    help="float32, float64; f32 and f64 are understood.",
)
@options.many(
    "--host-memory",
    parse=options.both_memories,
    kind="memory",
    default=("pageable",),
    show_default="pageable",
    help="pageable, pinned (needs a GPU), or both.",
)
@options.many("--backend", parse=options.listed(str), kind="name", help="Use only this backend on its side.")
@click.option(
    "--time-budget",
    type=Parsed("time", options.seconds),
    default="10",
    show_default=True,
    metavar="TIME",
    help="Seconds of timing; opening, compiling and the checks of results come on top.",
)
@click.option(
    "--seed", type=Parsed("integer", options.whole("seed", 0)), default="0", metavar="NUMBER",
    help="Of the operands.",
)  # fmt: skip
@click.option(
    "--judge",
    is_flag=True,
    help="Then time other sizes and shapes, as long again, and say how far the model is off there.",
)
@click.option("--require-gpu", is_flag=True, help="Exit 5 without a usable GPU.")
@options.exports("json", "csv", "markdown")
@click.option("-q", "--quiet", is_flag=True, help="The constants alone.")
@click.pass_context
def command(ctx: click.Context, **given: Any) -> Exit:
    """Check, measure, fit, keep, show, export."""
    targets = {kind: given[f"export_{kind}"] for kind in ("json", "csv", "markdown")}
    export.check_distinct(targets)
    asked = asked_of(given)
    chosen = request.named(asked.backends)
    gpu = request.gpu_reason()
    if gpu and given["require_gpu"]:
        raise Stop(f"--require-gpu: no usable GPU: {gpu}", Exit.NO_GPU)
    if gpu and "pageable" not in asked.host_memory:
        raise Stop(f"pinned host memory needs a GPU: {gpu}", Exit.NO_GPU)
    if gpu:
        click.echo(f"note: no usable GPU: {gpu}; constants of the CPU alone", err=True)
    words = shlex.join(ctx.find_object(list) or [ctx.info_name or ""])
    with progress.steps(given["quiet"]) as tell:
        run = measured(asked, f"gemm-crossover {words}", chosen=chosen, tell=tell)
        if given["judge"]:
            run = judged(run, asked, chosen=chosen, tell=tell)
    return finish(run, targets, given["quiet"])


def asked_of(given: dict[str, Any]) -> calibrate.Asked:
    """What the options ask for. Stop (usage) for a type of which no CPU side is known."""
    for dtype in (dtype for dtype in given["dtype"] if dtype not in ("float32", "float64")):
        raise Stop(f"dtype {dtype!r} is not calibrated: use float32 or float64", Exit.USAGE)
    return calibrate.Asked(
        ops=given["op"],
        dtypes=given["dtype"],
        host_memory=given["host_memory"],
        backends=given["backend"],
        time_budget_s=given["time_budget"],
        seed=given["seed"],
    )


def measured(asked: calibrate.Asked, command: str = "", *, chosen: Any = (), **how: Any) -> Run:
    """The run with its constants; how: see `calibrate.measure`."""
    run = new_run(EXPERIMENT, command, msgspec.to_builtins(asked))
    cells = calibrate.measure(asked, chosen, **how)
    model = calibrate.fitted(cells, run.machine, calibrate.measured_roofs(asked.dtypes))
    model = msgspec.structs.replace(model, created=run.created)
    return msgspec.structs.replace(run, model=as_record(model), cells=tuple(clean(cell) for cell in cells))


def judged(run: Run, asked: calibrate.Asked, *, chosen: Any = (), **how: Any) -> Run:
    """With cells the constants know nothing of; how: see `calibrate_judge.measure`."""
    cells = [clean(cell) for cell in calibrate_judge.measure(asked, chosen, **how)]
    held_out = list(dict.fromkeys(cell.group for cell in cells))
    return msgspec.structs.replace(
        run, cells=(*run.cells, *cells), options={**run.options, "held_out": held_out}
    )


def finish(run: Run, targets: dict[str, str | None], quiet: bool) -> Exit:
    """Keep the constants of the whole machine, show and export them. Stop where there are none."""
    try:
        render.check(run)
    except ValueError as error:
        raise Stop(str(error)) from None
    model = of_record(run.model)
    try:
        if model is not None and not run.options.get("backends"):
            model_store.keep(model)
    except OSError as error:
        click.echo(f"note: the constants are not kept: {error.strerror or error}", err=True)
    render.show(run, console_for(targets), quiet=quiet)
    export.write_all(targets, render.makers(run))
    return Exit.OK
