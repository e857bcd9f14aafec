"""What starting a kernel costs on a real GPU, what graphs make of it, and that the peaks are peaks."""

from __future__ import annotations

import numpy as np
import pytest

import backends
from backends import Problem, _cuda_driver, cublas
from backends._cuda_peaks import BYTES, Peaks, offered
from suite import ladder_cuda_launch

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

LAUNCH_S, NODE_S = 5e-6, 1e-6
"""The most that a launch from Python, and a node of a graph, may take."""


@pytest.fixture(scope="module")
def cost():
    """The best of three: other work of the machine is no cost of ours."""
    found = [ladder_cuda_launch.measure() for _ in range(3)]
    return min(found, key=lambda c: c.launch_s), min(found, key=lambda c: c.node_s)


def test_a_launch_from_python_is_cheap(cost):
    assert cost[0].launch_s <= LAUNCH_S, cost


def test_a_node_of_a_graph_is_cheaper(cost):
    assert cost[1].queued_by == "graph" and cost[1].node_s <= NODE_S, cost


@pytest.mark.parametrize("name", ["cublas", "cuda:02_shared_tile"])
def test_runs_of_a_graph_add_up(name):
    p = Problem(m=33, n=17, k=9, beta=1.0)
    operands = backends.allocate(p)
    backends.fill_random(operands, 1)
    operands.c.fill(0.0)
    session = backends.get(name).open(p, operands)
    session.activate()
    session.upload()
    assert session.run_on_device(300) > 0
    session.download()
    session.synchronize()
    want = 300 * (operands.a.astype(np.float64) @ operands.b)
    assert session.info.config["queued_by"] == "graph"
    session.close()
    assert np.abs(operands.c - want).max() < 1e-2, "a run more or less would be 30 times that"


@pytest.fixture(scope="module")
def peaks():
    found = Peaks(_cuda_driver.device(0))
    yield found
    found.close()


@pytest.mark.parametrize("kind", ["fp32", "fp64", "tf32", "fp16", "bf16", BYTES])
def test_a_peak_can_be_measured_and_repeats(kind, peaks):
    if not offered(kind, _cuda_driver.device(0).compute):
        pytest.skip(f"no GPU instruction for {kind} here")
    first, second = (peaks.rate(kind, 0.01) for _ in range(2))
    assert first.instruction and second.per_s == pytest.approx(first.per_s, rel=0.1)


@pytest.mark.parametrize(("dtype", "math"), list(cublas.COMPUTE))
def test_no_library_is_faster_than_the_peak(dtype, math, peaks):
    p = Problem(m=2048, n=2048, k=2048, dtype=dtype, math=math)
    operands = backends.allocate(p)
    backends.fill_random(operands, 1)
    session = backends.get("cublas").open(p, operands)
    session.activate()
    session.upload()
    session.run_on_device(10)
    rate = p.flops * 20 / session.run_on_device(20)
    session.close()
    assert rate <= 1.05 * peaks.rate(math, 0.01).per_s
