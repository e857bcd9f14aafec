"""What every backend is held to. Fixtures: `backend`, each one found (those on a GPU marked `gpu`) or, with
`problems`, each with the problems of one kind it takes or, with `op`, each everyday call it has."""

from __future__ import annotations

import pytest
from contract_problems import FAMILIES, everyday_dtypes

import backends
from backends.arithmetic import MATHS
from backends.base import Backend, Problem


def marked(backend: Backend, *values: object, name: str) -> object:
    marks = [pytest.mark.gpu] if backend.device == "cuda" else []
    return pytest.param(backend, *values, id=name, marks=marks)


def taken(backend: Backend, problems: list[Problem]) -> list[Problem]:
    return [p for p in problems if backend.supports(p) is None]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    every = backends.all_backends()
    if "any_backend" in metafunc.fixturenames:
        metafunc.parametrize("any_backend", every, ids=[b.name for b in every])
    elif "problems" in metafunc.fixturenames:
        pairs = ((b, name, taken(b, problems)) for b in every for name, problems in FAMILIES.items())
        params = [marked(b, problems, name=f"{b.name}-{name}") for b, name, problems in pairs if problems]
        metafunc.parametrize(("backend", "problems"), params)
    elif "op" in metafunc.fixturenames:
        calls = [(b, op) for b in every for op in ("gemm", "gemv") if everyday_dtypes(b, op)]
        metafunc.parametrize(("backend", "op"), [marked(b, op, name=f"{b.name}-{op}") for b, op in calls])
    elif "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", [marked(b, name=b.name) for b in every])


@pytest.fixture
def usable(backend: Backend) -> Backend:
    """The backend, or a skip with its own reason."""
    there = backend.probe()
    if not there.ok:
        pytest.skip(f"{backend.name} cannot be used here: {there.reason}")
    return backend


@pytest.fixture
def example(usable: Backend) -> Problem:
    """A problem of middling size that the backend takes, the first of gemm, gemv, vector_add, copy."""
    ops = [{"op": "gemm", "m": 96, "n": 80, "k": 72}, {"op": "gemv", "m": 96, "n": 80}]
    ops += [{**ops[-1], "trans_a": True}]
    ops += [{"op": op, "n": 1000} for op in ("vector_add", "copy")]
    storage = [(dtype, math.name) for math in MATHS.values() for dtype in math.storage if dtype != "bfloat16"]
    every = [Problem(**op, dtype=d, math=m) for op in ops for d, m in storage]  # type: ignore[arg-type]
    return next(p for p in every if usable.supports(p) is None)
