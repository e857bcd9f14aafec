"""`ladder`: what each idea buys, from plain loops to the real library, on the CPU or on a GPU."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from backends.arithmetic import MATHS, canonical_dtype

from .. import export, ladder, options
from ..analysis import ladder as analysis
from ..exits import Exit, Stop
from ..journal import Journal
from ..ladder_cuda_measure import CudaClimb, Spoiled
from ..ladder_cuda_plan import TITLES
from ..ladder_measure import Climb, Request, Step
from ..options import Parsed, listed, many, one_of, seconds, whole
from ..record import Cell, Run
from ..render import ladder as render
from ..render import terminal
from ..shapes import parse_sizes
from . import _ladder_cuda as _cuda
from ._resume import journal_path, kept_in, program, resumable
from ._run import clean, new_run
from .report import console_for

EXPERIMENT = ladder.EXPERIMENT
DTYPES = ("float32", "float64")


def measure(climb: Climb, command: str = "") -> Run:
    """Climb (the request already checked) and return the run; Spoiled as `climbed` takes it."""
    header = new_run(EXPERIMENT, command, options_of(climb))
    cells: list[Cell] = []
    try:
        for cell in climb.run():
            cells.append(clean(cell))
    except Spoiled as spoiled:
        spoiled.run = msgspec.structs.replace(header, cells=(*cells, *spoiled.cells), complete=False)
        raise
    return msgspec.structs.replace(header, cells=tuple(cells))


def options_of(climb: Climb) -> dict[str, Any]:
    """As it stands in the record."""
    asked, provider = climb.asked, climb.provider
    if isinstance(climb, CudaClimb):
        return _cuda.options_of(climb)
    return {
        "device": asked.device,
        "sizes": list(asked.sizes),
        "dtypes": list(asked.dtypes),
        "threads": asked.threads,
        "time_budget_s": asked.time_budget_s,
        "seed": asked.seed,
        "rungs": [rung.facts() for rung in climb.chosen()],
        "levels": [list(pair) for pair in provider.levels],
        "columns": [list(pair) for pair in provider.columns],
    }


def journal_for(climb: Climb, named: Path | None, resume: bool) -> Journal | None:
    """Where the sizes that are done are kept: the file named, else the usual one."""
    words = msgspec.json.encode(msgspec.structs.replace(climb.asked, time_budget_s=0.0))
    usual = journal_path(EXPERIMENT, hashlib.sha256(words).hexdigest()[:12])
    return kept_in(named or usual, EXPERIMENT, options_of(climb), resume, must=named is not None)


def checked(asked: Request, provider: ladder.Provider) -> Request:
    """The request, when its rungs exist and the ladder can be climbed here. Stop says what is wrong."""
    known = [rung.name for rung in provider.rungs()]
    for name in asked.rungs:
        if name not in known:
            raise Stop(f"rung {name!r} is unknown: use one of {', '.join(known)}", Exit.USAGE)
    reason = provider.unavailable()
    if reason:
        raise Stop(reason)
    return asked


def plan_lines(climb: Climb) -> list[str]:
    """What --dry-run prints."""
    asked = climb.asked
    names = ", ".join(rung.name for rung in climb.chosen())
    return [
        f"{asked.device}: {', '.join(asked.dtypes)}, M = N = K = {', '.join(map(str, asked.sizes))}",
        f"rungs: {names}",
        f"threads of the rungs that use several: {climb.provider.threads(asked.threads)}",
        f"estimated time: at most about {asked.time_budget_s:.0f} s, checks of results included",
    ]


@contextlib.contextmanager
def progress(hidden: bool) -> Iterator[Callable[[Step], None] | None]:
    """Gives the function to call with every step; None where standard error is no terminal."""
    out = terminal.console(stderr=True)
    if hidden or not out.is_terminal:
        yield None
        return
    columns = (BarColumn(30), TextColumn("{task.completed}/{task.total}"), TextColumn("{task.description}"))
    with Progress(*columns, console=out, transient=True) as shown:
        task = shown.add_task("starting", total=1)
        yield lambda step: shown.update(task, completed=step.done, total=step.total, description=step.text)


HELP = """What does each idea buy, from plain loops to the real library?

Every rung changes one thing of the rung before. Each is first shown to compute right results, then all are
timed in rounds. Beside each rate: the part of the peak (multiply-adds in registers, measured in the same
rounds), the gain over the rung before, and the arithmetic intensity that the rung's tile has by counting. A
rung that is too slow for the time budget is not timed at that size, and a note says how long it would take.

On a GPU (--device cuda) the rungs are the kernels in cuda/kernels, with cuBLAS at the top, in parts: square
and ragged products, long sums, few columns, batches, gemv and vectors. Their rates are throughput, runs
replayed from a graph; the latency of one launch from Python stands beside. Without a GPU, RECORDED figures
are shown.

\b
Examples:
  gemm-crossover ladder                                                      both types, a minute
  gemm-crossover ladder --dtype f32 --sizes 64:2048:x2 --time-budget 5m
  gemm-crossover ladder --rung 01_naive --sizes 1023,1024 --time-budget 2m   rows 4096 bytes apart, or not
  gemm-crossover ladder --threads 1 --export-markdown ladder.md
  GEMM_ISA=avx2 gemm-crossover ladder                                        as on an older processor
  gemm-crossover ladder --device cuda                                        float32 in fp32, every part
  gemm-crossover ladder --device cuda --dtype f16,bf16,f32 --math all --part square,ragged
  gemm-crossover ladder --device cuda --part square --sizes 4096 --counters  bytes by Nsight Compute, too

The rungs of the CPU are short C files in cpu/ladder (docs/ladder-cpu.md), those of the GPU short CUDA files
in cuda/kernels (docs/ladder-cuda.md).
"""

CUDA_ONLY = ("math", "part", "ragged", "counters", "require_gpu")
CPU_SIZES = (64, 256, 512, 1024)
CPU_BUDGET_S = 60.0


@click.command(help=HELP)
@click.option(
    "--device",
    type=Parsed("device", one_of(ladder.devices(), "device")),
    default="cpu",
    show_default=True,
    metavar="|".join(ladder.devices()),
    help="Whose ladder.",
)
@click.option(
    "--sizes",
    type=Parsed("sizes", parse_sizes),
    metavar="SIZES",
    help="M = N = K: a list, 64:2048:x2 (times 2) or 64:512:+64 (plus 64).  [default: 64,256,512,1024; cuda:"
    " 1024,2048,4096,8192]",
)
@many(
    "--dtype",
    parse=listed(canonical_dtype),
    kind="dtype",
    help="float32, float64, and on a GPU float16, bfloat16; f32, fp32, f64 and the like are understood."
    "  [default: float32,float64; cuda: float32]",
)
@many(
    "--math",
    parse=listed(one_of((*MATHS, "all"), "math")),
    kind="math",
    help=f"cuda: arithmetics, of {', '.join(MATHS)}, or all that a rung has.  [default: that of the dtype]",
)
@many(
    "--part",
    parse=listed(one_of(tuple(TITLES), "part")),
    kind="part",
    help=f"cuda: only these of {', '.join(TITLES)}.  [default: all]",
)
@click.option(
    "--ragged",
    type=Parsed("sizes", parse_sizes),
    metavar="SIZES",
    help="cuda: sizes of part ragged.  [default: 1000,1023,2047,4097]",
)
@many("--rung", parse=listed(str), kind="name", help="Only this rung (repeatable).  [default: all]")
@click.option(
    "--counters", is_flag=True, help="cuda: bytes and intensity by Nsight Compute (ncu) beside the model."
)
@click.option("--require-gpu", is_flag=True, help="cuda: exit 5 without a usable GPU, no RECORDED figures.")
@click.option(
    "--threads",
    type=Parsed("integer", whole("threads")),
    metavar="COUNT",
    help="CPU threads of the rungs that use several.  [default: all that may be used]",
)
@click.option(
    "--time-budget",
    type=Parsed("time", seconds),
    metavar="TIME",
    help="Seconds for the whole run, the checks of results included (90, 90s, 2m).  [default: 60; cuda: 300]",
)
@click.option(
    "--seed",
    type=Parsed("integer", whole("seed", 0)),
    default="0",
    show_default=True,
    metavar="NUMBER",
    help="Of the random operands and the order of rounds.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan; measure nothing.")
@click.option("--resume", is_flag=True, help="Go on where the same command was interrupted.")
@click.option(
    "--journal", type=click.Path(dir_okay=False, path_type=Path), help="Where finished sizes are kept."
)
@options.exports("json", "csv", "markdown")
@click.option("-q", "--quiet", is_flag=True, help="Only the rates over the sizes: no details, no plot.")
@click.pass_context
def command(ctx: click.Context, **given: Any) -> Exit:
    """Check, climb, show, export."""
    targets = {kind: given[f"export_{kind}"] for kind in ("json", "csv", "markdown")}
    export.check_distinct({**targets, "the journal": given["journal"]})
    climb = climb_of(given)
    out = console_for(targets)
    if given["dry_run"]:
        for line in (_cuda.plan_lines if isinstance(climb, CudaClimb) else plan_lines)(climb):  # type: ignore[arg-type]
            out.print(Text(line))
        return Exit.OK
    words = shlex.join(ctx.find_object(list) or [ctx.info_name or ""])
    run = recorded(climb, given["require_gpu"]) or climbed(climb, words, given)
    try:
        render.show(run, out, quiet=given["quiet"])
    finally:  # a closed pipe or a full disk behind standard output
        export.write_all(targets, render.makers(run))
    if climb.journal is not None and run.complete:
        climb.journal.path.unlink(missing_ok=True)
    return ending(run, given["threads"], climb.provider)


def recorded(climb: Climb, required: bool) -> Run | None:
    """On a machine without a GPU, what was recorded of another one; None where it can be measured here."""
    if not isinstance(climb, CudaClimb) or not (reason := climb.provider.unavailable()):
        return None
    if required:
        raise Stop(f"--require-gpu: no usable GPU: {reason}", Exit.NO_GPU)
    return _cuda.recorded(climb.asked, reason)


def climbed(climb: Climb, words: str, given: dict[str, Any]) -> Run:
    """The run measured here, resumed where that was asked for."""
    climb.journal = journal_for(climb, given["journal"], given["resume"])
    begun = climb.clock.now()
    try:
        with resumable(climb.journal, f"{program()} {words}"), progress(given["quiet"]) as climb.tell:
            run = measure(climb, f"gemm-crossover {words}")
    except Spoiled as spoiled:
        return _cuda.go_on(climb, spoiled, climb.clock.now() - begun)
    if not isinstance(climb, CudaClimb):
        return run
    run = msgspec.structs.replace(run, options=run.options | {"absent_peaks": climb.provider.absent()})
    climb.provider.close()
    return _cuda.completed(run, given["counters"])


def climb_of(given: dict[str, Any]) -> Climb:
    """The climb that the options ask for. Stop where it cannot begin."""
    if given["device"] == "cuda":
        return _cuda.climb_of(_cuda.request_of(given), _cuda.provider())
    for name in (name for name in CUDA_ONLY if given[name]):
        raise Stop(f"--{name.replace('_', '-')} is an option of --device cuda", Exit.USAGE)
    for dtype in (dtype for dtype in given["dtype"] if dtype not in DTYPES):
        raise Stop(f"dtype {dtype!r} is unknown: use one of {', '.join(DTYPES)}", Exit.USAGE)
    provider = ladder.provider(given["device"])
    asked = Request(
        device=given["device"],
        sizes=given["sizes"] or CPU_SIZES,
        dtypes=given["dtype"] or DTYPES,
        rungs=given["rung"],
        threads=given["threads"],
        time_budget_s=given["time_budget"] or CPU_BUDGET_S,
        seed=given["seed"],
    )
    return Climb(checked(asked, provider), provider)


def ending(run: Run, threads: int | None, provider: ladder.Provider) -> Exit:
    """An error where a result was wrong; no verdict where a rung has no time at any size."""
    if threads and threads > provider.threads(threads):
        click.echo(f"note: --threads {threads}: {provider.threads(threads)} can run at once here", err=True)
    bad: Sequence[Any] = analysis.wrong(run)
    if bad:
        raise Stop(f"wrong results: {', '.join(dict.fromkeys(cell.config['rung'] for cell in bad))}")
    if not run.complete:
        raise Stop("CUDA was lost in this process: what was measured before is all there is")
    missing = analysis.unmeasured(run)
    for name, reason in missing.items():
        click.echo(f"note: {name} has no time at any size: {reason}", err=True)
    return Exit.NO_VERDICT if missing else Exit.OK
