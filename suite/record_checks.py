"""What the free dictionaries and parallel tuples of a record must be for its readers."""

from __future__ import annotations

from typing import Any

import msgspec

from .record import Cell, Run


class _Cpu(msgspec.Struct):
    model: str | None = None


class _Gpu(msgspec.Struct):
    name: str


class _Machine(msgspec.Struct):
    cpu: _Cpu | None = None
    gpus: list[_Gpu] | None = None
    threads: dict[str, Any] = {}
    gpu_reason: str | None = None
    fingerprint: str = ""


class _Profile(msgspec.Struct):
    gpu: str
    cpu: str
    label: str
    created: str
    fingerprint: str = ""


class _Options(msgspec.Struct):
    shape: str = "square"
    shapes: list[str] = []
    name: str = ""
    label: str = ""
    sizes: list[int] = []
    unmeasured: list[str] = []
    profile: _Profile | None = None


def check_run(run: Run) -> None:
    """ValueError naming the first field that is not what the readers of a record rely on."""
    for name, kind in (("machine", _Machine), ("options", _Options)):
        try:
            msgspec.convert(getattr(run, name), kind)
        except msgspec.ValidationError as error:
            raise ValueError(str(error).replace("`$", f"`$.{name}")) from None
    for number, cell in enumerate(run.cells):
        check_cell(cell, f"$.cells[{number}]")


def check_cell(cell: Cell, place: str = "$.cell") -> None:
    """ValueError unless every sample has its round and its number of calls, and its visit where any has."""
    for name in ("round_of", "inner", "visit_of"):
        entries = len(getattr(cell, name))
        if entries != len(cell.samples_s) and (entries or name != "visit_of"):
            raise ValueError(
                f"Expected one entry for each of {len(cell.samples_s)} samples_s, got {entries} - "
                f"at `{place}.{name}`"
            )
