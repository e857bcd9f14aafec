"""`peers`: is the C library as fast as MKL, BLIS and OpenBLAS, side by side on the same data?"""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from backends.arithmetic import canonical_dtype
from backends.cpus import allowed_cpus

from .. import export, machine, options, peers_plan, peers_run
from ..analysis import peers as analysis
from ..exits import Exit, Stop
from ..journal import Journal
from ..options import Parsed, listed, many, one_of, seconds, whole
from ..peers_run import Asked
from ..record import Run
from ..render import peers as render
from ..render import progress
from ..shapes import parse_sizes
from . import report
from ._resume import journal_path, kept_in, program, resumable
from ._run import clean, new_run

EXPERIMENT = "peers"

HELP = """Is the C library as fast as MKL, BLIS and OpenBLAS, side by side on the same data?

Every CBLAS found here (see `list`) and ours compute the same problems, called from C. Each is visited in turn
with the others and alone in a process of its own, each time after 50 ms of work; its best figure counts. When
every problem has been measured once, further passes visit ours and the peers near the best again, until two
passes, at least 5 s apart, agree within 2 %. Each result is checked before its time counts. The FMA peak and
the read bandwidth are measured in the same round.

\b
Examples:
  gemm-crossover peers                          both types, one thread and all, in about four minutes
  gemm-crossover peers --dtype f32 --threads 1 --sizes 64,128,256
  gemm-crossover peers --classes rectangles,gemv --time-budget 60
  gemm-crossover peers --isa avx2               ours and every peer held to AVX2
  gemm-crossover peers --backend cblas:/opt/lib/libmy_blas.so
  gemm-crossover peers --time-budget 10m --export-json peers.json
  gemm-crossover peers --dry-run                what would be measured

\b
More libraries: pip install 'gemm-crossover[peers]' (MKL, OpenBLAS); BLIS and oneDNN come with the system
(apt install libblis4-openmp libdnnl3 on Debian and Ubuntu; on Debian 12 libdnnl2 in place of libdnnl3).
"""


def thread_count(text: str) -> int:
    """A number of threads, or `all`."""
    return allowed_cpus() if text.strip().lower() == "all" else whole("threads")(text)


def dtype_of(text: str) -> str:
    """float32 or float64; ValueError for others, which no CBLAS has."""
    return one_of(("float32", "float64"), "dtype")(canonical_dtype(text))


def request_of(given: dict[str, Any]) -> Asked:
    """The question that the options make."""
    every = tuple(sorted({1, allowed_cpus()}))
    for count in (count for count in given["threads"] if count > allowed_cpus()):
        click.echo(f"note: --threads {count}: {allowed_cpus()} can run at once here", err=True)
    squares = tuple(peers_plan.SQUARE_CLASSES)
    return Asked(
        dtypes=given["dtype"],
        threads=tuple(sorted({min(count, allowed_cpus()) for count in given["threads"]})) or every,
        classes=given["classes"] or (squares if given["sizes"] else peers_plan.CLASSES),
        sizes=given["sizes"] or (),
        backends=given["backend"],
        isa=given["isa"] or "",
        time_budget_s=given["time_budget"],
        seed=given["seed"],
    )


def header_of(asked: Asked, command: str) -> Run:
    """The run without cells."""
    return new_run(EXPERIMENT, command, asked.options())


def journal_for(asked: Asked, named: Path | None, resume: bool) -> Journal | None:
    """Where the groups of this question are kept while it runs: the file named, else the usual one."""
    words = msgspec.json.encode(msgspec.structs.replace(asked, time_budget_s=0.0))
    usual = journal_path(EXPERIMENT, hashlib.sha256(words).hexdigest()[:12])
    return kept_in(named or usual, EXPERIMENT, asked.options(), resume, must=named is not None)


def plan_lines(asked: Asked, names: tuple[str, ...]) -> list[str]:
    """What --dry-run prints."""
    groups = [group for dtype in asked.dtypes for group in asked.groups(dtype)]
    kinds = {kind: sum(group.kind == kind for group in groups) for kind in peers_plan.CLASSES}
    counted = ", ".join(f"{kind} {count}" for kind, count in kinds.items() if count)
    return [
        f"ours against {', '.join(names[1:]) or 'no other library: none was found'}",
        *(f"not found here: {name}: {why}" for name, why in peers_run.absent(asked.backends).items()),
        *(f"not measured: {name}: {why}" for name, why in peers_run.twice(asked.backends).items()),
        f"{', '.join(asked.dtypes)}; threads {', '.join(map(str, asked.threads))}"
        + (f"; held to {asked.isa}" if asked.isa else ""),
        f"{len(groups)} groups: {counted}",
        f"at most about {asked.time_budget_s:.0f} s; what does not fit is thinned out and named",
    ]


def measured(asked: Asked, names: tuple[str, ...], journal: Journal | None, words: str, quiet: bool) -> Run:
    """Measure, and the run."""
    header, absent = header_of(asked, f"gemm-crossover {words}"), peers_run.absent(asked.backends)
    twice = peers_run.twice(asked.backends)
    for name, why in (absent | twice).items():
        click.echo(f"note: not compared: {name}: {why}", err=True)
    again = f"{program()} {words}"
    with resumable(journal, again), progress.steps(hidden=quiet) as tell:
        outcome = peers_run.measure(asked, names, journal=journal, tell=tell)
    for error in outcome.errors:
        click.echo(f"note: {error}", err=True)
    extra: dict[str, Any] = {"absent": absent} if absent else {}
    extra |= {"twice": twice} if twice else {}
    extra |= {"too_large": large} if (large := asked.too_large()) else {}
    extra |= {name: value for name in ("unmeasured", "errors") if (value := getattr(outcome, name))}
    return msgspec.structs.replace(
        header,
        options=machine.scrub(header.options | extra),
        complete=not outcome.unmeasured,
        cells=tuple(map(clean, outcome.cells)),
    )


@click.command(help=HELP)
@many(
    "--dtype",
    parse=listed(dtype_of),
    kind="dtype",
    default=("float32", "float64"),
    show_default="float32,float64",
    help="float32, float64 (f32, f64).",
)
@many("--threads", parse=listed(thread_count), kind="count", help="Numbers of threads.  [default: 1,all]")
@many(
    "--classes",
    parse=listed(one_of(peers_plan.CLASSES, "class")),
    kind="class",
    help=f"Of problems: {', '.join(peers_plan.CLASSES)}.  [default: all; with --sizes the squares]",
)
@click.option(
    "--sizes",
    type=Parsed("sizes", parse_sizes),
    metavar="SIZES",
    help="Others than the usual ones, M = N = K: 64:1024:x2, 64:256:+8 or a list.",
)
@many(
    "--backend",
    parse=listed(str),
    kind="name",
    help="Only these peers: cblas:mkl and the like, or cblas:/path/lib.so.  [default: every CBLAS found]",
)
@click.option(
    "--isa",
    type=Parsed("isa", one_of(tuple(peers_run.PINS), "instruction set")),
    metavar="|".join(peers_run.PINS),
    help="Hold ours and every peer to this instruction set; every table says so.",
)
@click.option(
    "--time-budget",
    type=Parsed("time", seconds),
    default="240",
    show_default=True,
    metavar="TIME",
    help="Seconds for the whole run (90, 90s, 3m); what one pass over all leaves goes into further ones.",
)
@click.option(
    "--seed",
    type=Parsed("integer", whole("seed", 0)),
    default="0",
    show_default=True,
    metavar="NUMBER",
    help="Of the random operands.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be measured; measure nothing.")
@click.option("--resume", is_flag=True, help="Go on where the same command was interrupted.")
@click.option(
    "--journal", type=click.Path(dir_okay=False, path_type=Path), help="Where finished groups are kept."
)
@options.exports("json", "csv", "markdown")
@options.quiet
@click.pass_context
def command(ctx: click.Context, **given: Any) -> Exit:
    """Check everything, measure, show, export."""
    targets = {kind: given[f"export_{kind}"] for kind in ("json", "csv", "markdown")}
    export.check_distinct({**targets, "the journal": given["journal"]})
    asked, out = peers_run.check(request_of(given)), report.console_for(targets)
    names = peers_run.libraries(asked.backends)
    if given["dry_run"]:
        for line in plan_lines(asked, names):
            out.print(Text(line))
        return Exit.OK
    if len(names) == 1:
        raise Stop(f"{peers_run.NO_PEER}: pip install 'gemm-crossover[peers]'")
    journal = journal_for(asked, given["journal"], given["resume"])
    words = shlex.join(ctx.find_object(list) or [ctx.info_name or ""])
    run = measured(asked, names, journal, words, given["quiet"])
    return finish(run, out, targets, journal, given["quiet"])


def finish(
    run: Run, out: Console, targets: dict[str, str | None], journal: Journal | None, quiet: bool
) -> Exit:
    """Show and export; the journal goes when all is written. No verdict where nothing could be compared."""
    try:
        render.show(run, out, quiet=quiet)
    finally:  # a closed pipe or a full disk behind standard output
        export.write_all(targets, render.makers(run))
    if journal is not None:
        journal.path.unlink(missing_ok=True)
    return Exit.OK if analysis.entries(run) else Exit.NO_VERDICT
