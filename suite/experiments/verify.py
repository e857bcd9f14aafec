"""`verify`: the whole run on a GPU machine in one command; it goes on where the last call stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import click

from backends import _cuda_source

from .. import verify_gpu, verify_install, verify_record, verify_state, verify_steps
from ..exits import Exit, Stop
from ..options import Parsed, flat, listed, seconds
from ..render import terminal
from ..verify_state import Context, Outcome, State

NATIVE = ("cpu", "CMakeLists.txt", "backends")
KERNELS = (
    "cuda/include",
    "cuda/kernels",
    "backends",
    "suite/gate*.py",
    "suite/reference.py",
    "suite/trials*.py",
)
MEASURING = (
    *KERNELS,
    "cpu",
    "suite/harness*.py",
    "suite/clock*.py",
    "suite/plan.py",
    "suite/search.py",
    "suite/sweep.py",
)
SANITIZED = (*KERNELS, "tests/gpu_sanitize.py", "tests/cuda_cases.py", "tests/cuda_shapes.py")
PEERS = (*NATIVE, "suite/peers*.py")
LADDER = (*NATIVE, "suite/ladder*.py", "suite/gate*.py", "suite/trials*.py", "suite/harness*.py")
PEERS_BUDGET_S = 480.0

Step = Callable[[Context], dict[str, Any]]


def all_steps(out: Path, peers_s: float = PEERS_BUDGET_S) -> dict[str, tuple[Step, Sequence[str]]]:
    """Name -> (step, the sources it depends on), in order. `crossover:...` is one step for each run,
    `sanitize:...` one for each tool.

    peers_s: the time budget of step `peers`.
    """
    found: dict[str, tuple[Step, Sequence[str]]] = {
        "build": (verify_steps.build, NATIVE),
        "environment": (verify_steps.environment, ("suite/machine.py", "backends")),
        "c": (verify_steps.c_tests, (*NATIVE, "tests/c")),
        "compile": (verify_gpu.compiling, KERNELS),
        "tests": (verify_gpu.tests, (*MEASURING, "tests")),
        **{
            f"sanitize:{tool}": (partial(verify_gpu.sanitize, tool=tool), SANITIZED)
            for tool in verify_gpu.TOOLS
        },
        "kernels": (verify_steps.kernels, (*KERNELS, "suite/verify_kernels.py")),
        "record": (verify_record.write_verified, KERNELS),
    }
    for op in ("gemm", "gemv"):
        for dtype in ("float32", "float64"):
            for memory in ("pageable", "pinned"):
                options = verify_steps.crossover_options(op, dtype, memory)
                run = partial(verify_steps.crossover_run, options=options, target=out / "crossover.json")
                found[f"crossover:{op}:{dtype}:{memory}"] = (run, MEASURING)
    for dtype in ("float32", "float64"):
        options = verify_steps.sweep_options(dtype)
        run = partial(verify_steps.crossover_run, options=options, target=out / "crossover.json")
        found[f"sweep:{dtype}"] = (run, MEASURING)
    return found | {
        "peers": (partial(verify_steps.peers_run, budget_s=peers_s), PEERS),
        "ladder": (verify_steps.ladder_run, LADDER),
        "ladder-cuda": (verify_gpu.ladder, (*KERNELS, *LADDER, "cuda/peaks")),
        "compare": (verify_record.compare_runs, MEASURING),
        "profile": (verify_record.write_profile, MEASURING),
    }


GROUPS = (
    *("build", "environment", "c", "compile", "tests", "sanitize", "kernels", "record"),
    *("crossover", "sweep", "peers", "ladder", "ladder-cuda", "compare", "profile"),
)
CHEAP = ("build", "record", "compare", "profile")
"""Run at every call: `build` sets up what the others need, the rest only reads what is there."""

AGAIN = (*CHEAP, "compile")
"""Those, and what is quick the second time: compiled kernels may be gone, or the machine another."""

ON_GPU = {"tests", "sanitize", "kernels", "crossover", "sweep", "ladder-cuda"}
"""They find their kernels compiled."""


def chosen(only: Sequence[str], skip: Sequence[str], names: Sequence[str]) -> list[str]:
    """The steps to run. Stop (usage) for a name that no step has."""
    for name in (*only, *skip):
        if name not in GROUPS and name not in names:
            raise Stop(f"step {name!r} is unknown: use one of {', '.join(GROUPS)}", Exit.USAGE)
    wanted = {*only, *CHEAP} if only else set(GROUPS)
    if ON_GPU & {name.split(":")[0] for name in wanted}:
        wanted.add("compile")
    return [n for n in names if wanted & {n, n.split(":")[0]} and not {n, n.split(":")[0]} & set(skip)]


def outstanding(context: Context, names: Sequence[str], known: dict[str, Any], redo: bool) -> list[str]:
    """Those that have not been done with the sources as they are now."""

    def done(name: str) -> bool:
        before = context.state.steps.get(name)
        now = verify_state.sources_hash(known[name][1])
        return bool(before and before.status == "done" and before.sources == now and not redo)

    return [name for name in names if name in AGAIN or not done(name)]


def run_all(
    context: Context, names: Sequence[str], known: dict[str, Any], tell: Callable[[str], None]
) -> int:
    """Run the named steps within the budget; the number of those left for the next call."""
    for index, name in enumerate(names):
        if context.left_s < verify_state.MIN_STEP_S and name not in CHEAP:
            continue
        tell(f"[{index + 1}/{len(names)}] {name} ...")
        step, parts = known[name]
        outcome = verify_state.run_step(context, name, step, verify_state.sources_hash(parts))
        tell(f"    {outcome.status} in {outcome.seconds:g} s{'; ' if outcome.reason else ''}{outcome.reason}")
    finished = {name for name, outcome in context.state.steps.items() if outcome.status != "unfinished"}
    return len(set(names) - finished)


def matching(pattern: str) -> list[str]:
    """The kernels whose name, with or without `cuda:`, matches a shell pattern; [] without a pattern."""
    kernels = [k.name for k in _cuda_source.all_kernels().values() if isinstance(k, _cuda_source.Kernel)]
    names = [name for name in kernels if fnmatch(name, pattern) or fnmatch(name, f"cuda:{pattern}")]
    if pattern and not names:
        raise Stop(f"--kernels {pattern!r} matches none of {', '.join(kernels)}", Exit.USAGE)
    return names


def rows(state: State, names: Sequence[str]) -> list[tuple[str, str, str, str]]:
    """(step, status, seconds, reason) for the closing table."""
    nothing = Outcome(status="unfinished", reason="not begun")
    outcomes = [(name, state.steps.get(name, nothing)) for name in names]
    return [
        (n, o.status, f"{o.seconds:g}", o.reason.splitlines()[0] if o.reason else "") for n, o in outcomes
    ]


def ending(state: State, names: Sequence[str], left: int) -> Exit:
    """1 when a step failed, 4 when one is left for the next call, else 0."""
    if any(state.steps[name].status == "failed" for name in names if name in state.steps):
        return Exit.ERROR
    return Exit.NO_VERDICT if left else Exit.OK


names_option = partial(
    click.option, type=Parsed("steps", listed(str)), multiple=True, callback=flat, metavar="STEPS"
)


@click.command(
    help=f"""Verify kernels and measure crossovers on a GPU machine: one command, at most eight files.

Steps: {", ".join(GROUPS)}. Each one's outcome is kept in DIR/verify.json at once. Calling it again runs what
is left: steps that failed, did not fit into the time budget, or depend on sources that have changed. What
needs a GPU is skipped where there is none; peers and ladder measure the CPU alone, on any machine. Tests and
sanitizers run in several processes at once, as many as the CPUs and the GPU's memory allow.

\b
Examples:
  gemm-crossover verify --out results
  gemm-crossover verify --out results --time-budget 9m
  gemm-crossover verify --out results --steps tests,sanitize
  gemm-crossover verify --out results --steps peers,ladder --peers-budget 10m
  gemm-crossover verify --out trial --steps tests,sanitize --kernels '07_*'      while working on a kernel
  gemm-crossover verify --install results      take DIR/verified.json over into this checkout


DIR/verified.json says which kernels were shown to work; it is put into place at once, so that they are
candidates in the crossover runs that follow. DIR/profile.json holds these runs for machines without a GPU.
DIR/peers.json, DIR/ladder.json (the CPU's) and DIR/ladder-cuda.json are runs that `report` shows.

\b
Exit codes: 0 all done, 1 a step failed, 4 something is left for the next call, 130 interrupted.
"""
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder of the results.")
@click.option("--install", type=click.Path(exists=True, file_okay=False, path_type=Path), help="See above.")
@names_option(
    "--steps",
    "only",
    help="Only these steps (and build, record, compare, profile, which are quick).",
)
@names_option("--skip", help="All but these steps.")
@click.option(
    "--kernels",
    metavar="PATTERN",
    default="",
    help="Tests and sanitizers for kernels of such a name only; these steps stay unfinished.",
)
@click.option("--redo", is_flag=True, help="Run also what has been done.")
@click.option(
    "--time-budget", type=Parsed("time", seconds), metavar="TIME", help="Stop after this time (540, 9m)."
)
@click.option(
    "--peers-budget",
    type=Parsed("time", seconds),
    default=f"{PEERS_BUDGET_S:g}",
    show_default=True,
    metavar="TIME",
    help="Time budget of step peers (480, 8m).",
)
def command(
    out: Path | None,
    install: Path | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    kernels: str,
    redo: bool,
    time_budget: float | None,
    peers_budget: float,
) -> Exit:
    """Run the steps, or install what an earlier run found."""
    if (out is None) == (install is None):
        raise Stop(
            "name a folder with --out DIR (to run) or --install DIR (to take results over)", Exit.USAGE
        )
    if install is not None:
        click.echo(verify_install.install(install))
        if said := verify_install.install_ladder(install):
            click.echo(said)
        return Exit.OK
    assert out is not None
    if kernels and redo:
        raise Stop("--redo with --kernels would put a part in the place of the whole: use one", Exit.USAGE)
    known = all_steps(out.resolve(), peers_budget)
    return verify(out.resolve(), known, chosen(only, skip, list(known)), redo, time_budget, matching(kernels))


def verify(
    out: Path,
    known: dict[str, Any],
    names: Sequence[str],
    redo: bool,
    budget_s: float | None,
    kernels: list[str],
) -> Exit:
    """Run what is left of the named steps, print a table, and say how it ended."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        state = verify_state.load(out)
    except OSError as error:
        raise Stop(f"--out {str(out)!r} cannot be used: {error.strerror or error}") from error
    except ValueError as error:
        raise Stop(f"--out: {error}") from error
    context = Context(out, state, budget_s)
    context.kernels = kernels
    context.expected = {name: verify_state.sources_hash(parts) for name, (_, parts) in known.items()}
    todo = outstanding(context, names, known, redo)
    try:
        left = run_all(context, todo, known, partial(click.echo, err=True))
    except KeyboardInterrupt:
        raise Stop(
            f"interrupted: what is done is kept in {out.name}; the same command goes on", Exit.INTERRUPTED
        ) from None
    console = terminal.console()
    terminal.show_table(console, "Verification", ("step", "status", "s", "reason"), rows(state, names))
    if left:
        click.echo(f"{left} steps are left: run the same command again")
    return ending(state, names, left)
