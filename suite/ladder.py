"""What a teaching ladder is: rungs that each change one thing, on a device that one module provides.

A device has a ladder when there is a `suite/ladder_<device>.py` with a function `provider()` that returns a
`Provider`; measuring, tables, plots and exports are shared.
"""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from typing import Any

import msgspec

from backends.base import Backend

EXPERIMENT = "ladder"

DEVICES = ("cpu", "cuda")
"""What a ladder may be for; `devices` says for which there is one."""


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a ladder. `beside`: a variant shown after its rung, from which no gain is counted.

    threads: of the CPU; None: as many as the run was given.
    """

    name: str
    title: str
    idea: str
    changes: str
    look_at: str
    backend: Backend
    threads: int | None = None
    beside: bool = False

    def facts(self) -> dict[str, Any]:
        """What the record keeps of it: the texts, without the backend."""
        return {n: getattr(self, n) for n in ("name", "title", "idea", "changes", "look_at", "beside")}


class Provider(ABC):
    """The rungs of one device, and the roof they are measured against.

    The `config` of a session may hold `flop_per_byte`, the arithmetic intensity of the model by level of the
    memory hierarchy. `levels` are those levels, `columns` further entries of `config`, that tables show: as
    (heading, key) pairs.
    """

    device: str
    levels: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, str], ...] = ()

    @abstractmethod
    def unavailable(self) -> str:
        """Why this ladder cannot be climbed here, and the cure; empty when it can."""

    @abstractmethod
    def rungs(self) -> list[Rung]:
        """Every rung, the slowest idea first and the real library last."""

    @abstractmethod
    def threads(self, asked: int | None) -> int:
        """CPU threads of a rung that uses several, `asked` for or not."""

    @abstractmethod
    def roof_flop_s(self, dtype: str, threads: int, seconds: float) -> float:
        """FLOP/s that no rung can surpass, measured for `seconds` now; 0 where there is no such figure."""


def devices() -> tuple[str, ...]:
    """The devices that have a ladder."""
    return tuple(d for d in DEVICES if importlib.util.find_spec(f"{__package__}.ladder_{d}"))


def provider(device: str) -> Provider:
    """The ladder of a device in `devices()`."""
    return importlib.import_module(f"{__package__}.ladder_{device}").provider()
