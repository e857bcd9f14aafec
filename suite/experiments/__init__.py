"""The commands: one module each, found by its name.

To add an experiment, write one module here. It plans, measures (through `suite.harness`), analyses and
renders, and offers `command`, a `click.Command`; the command is called as the module is. Shared options are
the decorators in `suite.options`; a command returns a `suite.exits.Exit` (None means OK) and raises
`suite.exits.Stop` with one clear line when it cannot go on. Modules whose names begin with `_` are helpers.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import cast

import click


def names() -> list[str]:
    """Names of every command, in alphabetical order."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def load(name: str) -> click.Command:
    """The command of that name. KeyError when there is none; ImportError as the module raises it."""
    if name not in names():
        raise KeyError(name)
    return cast(click.Command, importlib.import_module(f"{__name__}.{name}").command)
