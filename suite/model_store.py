"""Where the constants of a machine's model are kept between runs. Whoever only asks loads no harness."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from .analysis.model import Model, as_record, of_record


def path_of(fingerprint: str) -> Path:
    """Where the calibration of a machine is kept."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "gemm-crossover" / f"model-{fingerprint}.json"


def keep(model: Model) -> Path:
    """Writes it where `kept` finds it. OSError where that cannot be written."""
    from .journal import atomic_write, readable

    path = path_of(model.fingerprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, readable(as_record(model)))
    return path


def kept(fingerprint: str) -> Model | None:
    """The calibration of that machine, None where there is none that can be read."""
    try:
        return of_record(msgspec.json.decode(path_of(fingerprint).read_bytes()))
    except (OSError, msgspec.DecodeError):
        return None
