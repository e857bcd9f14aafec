"""What every experiment that measures writes down in the same way."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec

from .. import machine
from ..record import Cell, Run
from ..version import version


def new_run(experiment: str, command: str, options: dict[str, Any]) -> Run:
    """A run without cells: when and where, how asked, in what words; no path or user name in these."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return Run(
        tool_version=version(),
        created=now.isoformat(timespec="seconds"),
        experiment=experiment,
        command=machine.scrub(command),
        options=machine.scrub(options),
        machine=machine.describe(),
    )


def clean(cell: Cell) -> Cell:
    """The cell without host or user name or absolute path in its texts."""
    gate = cell.gate and msgspec.structs.replace(cell.gate, detail=machine.scrub(cell.gate.detail))
    texts = {name: machine.scrub(getattr(cell, name)) for name in ("skip_reason", "config")}
    return msgspec.structs.replace(cell, gate=gate, **texts)
