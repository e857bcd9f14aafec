"""Cases from public bug reports, run on every CPU backend that takes views of any strides."""

from __future__ import annotations

import pytest

import backends


@pytest.fixture(params=["native", "numpy"])
def backend(request) -> backends.Backend:
    found = backends.get(request.param)
    if not found.probe().ok:
        pytest.skip(f"{found.name} cannot be used here: {found.probe().reason}")
    return found


@pytest.fixture
def gemm(backend):
    return backend.gemm


@pytest.fixture
def gemv(backend):
    return backend.gemv


@pytest.fixture(params=["float32", "float64"])
def dtype(request) -> str:
    return request.param
