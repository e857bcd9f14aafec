"""Launcher split_k: how many parts, where they meet, and that any number of them adds up."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import backends
from backends import Problem, Unavailable, _cuda_driver
from backends import _cuda_launch as launching
from backends import _cuda_split as splitting
from backends._cuda_driver import CudaError
from backends._cuda_source import Variant
from tests import cuda_cases as cases
from tests.cuda_on_cpu import device as stand_in

needs_compilers = pytest.mark.skipif(
    bool(stand_in.missing()), reason=stand_in.missing() or "compilers are here"
)
SHAPES = [
    (t, s, n) for t in (1, 2, 7, 64, 131, 132, 133, 500) for s in (1, 2, 3, 50, 4000) for n in (132, 528)
]
SPLIT = [k for k in cases.KERNELS.values() if k.header.launcher == "split_k" and not k.variant.name]


@pytest.fixture
def device():
    with stand_in.device():
        before = stand_in.held()
        yield _cuda_driver.device(0)
        gc.collect()
        assert stand_in.held() == before, "a workspace was not freed"


@pytest.mark.parametrize(("tiles", "steps", "slots"), SHAPES)
def test_no_part_is_empty_and_no_smaller_number_is_as_good(tiles, steps, slots):
    splits = splitting.best(tiles, steps, slots)
    assert 1 <= splits <= steps
    price = splitting.cost(splits, tiles, steps, slots)
    assert all(splitting.cost(fewer, tiles, steps, slots) > price for fewer in range(1, splits))


def test_a_tile_for_every_slot_is_not_split_and_a_long_k_fills_the_device():
    assert splitting.best(528, 1000, 528) == 1
    assert splitting.best(1, 10_000, 264) * 1 > 132
    assert splitting.best(0, 10, 264) == splitting.best(5, 0, 264) == 1


def test_the_workspace_has_room_for_every_part_of_every_tile():
    v = Variant(threads=(128, 1), tile=(64, 32, 16))
    found = splitting.choose(v, "float64", tiles=3, k=16_000, slots=132)
    assert found.splits > 1
    assert found.sums_bytes == 3 * found.splits * 64 * 32 * 8 and found.tickets == 3 * found.splits
    assert splitting.choose(v, "float16", 3, 16_000, 132).sums_bytes == found.sums_bytes / 2
    assert splitting.choose(v, "float32", 3, 0, 132) == splitting.WHOLE


def shape(kernel, steps):
    """One tile and an edge, so many steps along K."""
    (tm, tn, tk), h = kernel.variant.tile, kernel.header
    plain = {"dtype": h.dtypes[0], "math": h.math[0]}
    if h.op == "gemv":
        return Problem(op="gemv", m=tm, n=steps * tk - 3, trans_a=h.transposes == ("t",), **plain)
    return Problem(m=tm - 1, n=tn - 1, k=steps * tk - 3, **plain)


@needs_compilers
@pytest.mark.parametrize("kernel", SPLIT, ids=lambda k: k.name)
@pytest.mark.parametrize("splits", [2, 16, 17, 32, 35])
def test_any_number_of_parts_adds_up(kernel, splits, device, monkeypatch):
    monkeypatch.setattr(splitting, "best", lambda *_: splits)
    cases.check(kernel, shape(kernel, splits + 1), cases.Layout(1, 1), seed=splits)


@needs_compilers
def test_a_session_runs_again_and_again_and_says_into_how_many_parts(device):
    p = Problem(m=9, n=7, k=3000, beta=0.0)
    operands = backends.allocate(p)
    backends.fill_random(operands, 1)
    session = backends.get("cuda:13_split_k").open(p, operands)
    assert session.info.config["splits"] > 1
    assert session.info.config["blocks"] == session.info.config["splits"]
    results = []
    for runs in (1, 3, 2):  # the tickets are zeroed once and reset by the blocks
        operands.c.fill(np.nan)
        session.enqueue("once", runs)
        results.append(operands.c.tobytes())
    session.close()
    assert len(set(results)) == 1
    np.testing.assert_allclose(operands.c, operands.a @ operands.b, rtol=1e-3, atol=1e-3)


@needs_compilers
def test_no_memory_for_the_parts_is_a_reason(device, monkeypatch):
    p = Problem(m=9, n=7, k=3000)
    operands = backends.allocate(p)
    taken = operands.a.nbytes + operands.b.nbytes + operands.c.nbytes
    monkeypatch.setenv("FAKE_GPU_BYTES", str(taken + 1000))
    with pytest.raises(Unavailable, match="bytes of device memory are needed"):
        backends.get("cuda:13_split_k").open(p, operands)


@needs_compilers
@pytest.mark.parametrize("where", ["launch", "zero"])
def test_the_memory_for_the_parts_is_given_back_where_the_launch_cannot_be_made(device, monkeypatch, where):
    def refused(*_):
        raise CudaError(where, 400, "CUDA_ERROR_INVALID_HANDLE", "no")

    held, p = stand_in.held(), Problem(m=9, n=7, k=3000)
    monkeypatch.setattr(_cuda_driver.Driver, where, refused)
    with pytest.raises(CudaError, match="400"):
        backends.get("cuda:13_split_k").open(p, backends.allocate(p))
    assert stand_in.held() == held


@needs_compilers
@pytest.mark.parametrize("name", ["cuda:14_batched", "cuda:14_batched/4", "cuda:14_batched/64"])
@pytest.mark.parametrize("batch", [1, 2, 67])
def test_batches_beside_the_number_of_products_a_block_takes(name, batch, device):
    kernel = cases.KERNELS[name]
    for m, n, k in ((4, 4, 4), (5, 3, 9), (17, 18, 1)):
        p = Problem(m=m, n=n, k=k, batch=batch, trans_b=True, beta=-2.0)
        assert launching.tiles(kernel, p) >= batch / kernel.variant.defines["PRODUCTS"]
        cases.check(kernel, p, cases.Layout(1, 3))


@needs_compilers
@pytest.mark.parametrize("name", ["cuda:21_skinny", "cuda:21_skinny/32", "cuda:21_skinny_mma"])
def test_skinny_products_of_1_to_256_columns(name, device):
    kernel = cases.KERNELS[name]
    dtype, math = kernel.header.dtypes[0], kernel.header.math[0]
    for i, n in enumerate((1, 2, 7, 8, 9, 16, 31, 33, 64, 100, 129, 256)):
        p = Problem(m=65, n=n, k=97, dtype=dtype, math=math, trans_a=i % 2 == 1, trans_b=i % 3 == 1)
        cases.check(kernel, p, cases.LAYOUTS[i % len(cases.LAYOUTS)], seed=i)
