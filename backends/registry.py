"""Finds every backend: this folder's modules, then entry points; keeps the reason an absent one is absent."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

from .base import Availability, Backend, Problem, Unavailable

GROUP = "gemm_crossover.backends"


class Broken(Backend):
    """Stands in for a module that could not even be imported, so that its reason is shown, not lost."""

    device = "cpu"

    def __init__(self, name: str, error: BaseException) -> None:
        self.name, self.error = name, error

    def probe(self) -> Availability:
        return Availability(ok=False, reason=f"{type(self.error).__name__}: {self.error}")

    def supports(self, problem: Problem) -> str | None:
        return self.probe().reason

    def open(self, problem, operands, **_):  # type: ignore[no-untyped-def]
        raise Unavailable(self.probe().reason)


def _loaders() -> Iterator[tuple[str, Callable[[], Any]]]:
    package = importlib.import_module(__package__)
    for module in (m for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")):
        yield module.name, functools.partial(importlib.import_module, f"{__package__}.{module.name}")
    for entry in importlib.metadata.entry_points(group=GROUP):
        yield entry.name, entry.load


@functools.cache
def _found() -> dict[str, Backend]:
    found: dict[str, Backend] = {}
    for name, importer in _loaders():
        try:
            loaded = importer()
            load = loaded if callable(loaded) else getattr(loaded, "load", None)
            backends = load() if load else []
        except Exception as error:
            backends = [Broken(name, error)]
        found.update((backend.name, backend) for backend in backends)
    return found


def _made(name: str) -> Backend | None:
    """What a module with a function `by_name` makes of a name that nothing lists; else None."""
    for _, importer in _loaders():
        try:
            make = getattr(importer(), "by_name", None)
        except Exception:  # `_found` keeps the reason
            continue
        made = make(name) if make else None
        if made is not None:
            return made
    return None


def all_backends() -> list[Backend]:
    """Every backend known, usable or not, in a stable order: CPU first, then by name."""
    return sorted(_found().values(), key=lambda b: (b.device != "cpu", b.name))


def get(name: str) -> Backend:
    """The backend of that name, listed or made (`cblas:/path/lib.so`). KeyError lists the known names.

    ValueError where the name has the form of one that is made, and what it names is not there.
    """
    found = _found().get(name) or _made(name)
    if found is None:
        raise KeyError(f"no backend {name!r}: known are {', '.join(sorted(_found()))}")
    return found


def usable(problem: Problem | None = None, device: str | None = None) -> list[Backend]:
    """Backends that can run here (and compute `problem`), each library once; no unverified and null ones."""
    return [
        b
        for b in all_backends()
        if b.verified
        and b.name != "null"
        and not b.stands_beside
        and (device is None or b.device == device)
        and b.probe().ok
        and (problem is None or b.supports(problem) is None)
    ]
