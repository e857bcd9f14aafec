"""Driver calls beside a session's plain ones, on the stand-in, which checks them as the real one does."""

import ctypes

import numpy as np
import pytest

import backends
from backends import Problem, _cuda_driver
from backends._cuda_driver import CONCURRENT_MANAGED_ACCESS, HOST, PREFERRED_LOCATION, CudaError
from backends.operands import allocate, fill_random
from tests.cuda_on_cpu import device as stand_in

pytestmark = pytest.mark.skipif(bool(stand_in.missing()), reason=stand_in.missing() or "compilers are here")


@pytest.fixture
def driver():
    with stand_in.device():
        before = stand_in.held()
        device = _cuda_driver.device(0)
        device.activate()
        yield device.driver
        assert stand_in.held() == before, "device memory, streams or events were not freed"


@pytest.fixture
def stream(driver):
    made = driver.stream()
    yield made
    driver.call("cuStreamDestroy_v2", made)


def bytes_at(address, size):
    return np.ctypeslib.as_array((ctypes.c_ubyte * size).from_address(address))


def test_a_stream_destroyed_is_no_stream_and_no_two_are_the_same(driver, stream):
    other = driver.stream()
    assert len({stream, other, 0, 1, 2}) == 5
    driver.call("cuStreamDestroy_v2", other)
    assert driver.synchronize(other)() != 0
    assert driver.synchronize(stream)() == 0
    again = driver.stream()
    assert again != other
    driver.call("cuStreamDestroy_v2", again)


def test_a_stream_waits_for_an_event_of_another(driver, stream):
    event, other = driver.event(timing=False), driver.stream()
    assert driver.record(event, stream)() == 0
    assert driver.wait_event(other, event)() == 0
    driver.call("cuStreamDestroy_v2", other)
    assert driver.wait_event(other, event)() != 0
    driver.call("cuEventDestroy_v2", event)


@pytest.mark.parametrize(
    ("rows", "width", "pitch_in", "pitch_out"), [(7, 12, 40, 12), (1, 5, 5, 64), (3, 8, 8, 8)]
)
def test_pieces_are_copied_there_and_back(driver, stream, rows, width, pitch_in, pitch_out):
    host = np.random.default_rng(1).integers(0, 256, (rows, pitch_in), np.uint8)
    back = np.zeros_like(host)
    device = driver.alloc((rows - 1) * pitch_out + width)
    assert driver.copy_2d_in(device, pitch_out, host.ctypes.data, pitch_in, width, rows, stream)() == 0
    assert driver.copy_2d_out(back.ctypes.data, pitch_in, device, pitch_out, width, rows, stream)() == 0
    np.testing.assert_array_equal(back[:, :width], host[:, :width])
    assert not back[:, width:].any()
    too_many = driver.copy_2d_in(device, pitch_out, host.ctypes.data, pitch_in, width, rows + 1, stream)
    assert too_many() != 0
    driver.free(device)
    assert driver.copy_2d_out(back.ctypes.data, pitch_in, device, pitch_out, width, rows, stream)() != 0


def test_a_pitch_below_the_width_is_refused(driver, stream):
    device, host = driver.alloc(64), np.zeros(64, np.uint8)
    assert driver.copy_2d_in(device, 4, host.ctypes.data, 8, 8, 2, stream)() != 0
    driver.free(device)


def test_pinned_memory_is_the_hosts_and_is_given_back(driver, stream):
    before = stand_in.held()
    free = driver.free_memory()
    address = driver.alloc_pinned(100)
    bytes_at(address, 100)[:] = 7
    device = driver.alloc(100)
    assert driver.copy_in(device, address, 100, stream)() == 0
    assert driver.copy_in(address, device, 100, stream)() != 0, "pinned memory is not the device's"
    assert driver.free_memory() == free - 100
    with pytest.raises(CudaError):
        driver.free(address)
    with pytest.raises(CudaError):
        driver.free_pinned(device)
    driver.free_pinned(address)
    driver.free(device)
    assert stand_in.held() == before


def test_managed_memory_is_both_sides_and_prefetches_are_counted(driver, stream):
    assert driver.attribute(CONCURRENT_MANAGED_ACCESS, 0) == 1
    address = driver.alloc_managed(1000)
    bytes_at(address, 1000)[:] = 3
    assert driver.zero(address, 500, stream)() == 0
    assert bytes_at(address, 1000).sum() == 1500
    driver.advise(address, 1000, PREFERRED_LOCATION, HOST)
    for to in (HOST, HOST, 0):
        assert driver.prefetch(address, 1000, to, stream)() == 0
    assert (stand_in.prefetches(HOST), stand_in.prefetches(0)) == (2, 1)
    assert driver.prefetch(address, 1001, 0, stream)() != 0
    assert driver.prefetch(address, 1000, 3, stream)() != 0
    driver.free(address)
    assert driver.prefetch(address, 1000, 0, stream)() != 0
    with pytest.raises(CudaError):
        driver.advise(address, 1000, PREFERRED_LOCATION, HOST)


def test_a_device_without_concurrent_access_says_so(driver, monkeypatch):
    monkeypatch.setenv("FAKE_NO_CONCURRENT_ACCESS", "1")
    assert driver.attribute(CONCURRENT_MANAGED_ACCESS, 0) == 0


def test_from_a_given_call_on_the_device_is_lost_for_every_one(monkeypatch):
    with stand_in.device():
        device = _cuda_driver.device(0)
        driver, made = device.driver, stand_in.calls()
        assert made > 3
        monkeypatch.setenv("FAKE_LOST_AFTER", str(made + 3))
        device.activate()
        driver.free_memory()
        for call in (driver.free_memory, device.activate, driver.stream, lambda: driver.alloc(8)):
            with pytest.raises(CudaError, match="CUDA_ERROR_LAUNCH_FAILED") as raised:
                call()
            assert raised.value.code == 719
        assert stand_in.calls() == made + 6
    monkeypatch.delenv("FAKE_LOST_AFTER")
    with stand_in.device():
        assert stand_in.calls() == 0
        _cuda_driver.device(0).activate()


def test_a_session_says_that_it_was_lost(monkeypatch):
    problem = Problem(m=5, n=6, k=7)
    with stand_in.device():
        operands = allocate(problem)
        fill_random(operands, 1)
        session = backends.get("cuda:01_naive").open(problem, operands)
        session.enqueue("once")
        monkeypatch.setenv("FAKE_LOST_AFTER", "1")
        for mode in ("resident", "once", "always"):
            with pytest.raises(Exception, match="719"):
                session.enqueue(mode)
        monkeypatch.delenv("FAKE_LOST_AFTER")
        session.close()
