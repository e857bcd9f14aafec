"""Takes the results of a hardware run over into a checkout: what it verified, and the GPU's ladder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from backends import _cuda_source, _cuda_verified

from . import profiles
from .exits import Stop
from .journal import atomic_write, load_run
from .ladder_cuda import RECORDS


def differences(kernels: dict[str, Any]) -> list[str]:
    """What keeps these entries from fitting the sources here, one sentence each."""
    here = {k.name: k for k in _cuda_source.all_kernels().values() if isinstance(k, _cuda_source.Kernel)}
    found = [f"{name} is not a kernel here" for name in kernels if name not in here]
    found += [f"{name} was not part of that run" for name in here if name not in kernels]
    for name in here.keys() & kernels.keys():
        now, then = _cuda_source.source_hash(here[name]), kernels[name].get("source_hash")
        if now != then:
            found.append(f"{name} has the source hash {now} here and had {then} in that run")
    return sorted(found)


def install_ladder(folder: Path, records: Path | None = None) -> str:
    """Ship the GPU's climb of a hardware run, for machines without a GPU and for the tables of the documents.

    The text says what was taken over; empty where that run has none.
    """
    source = folder / "ladder-cuda.json"
    if not source.is_file():
        return ""
    run = load_run(source)
    gpu = (run.machine.get("gpus") or [{}])[0].get("name", "gpu")
    cells = tuple(msgspec.structs.replace(cell, provenance="recorded") for cell in run.cells)
    target = (records or RECORDS) / f"{slug(gpu)}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(target, profiles.encode(msgspec.structs.replace(run, cells=cells)))
    return f"the climb of an {gpu}, {len(cells)} cells, written to suite/profiles/ladders/{target.name}"


def slug(gpu: str) -> str:
    """`NVIDIA H200` -> `h200`."""
    words = re.findall(r"[a-z0-9]+", gpu.lower().replace("nvidia", ""))
    return "-".join(words) or "gpu"


def install(folder: Path, target: Path | None = None) -> str:
    """Copy after checking that it belongs to the sources as they are; the text says what was taken over.

    Stop names every kernel that differs, and changes nothing.
    """
    source = folder / "verified.json"
    if not source.is_file():
        raise Stop(f"{folder.name} holds no verified.json: run verify --out {folder.name} on a GPU machine")
    content = source.read_bytes()
    try:
        record = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Stop(f"verified.json cannot be read: {error}") from error
    if record.get("schema") != _cuda_verified.SCHEMA:
        raise Stop(
            f"verified.json has schema {record.get('schema')}, this version reads {_cuda_verified.SCHEMA}"
        )
    kernels = record.get("kernels", {})
    if wrong := differences(kernels):
        raise Stop(f"that run does not fit the sources here: {'; '.join(wrong)}")
    atomic_write(target or _cuda_verified.path(), content)
    count = sum(entry.get("status") == "verified" for entry in kernels.values())
    return f"{count} of {len(kernels)} kernels verified; written to cuda/verified.json"
