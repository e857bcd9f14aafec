"""`profiles`: recorded machines; `profiles build` makes one from runs measured with --export-json."""

from __future__ import annotations

from pathlib import Path

import click

from .. import export, profiles
from ..exits import Exit, Stop
from ..journal import load_run
from ..options import Parsed
from ..render import terminal


@click.group(
    name="profiles",
    invoke_without_command=True,
    help="""Recorded machines, which a computer without a GPU is compared with.

\b
Examples:
  gemm-crossover profiles
  gemm-crossover profiles build f32.json f64.json gemv.json --out my-gpu.json --label "My machine"
  gemm-crossover crossover --profile ./my-gpu.json
""",
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Without a sub-command: list them."""
    if ctx.invoked_subcommand is None:
        rows = [tuple(map(str, profiles.headline(p).values())) for p in profiles.available()]
        title = "Recorded profiles" if rows else "Recorded profiles: none"
        columns = ("name", "label", "CPU", "GPU", "created", "cells")
        terminal.show_table(terminal.console(), title, columns, rows)


@command.command("build")
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    required=True,
    type=Parsed("path", export.checked_target),
    metavar="PATH",
    help="The profile's file.",
)
@click.option("--label", required=True, help="What to call the machine, without host or user name.")
def build(runs: tuple[Path, ...], out: str, label: str) -> Exit:
    """Make one profile of RUNS, all measured on one machine; raw samples are kept."""
    try:
        profile = profiles.build([load_run(path) for path in runs], label)
    except ValueError as error:
        raise Stop(str(error), Exit.USAGE) from None
    export.write_all({"json": out}, {"json": lambda: profiles.encode(profile)})
    click.echo(f"{len(profile.cells)} cells of {profiles.headline(profile)['gpu']} written", err=True)
    return Exit.OK
