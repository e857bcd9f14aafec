"""The command line: finds the commands in `suite/experiments`, and turns every ending into an exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from . import experiments
from .exits import Exit, Stop
from .version import version

HELP = """Find out from which size a GPU is worth it on this machine, and why.

Every comparison times the best CPU way of multiplying two matrices against the best GPU way, on the same
data, checked for right results first. What the GPU's answer costs depends on where the data are:

\b
  resident   the data are already on the GPU
  once       upload, several runs, download
  always     every run pays both ways

\b
Start here:
  gemm-crossover doctor                 what was found on this machine, and what is missing
  gemm-crossover crossover              the main question, in about a minute
  gemm-crossover crossover --dtype float64 --sizes 64:4096:x2
  gemm-crossover crossover --help       every option, with examples
  gemm-crossover ladder                 what each idea of a fast matrix product buys on this CPU
  gemm-crossover peers                  its result beside MKL, BLIS, OpenBLAS and oneDNN

\b
Exit codes: 0 ok, 1 error, 2 wrong usage, 3 regression, 4 a requested row ended without a verdict,
5 a GPU was asked for and none is usable, 130 interrupted.
"""


class App(click.Group):
    """A group whose commands are the modules in `suite/experiments`, loaded when needed."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return experiments.names()

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = cmd_name
        try:
            return experiments.load(name)
        except KeyError:
            return None
        except Exception as error:  # one broken module must not take the others with it
            return _broken(name, f"{type(error).__name__}: {error}")

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As click does; an unknown name is answered with the known ones."""
        name = args[0]
        if not name.startswith("-") and name not in experiments.names():
            raise click.UsageError(
                f"command {name!r} is unknown: use one of {', '.join(experiments.names())}"
            )
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run and exit: never a traceback for bad input, an interruption or a closed pipe."""
        with contextlib.suppress(ValueError):  # not the main thread: signals are somebody else's
            signal.signal(signal.SIGTERM, _interrupt)
        for name in ("stdout", "stderr"):  # None where the caller has closed it
            if getattr(sys, name) is None:
                setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - as long as the process
        given = args[0] if args else extra.pop("args", None)
        words = list(sys.argv[1:] if given is None else given)
        run = super().main
        sys.exit(_ending(lambda: run(words, *args[1:], **extra | {"standalone_mode": False, "obj": words})))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _broken(name: str, reason: str) -> click.Command:
    def complain() -> None:
        raise Stop(f"the command {name} cannot be loaded: {reason}")

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(
        name, callback=complain, help=f"(cannot be loaded: {reason})", context_settings=anything
    )


def _ending(run: Any) -> int:
    try:
        return int(run() or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return Exit.USAGE
    except click.ClickException as error:
        return _say(error.format_message(), error.exit_code)
    except Stop as stop:
        return _say(str(stop), stop.code)
    except (KeyboardInterrupt, click.Abort):
        return _say("interrupted", Exit.INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.ERROR
    except Exception as error:
        if os.environ.get("GEMM_DEBUG"):
            traceback.print_exc()
        return _say(f"{type(error).__name__}: {error} (GEMM_DEBUG=1 shows where)", Exit.ERROR)


def _say(message: str, code: int) -> int:
    click.echo("error: " + " ".join(message.split()), err=True)
    return code


@click.group(cls=App, help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version(), prog_name="gemm-crossover")
def app() -> None:
    """The group itself does nothing; its help is HELP."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the console script `gemm-crossover` and of `python -m suite`."""
    app.main(args=None if argv is None else list(argv), prog_name="gemm-crossover")
