"""Where the constants of a machine's model are kept between runs. Whoever only asks loads no harness."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from .analysis.model import Model, Roofs, Side, as_record, of_record


def path_of(fingerprint: str) -> Path:
    """Where the calibration of a machine is kept."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "gemm-crossover" / f"model-{fingerprint}.json"


def keep(model: Model) -> Path:
    """Writes it where `kept` finds it, with what is kept of others. OSError where that cannot be written."""
    from .journal import atomic_write, readable

    path = path_of(model.fingerprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    before = kept(model.fingerprint)
    atomic_write(path, readable(as_record(merged(before, model) if before else model)))
    return path


def merged(before: Model, after: Model) -> Model:
    """`after`, with the sides, links and rates of `before` that it has none of."""
    sides = {_of(side): side for side in before.sides} | {_of(side): side for side in after.sides}
    links = {one.host_memory: one for one in before.links} | {one.host_memory: one for one in after.links}
    roofs = before.roofs | {
        device: _roofs(before.roofs.get(device), new) for device, new in after.roofs.items()
    }
    return msgspec.structs.replace(
        after, sides=tuple(sides.values()), links=tuple(links.values()), roofs=roofs
    )


def _of(side: Side) -> tuple[object, ...]:
    """What a side is about: a calibration of the same takes its place."""
    return side.device, side.op, side.dtype, side.math, side.host_memory, side.threads


def _roofs(before: Roofs | None, after: Roofs) -> Roofs:
    if before is None or (before.measured and not after.measured):
        return before or after
    return msgspec.structs.replace(
        after,
        flops=before.flops | after.flops if before.measured == after.measured else after.flops,
        memory=after.memory or before.memory,
        link=after.link or before.link,
    )


def kept(fingerprint: str) -> Model | None:
    """The calibration of that machine, None where there is none that can be read."""
    try:
        return of_record(msgspec.json.decode(path_of(fingerprint).read_bytes()))
    except (OSError, msgspec.DecodeError):
        return None
