"""Which kernels have been verified on real hardware, as recorded in cuda/verified.json.

    {"schema": 1, "kernels": {"cuda:01_naive": {"source_hash": "...", "status": "verified", "gpu": "...",
     "tests": {...}}}}

A record counts only for the source it was made from: edit the code and the kernel is unverified again.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Literal

import msgspec

from . import _cuda_source as source

SCHEMA = 1


class Entry(msgspec.Struct, frozen=True):
    """What is known of one kernel variant; fields beyond these belong to whoever writes the file."""

    source_hash: str
    status: Literal["verified", "unverified"]
    gpu: str | None = None
    tests: dict[str, Any] = {}


class Verified(msgspec.Struct, frozen=True):
    """The whole file."""

    schema: int = SCHEMA
    kernels: dict[str, Entry] = {}


def path() -> Path:
    """Where the record is kept."""
    return source.root() / "verified.json"


def source_hash(kernel: source.Kernel) -> str:
    """Hash of a kernel's code, headers and defines: see `_cuda_source.source_hash`."""
    return source.source_hash(kernel)


@functools.cache
def load() -> Verified:
    """The record; an absent file is an empty one. ValueError if it is of another schema or damaged."""
    if not path().is_file():
        return Verified()
    record = msgspec.json.decode(path().read_bytes(), type=Verified)
    if record.schema != SCHEMA:
        raise ValueError(f"{path().name} has schema {record.schema}: this version reads {SCHEMA}")
    return record


def is_verified(kernel: source.Kernel) -> bool:
    """True if this very source passed on hardware."""
    entry = load().kernels.get(kernel.name)
    return entry is not None and entry.status == "verified" and entry.source_hash == source_hash(kernel)
