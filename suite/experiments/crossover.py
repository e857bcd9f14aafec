"""`crossover`: from which size is the GPU faster, for each way of moving the data?"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from backends.base import Backend

from .. import export, gpu_info, machine, options, plan, profiles, request, sweep
from ..analysis import calibration
from ..analysis.model import as_record
from ..exits import Exit, Stop
from ..journal import Journal, RecordError
from ..record import Run
from ..render import comparison, progress, summary, svg
from ..request import Request
from . import report
from ._recorded import Overlay, overlay
from ._resume import journal_path, kept_in, program, resumable
from ._run import clean, new_run

EXPERIMENT = "crossover"


def measure(
    asked: Request,
    *,
    chosen: Sequence[Backend] = (),
    profile: Run | None = None,
    journal: Journal | None = None,
    clock: Any = None,
    tell: Callable[[sweep.Step], None] | None = None,
    command: str = "",
) -> Run:
    """Measure `asked` (already checked) and return the run.

    profile: a recorded machine to set the CPU measured here against, where there is no GPU.
    chosen, clock, journal, tell: see `sweep.Measuring`.
    """
    beside = Overlay(asked) if profile is None else overlay(asked, profile)
    for note in beside.notes:
        click.echo(f"note: {note}", err=True)
    header = header_of(asked, command, beside.about)
    outcome = sweep.Measuring(
        beside.local, chosen, first=asked.sizes, journal=journal, clock=clock, tell=tell
    ).run()
    if outcome.journal_fault:
        click.echo(f"note: no journal any more, --resume will not work: {outcome.journal_fault}", err=True)
    model, fault = calibration.tried(outcome.cells, header.machine)
    if fault:
        click.echo(f"note: no model of this machine, the times stand: {fault}", err=True)
    ended = {"unmeasured": list(outcome.unmeasured), "lost": outcome.lost}
    options = header.options | {name: value for name, value in ended.items() if value}
    return msgspec.structs.replace(
        header,
        options=machine.scrub(options),
        complete=not outcome.unmeasured and not outcome.lost,
        model=as_record(model),
        cells=tuple(map(clean, outcome.cells)) + beside.cells,
    )


def header_of(asked: Request, command: str, about: dict[str, Any]) -> Run:
    """The run without cells."""
    return new_run(EXPERIMENT, command, asked.options() | about | arithmetics_of(asked))


def arithmetics_of(asked: Request) -> dict[str, Any]:
    """For the record: the comparisons whose two sides compute in different arithmetics, if any."""
    asked_for = dict.fromkeys((s.dtype, s.math) for s in asked.sweeps)
    mixed = [plan.words(*pair) for pair in asked_for if plan.cpu_arithmetic(*pair) != pair]
    return {"mixed_arithmetics": mixed} if mixed else {}


def unanswered(asked: Request, lines: Sequence[summary.Line]) -> list[str]:
    """The requested rows that no line answers, each in words."""
    decided = {
        (q.dtype, q.math, q.host_memory, q.transfer, q.reuse, q.threads)
        for q in (x.question for x in lines if x.decided)
    }
    return [
        f"{s.dtype} in {s.math}, {s.host_memory}, {row.text}"
        for s in asked.sweeps
        for row in asked.questions
        if (s.dtype, s.math, s.host_memory, *row) not in decided
    ]


def find_journal(asked: Request, named: Path | None, resume: bool) -> Journal | None:
    """The journal named, else the usual one; None, and a note, where the usual place cannot be written."""
    usual = journal_path(EXPERIMENT, asked.key())
    return kept_in(named or usual, EXPERIMENT, asked.options(), resume, must=named is not None)


def plan_lines(asked: Request, chosen: Sequence[Backend], gpu: str) -> list[str]:
    """What --dry-run prints: sweeps, sizes, modes, who takes part, about how long."""
    first = request.candidates(asked.problem(asked.sweeps[0], asked.sizes[0]), chosen)
    sides = {device: [b.name for b in first if b.device == device] for device in ("cpu", "cuda")}
    no_gpu = "none that is verified computes this; name one by --backend"
    modes = ", ".join(row.text for row in asked.questions)
    lines = [
        f"{asked.op}, shape {asked.shape}, sizes {', '.join(map(str, asked.sizes))}, then between them",
        f"the search ends at a band of {ends_at(asked.resolution)}",
        *(f"sweep: {s.dtype} in {s.math}, {s.host_memory} host memory; {modes}" for s in asked.sweeps),
        *(f"reduced precision: {text}" for text in arithmetics_of(asked).get("mixed_arithmetics", ())),
        f"CPU candidates: {', '.join(sides['cpu']) or 'none'}",
        f"GPU candidates: {', '.join(sides['cuda']) or f'none: {gpu or no_gpu}'}",
        f"about {asked.groups_expected} comparison groups, at most {len(asked.sweeps) * asked.grid.limit};"
        " the sizes next to a crossover are visited several times",
    ]
    share = max(sweep.LEAST_GROUP_S, asked.time_budget_s / asked.groups_expected)
    estimate = share * asked.groups_expected
    return [
        *lines,
        f"estimated time: {estimate:.0f} s of measuring ({share:.1f} s a group), and the checks of results",
    ]


def ends_at(resolution: float) -> str:
    """How narrow a band ends the search, in words."""
    return f"{resolution * 100:.3g} %, or one step between sizes" if resolution else "one step between sizes"


HELP = """From which size is the GPU faster than the CPU?

At every size the best CPU backend, at its best thread count, is timed against the best GPU backend, on the
same data, in alternating rounds, after both have been shown to compute the right result. The answer is given
for each way of moving the data (--transfer), since that is what decides it.

\b
Examples:
  gemm-crossover crossover                                  float32, square, in about a minute
  gemm-crossover crossover --dtype f32,f64 --host-memory both
  gemm-crossover crossover --op gemv --transfer once --reuse 1,10,100
  gemm-crossover crossover -m 1000 -n 1000 -k 64            one point: who wins, by how much
  gemm-crossover crossover --shape 'M=N,K=32' --sizes 64:4096:x2
  gemm-crossover crossover --backend native --backend cublas --threads 8
  gemm-crossover crossover --dtype f32 --math tf32          GPU in tf32 against CPU in fp32, so labelled
  gemm-crossover crossover --time-budget 5m --export-json run.json
  gemm-crossover crossover --dry-run                        the plan, nothing measured

\b
How to read the answer:
  first win     the smallest measured size at which the GPU is faster
  stable from   the size from which it stays faster
  band          between these two sizes the truth lies

Without a GPU the CPU here is measured and set against a recorded machine; every such figure says RECORDED.
"""


@click.command(help=HELP)
@options.what_to_measure
@options.how_to_measure
@click.option(
    "--profile", metavar="NAME|PATH", help="Recorded machine to compare with where there is no GPU."
)
@click.option("--dry-run", is_flag=True, help="Print the plan with the estimated time; measure nothing.")
@click.option("--resume", is_flag=True, help="Go on where the same command was interrupted.")
@click.option(
    "--journal", type=click.Path(dir_okay=False, path_type=Path), help="Where finished groups are kept."
)
@options.exports("json", "csv", "markdown", "svg")
@options.quiet
@click.pass_context
def command(ctx: click.Context, **given: Any) -> Exit:
    """Check everything, measure, show, export."""
    targets = {kind: given[f"export_{kind}"] for kind in ("json", "csv", "markdown", "svg")}
    export.check_distinct({**targets, "the journal": given["journal"]})
    if targets["svg"]:
        svg.require()
    asked = request.checked(request_of(given), (given["m"], given["n"], given["k"]))
    chosen = request.named(asked.backends)
    gpu = request.gpu_reason()
    if gpu and given["require_gpu"]:
        raise Stop(f"--require-gpu: no usable GPU: {gpu}", Exit.NO_GPU)
    out = report.console_for(targets)
    if given["dry_run"]:
        for line in plan_lines(asked, chosen, gpu):
            out.print(Text(line))
        return Exit.OK
    warn(gpu, asked.threads)
    profile = find_profile(given["profile"]) if gpu else None
    journal = find_journal(asked, given["journal"], given["resume"])
    given_words = shlex.join(ctx.find_object(list) or [ctx.info_name or ""])
    words = f"gemm-crossover {given_words}"
    with resumable(journal, f"{program()} {given_words}"), progress.bar(hidden=given["quiet"]) as tell:
        run = measure(asked, chosen=chosen, profile=profile, journal=journal, tell=tell, command=words)
    return finish(run, asked, out, targets, journal, given["quiet"])


def request_of(given: dict[str, Any]) -> Request:
    """The request that the options make."""
    return Request(
        op=given["op"],
        shape=given["shape"],
        sizes=given["sizes"] or (),
        dtypes=given["dtype"],
        maths=given["math"],
        batch=given["batch"],
        transfers=given["transfer"],
        reuse=given["reuse"],
        host_memory=given["host_memory"],
        backends=given["backend"],
        threads=given["threads"],
        time_budget_s=given["time_budget"],
        seed=given["seed"],
        resolution=given["resolution"],
    )


def warn(gpu: str, threads: int | None = None) -> None:
    """On standard error, before measuring: no GPU and why, too many threads, versions in conflict."""
    here = machine.describe()
    found = [f"no usable GPU: {gpu}"] if gpu else []
    usable = here["threads"]["usable"]
    if threads and isinstance(usable, int) and threads > usable:
        found.append(f"--threads {threads}: {usable} can run at once here; the tables say how many each used")
    for text in found + gpu_info.conflicts(here["cuda"]):
        click.echo(f"note: {text}", err=True)


def find_profile(name: str | None) -> Run | None:
    """The profile named, else the first one shipped, if any. Stop (usage) for a wrong name."""
    try:
        if name:
            return profiles.load(name)
    except (LookupError, RecordError, OSError) as error:
        raise Stop(str(error.args[0] if isinstance(error, LookupError) else error), Exit.USAGE) from None
    return next(iter(profiles.available()), None)


def finish(
    run: Run,
    asked: Request,
    out: Console,
    targets: dict[str, str | None],
    journal: Journal | None,
    quiet: bool,
) -> Exit:
    """Show the run and export it, also where it cannot be shown; the journal goes when all is written."""
    try:
        lines = comparison.show(run, out, quiet=quiet)
        missing = unanswered(asked, lines)
        if missing:
            out.print(Text(f"NO VERDICT for {'; '.join(missing)}"), style="bold")
    finally:  # a closed pipe or a full disk behind standard output
        export.write_all(targets, report.make(run, targets, points=not quiet))
    if "lost" in run.options:  # the journal stays, for --resume
        return Exit.ERROR
    if journal is not None:
        journal.path.unlink(missing_ok=True)
    return Exit.NO_VERDICT if missing else Exit.OK
