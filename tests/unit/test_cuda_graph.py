"""Graphs on the stand-in: what is captured, replayed, kept and freed, and runs without them."""

from __future__ import annotations

import numpy as np
import pytest

import backends
from backends import Problem, _cuda_graph
from backends._cuda_driver import CudaError
from tests.cuda_on_cpu import device as stand_in

pytestmark = pytest.mark.skipif(bool(stand_in.missing()), reason=stand_in.missing() or "compilers are here")


@pytest.fixture
def session():
    with stand_in.device():
        p = Problem(m=5, n=4, k=3, beta=1.0)
        operands = backends.allocate(p)
        backends.fill_random(operands, 1)
        operands.c.fill(0.0)
        held = stand_in.held()
        opened = backends.get("cuda:01_naive").open(p, operands)
        opened.activate()
        opened.upload()
        yield opened
        opened.close()
        assert stand_in.held() == held, "graphs, events or memory were not freed"


def runs_made(session):
    """C was 0, and every run adds A B: how many there were."""
    session.download()
    session.synchronize()
    a, b, c = session.operands
    return round(float(np.median(c / (a @ b))))


@pytest.mark.parametrize("count", [1, 5, _cuda_graph.NODES, 2 * _cuda_graph.NODES + 3])
def test_as_many_runs_as_asked_for(session, count):
    assert session.run_on_device(count) > 0
    assert runs_made(session) == count
    assert session.info.config["queued_by"] == "graph"


def test_a_graph_is_made_once_and_few_are_kept(session):
    for count in (3, 3, 3):
        session.run_on_device(count)
    assert list(session._replay._graphs) == [3]
    for count in range(1, 30):
        session.run_on_device(count)
    assert len(session._replay._graphs) == _cuda_graph.KEPT
    assert runs_made(session) == 9 + sum(range(1, 30))


def test_the_graph_of_many_runs_outlives_all_that_start_beside_it(session):
    nodes = _cuda_graph.NODES
    for count in range(nodes, nodes + 2 * _cuda_graph.KEPT):
        session.run_on_device(count)
    assert nodes in session._replay._graphs
    assert runs_made(session) == sum(range(nodes, nodes + 2 * _cuda_graph.KEPT))


def test_runs_are_queued_where_no_graph_can_be_made(session, monkeypatch):
    monkeypatch.setenv("FAKE_NO_GRAPHS", "1")
    session.run_on_device(7)
    assert runs_made(session) == 7
    assert "901" in session.info.config["queued_by"]


class LibraryError(RuntimeError):
    """As `CublasError`: no error of CUDA."""


def failing():
    raise LibraryError("status 15")


def test_a_run_that_fails_leaves_the_stream_usable(session):
    with pytest.raises(LibraryError, match="status 15"):
        _cuda_graph.capture(session.device.driver, session.stream, failing)
    session.run()
    assert runs_made(session) == 1


def test_a_capture_that_was_invalidated_tells_what_did_it(session, monkeypatch):
    monkeypatch.setenv("FAKE_NO_GRAPHS", "1")
    with pytest.raises(LibraryError, match="status 15"):
        _cuda_graph.capture(session.device.driver, session.stream, failing)


def test_a_backend_whose_library_cannot_be_captured_has_no_graph_and_says_why(session, monkeypatch):
    driver, run = session.device.driver, session._run
    capturing = []
    begin, end = driver.begin_capture, driver.end_capture
    monkeypatch.setattr(driver, "begin_capture", lambda stream: (capturing.append(1), begin(stream)))
    monkeypatch.setattr(driver, "end_capture", lambda stream: (capturing.clear(), end(stream))[1])
    session._run = lambda: failing() if capturing else run()
    assert session.run_on_device(3) > 0
    assert runs_made(session) == 3
    assert session.info.config["queued_by"] == "LibraryError: status 15"


def test_a_run_that_is_wrong_by_itself_raises_what_its_backend_says(session):
    session._run = lambda: 7
    with pytest.raises(CudaError, match=r"launch of cuda:01_naive: .*\(7\)"):
        session.run_on_device(3)


def test_an_error_of_a_graph_is_cudas_not_the_backends(session):
    session.run_on_device(3)
    executable, _ = session._replay._graphs[3]
    session._replay._graphs[3] = executable, lambda: 700
    session._bound = session._bound._replace(explain=lambda code: LibraryError(code))
    with pytest.raises(CudaError, match=r"launch of a graph: .*\(700\)"):
        session.run_on_device(3)


def test_backends_without_a_clock_of_their_own_say_so():
    session = backends.get("numpy").open(p := Problem(m=2, n=2, k=2), backends.allocate(p))
    assert session.run_on_device(3) is None
