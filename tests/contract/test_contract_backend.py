"""What a backend says of itself: its name, whether it is there, what it takes."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from contract_problems import FAMILIES

import backends
from backends import registry
from backends.base import Availability, Backend


def test_names_are_unique():
    names = Counter()
    for _, importer in registry._loaders():
        loaded = importer()
        load = loaded if callable(loaded) else getattr(loaded, "load", None)
        names.update(b.name for b in (load() if load else []))
    assert names
    assert [name for name, count in names.items() if count > 1] == []
    assert set(names) <= {b.name for b in backends.all_backends()}


def test_its_module_can_be_loaded(any_backend: Backend):
    assert not isinstance(any_backend, registry.Broken), any_backend.probe().reason


def test_names_can_be_typed(any_backend: Backend):
    assert any_backend.name == any_backend.name.strip() != ""
    assert not set(any_backend.name) & set(" ,;\t\n'\"")
    assert any_backend.device in ("cpu", "cuda")
    assert backends.get(any_backend.name) is any_backend


def test_probe_tells_why_not(any_backend: Backend):
    first = any_backend.probe()
    start = time.perf_counter()
    again = any_backend.probe()
    assert time.perf_counter() - start < 0.5
    assert isinstance(first, Availability)
    assert first.ok == again.ok
    assert first.ok or len(first.reason) > 10


def test_supports_gives_a_reason(any_backend: Backend):
    reasons = [any_backend.supports(p) for problems in FAMILIES.values() for p in problems]
    assert any(reason is None for reason in reasons) or not any_backend.probe().ok
    assert all(reason is None or len(reason) > 10 for reason in reasons)


def test_standard_modes_are_offered(any_backend: Backend):
    assert {"resident", "once", "always"} <= any_backend.transfers <= {
        "resident", "once", "always", "overlap", "unified",
    }  # fmt: skip


def test_a_refused_mode_has_a_reason(any_backend: Backend):
    for problem in (p for problems in FAMILIES.values() for p in problems[:2]):
        for mode in ("resident", "once", "always", "overlap", "unified"):
            for memory in ("pageable", "pinned"):
                reason = any_backend.refuses(problem, mode, memory)
                assert reason is None or len(reason) > 10
                assert reason is not None or mode in any_backend.transfers


def test_traps_are_no_backends():
    assert not [b.name for b in backends.all_backends() if "trap" in b.name]


def test_an_unknown_name_lists_the_known():
    with pytest.raises(KeyError, match="numpy"):
        backends.get("no such backend")
