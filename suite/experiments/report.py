"""`report`: shows a saved run again, and exports it, without measuring anything."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import click

from .. import experiments, export
from ..exits import Exit, Stop
from ..journal import RecordError, load_run, readable
from ..options import exports, quiet
from ..record import Run
from ..render import comparison, markdown, svg, terminal, tidy


def make(run: Run, targets: dict[str, str | None], points: bool = True) -> dict[str, Any]:
    """For each kind of export the function that makes its bytes; points: see `markdown.render`."""
    kind = "png" if (targets.get("svg") or "").lower().endswith(".png") else "svg"
    return {
        "json": lambda: readable(run),
        "csv": lambda: tidy.render(run),
        "markdown": lambda: markdown.render(run, points),
        "svg": lambda: svg.render(run, kind),
    }


def own_renderer(run: Run) -> Any:
    """The module `suite.render.EXPERIMENT`, where the experiment of `run` has tables of its own; else None.

    It offers `check(run)`, which raises ValueError for a record that lacks what it shows, `show` as
    `comparison` has it, and `makers(run)`: for each kind of export the function that makes its bytes.
    """
    name = f"{__package__.rpartition('.')[0]}.render.{run.experiment}"
    if run.experiment in experiments.names() and importlib.util.find_spec(name):
        return importlib.import_module(name)
    return None


def show_own(run: Run, renderer: Any, targets: dict[str, str | None], quiet: bool) -> None:
    """Show and export a run that is no comparison. Stop (usage) where that cannot be done."""
    made = renderer.makers(run)
    try:
        renderer.check(run)
        for kind in (kind for kind, target in targets.items() if target and kind not in made):
            raise ValueError(f"--export-{kind}: {run.experiment} has {', '.join(made)}")
    except ValueError as error:
        raise Stop(str(error), Exit.USAGE) from None
    renderer.show(run, console_for(targets), quiet=quiet)
    export.write_all(targets, made)


def console_for(targets: dict[str, str | None]) -> Any:
    """Where the tables go: standard error when an export takes standard output."""
    return terminal.console(stderr=export.STDOUT in targets.values())


@click.command(
    help="""Show a saved run (made by --export-json) again, or a recorded profile; nothing is measured.

\b
Examples:
  gemm-crossover report run.json
  gemm-crossover report run.json --export-markdown table.md
  gemm-crossover report run.json -q --export-markdown verdicts.md
  gemm-crossover report run.json --export-csv - > cells.csv
"""
)
@click.argument("run_file", metavar="RUN.json", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@exports("csv", "markdown", "svg")
@quiet
def command(run_file: Path, quiet: bool, **paths: str | None) -> Exit:
    """Read, show, export."""
    targets = {name.removeprefix("export_"): path for name, path in paths.items()}
    export.check_distinct({"the run read": run_file.absolute(), **targets})
    if targets["svg"]:
        svg.require()
    try:
        run = load_run(run_file)
    except RecordError as error:
        raise Stop(str(error), Exit.USAGE) from None
    renderer = own_renderer(run)
    if renderer is not None:
        show_own(run, renderer, targets, quiet)
        return Exit.OK
    comparison.show(run, console_for(targets), quiet=quiet)
    export.write_all(targets, make(run, targets, points=not quiet))
    return Exit.OK
