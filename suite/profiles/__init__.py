"""Recorded runs of real machines: what a computer without a GPU is compared with.

A profile is a `Run` whose cells say provenance `recorded`: made from measured runs of one machine by
`profiles build`, never by hand. Its `options` hold a label and the commands it came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..analysis import calibration
from ..analysis.model import as_record
from ..journal import RecordError, load_run
from ..record import Cell, Run

FOLDER = Path(__file__).parent
KIND = "profile"


def available(folder: Path = FOLDER) -> list[Run]:
    """Every profile in `folder`, by name."""
    return [load(str(path)) for path in sorted(folder.glob("*.json"))]


def load(name: str, folder: Path = FOLDER) -> Run:
    """The shipped profile of that name, or the one in the file of that path.

    LookupError lists the shipped names; RecordError where the file is no profile.
    """
    path = Path(name)
    if path.suffix != ".json":
        path = folder / f"{name}.json"
        if not path.exists():
            known = ", ".join(sorted(p.stem for p in folder.glob("*.json"))) or "none"
            raise LookupError(f"no profile {name!r}: shipped are {known}; or give the path of a .json file")
    run = load_run(path)
    if run.experiment != KIND:
        raise RecordError(f"{path.name} is a run of {run.experiment}, no profile: use `profiles build` on it")
    return msgspec.structs.replace(run, options={**run.options, "name": path.stem})


def headline(profile: Run) -> dict[str, Any]:
    """Name, label, CPU, GPU, date and number of cells."""
    gpus = profile.machine.get("gpus") or []
    return {
        "name": profile.options.get("name", ""),
        "label": profile.options.get("label", ""),
        "cpu": profile.machine.get("cpu", {}).get("model", "unknown"),
        "gpu": gpus[0]["name"] if gpus else "none",
        "created": profile.created,
        "cells": len(profile.cells),
    }


def build(runs: Sequence[Run], label: str) -> Run:
    """One profile of several runs of one machine: pilots left out, raw samples kept, provenance `recorded`.

    Where two runs hold the same comparison group the later one counts, whole. ValueError for runs of
    different machines, and where no GPU time was measured.
    """
    if not runs:
        raise ValueError("no run given: name one or more files made by --export-json")
    ordered = sorted(runs, key=lambda run: run.created)
    _check_one_machine(ordered)
    groups: dict[str, list[Cell]] = {}
    for run in ordered:
        fresh: dict[str, list[Cell]] = {}
        for cell in run.cells:
            if cell.role != "pilot" and cell.provenance == "measured":
                fresh.setdefault(cell.group, []).append(msgspec.structs.replace(cell, provenance="recorded"))
        groups.update(fresh)
    if not any(cell.device == "cuda" and cell.samples_s for cells in groups.values() for cell in cells):
        raise ValueError("no run holds a measured GPU cell: measure on a machine with a GPU")
    kept = tuple(cell for cells in groups.values() for cell in cells)
    return msgspec.structs.replace(
        ordered[-1],
        experiment=KIND,
        options={"label": label, "commands": [run.command for run in ordered], "shapes": _shapes(ordered)},
        command="profiles build",
        complete=all(run.complete for run in ordered),
        model=as_record(calibration.fitted(kept, ordered[-1].machine)),
        cells=kept,
    )


def _shapes(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.options.get("shape", "square") for run in runs))


def _check_one_machine(runs: Sequence[Run]) -> None:
    prints = {run.machine.get("fingerprint", "") for run in runs}
    if len(prints) > 1 or "" in prints:
        names = ", ".join(sorted(_machine_name(run) for run in runs))
        raise ValueError(f"the runs are not of one machine ({names}): make one profile for each")


def _machine_name(run: Run) -> str:
    gpus = run.machine.get("gpus") or [{}]
    model = run.machine.get("cpu", {}).get("model", "unknown CPU")
    return f"{model} + {gpus[0].get('name', 'no GPU')} [{run.machine.get('fingerprint', 'no fingerprint')}]"


def encode(run: Run) -> bytes:
    """JSON without fields at their default, samples at six significant digits (finer than any clock here)."""
    cells = [_compact(cell) for cell in run.cells]
    whole = {**msgspec.to_builtins(msgspec.structs.replace(run, cells=())), "cells": cells}
    return b'{"cells":[\n' + _joined(whole) + b"}\n"


def _joined(whole: dict[str, Any]) -> bytes:
    cells = whole.pop("cells")
    lines = b",\n".join(msgspec.json.encode(cell) for cell in cells)
    rest = msgspec.json.format(msgspec.json.encode(whole), indent=1)
    return lines + b"\n],\n" + rest.strip()[1:-1].strip() + b"\n"


def _compact(cell: Cell) -> dict[str, Any]:
    blank = msgspec.to_builtins(Cell(problem=cell.problem, backend="", device=""))
    full = msgspec.to_builtins(cell)
    kept = {key: value for key, value in full.items() if value != blank.get(key) or key == "problem"}
    kept["samples_s"] = [float(f"{sample:.6g}") for sample in cell.samples_s]
    return kept
