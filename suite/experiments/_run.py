"""What every experiment that measures writes down in the same way."""

from __future__ import annotations

import datetime
from typing import Any

from .. import machine
from ..record import Run
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
