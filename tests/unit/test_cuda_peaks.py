"""The peak kernels: their headers, what is offered where, and rates by a scripted driver."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from backends import _cuda_compile as compiling
from backends import _cuda_peaks as peaks
from backends._cuda_driver import OUT_OF_MEMORY, CudaError, Device
from backends.arithmetic import MATHS

KINDS = [(f, kind) for f in peaks.files() for kind in f.header.instructions]


def test_every_arithmetic_of_hopper_has_a_peak_and_memory_too():
    for kind in ("fp32", "fp64", "tf32", "fp16", "bf16", peaks.BYTES):
        assert peaks.offered(kind, (9, 0)), kind
    assert {kind for _, kind in KINDS} <= {*MATHS, peaks.BYTES}


def test_an_instruction_stands_only_where_the_hardware_has_it():
    names = {sm: {f.path.stem for f in peaks.offered("fp16", sm)} for sm in ((7, 5), (8, 0), (9, 0), (10, 0))}
    assert names == {
        (7, 5): set(),
        (8, 0): {"mma_sync"},
        (9, 0): {"mma_sync", "wgmma"},
        (10, 0): {"mma_sync"},
    }


@pytest.mark.parametrize("kind", ["fp64", "fp32", "tf32", "fp16", "bf16", peaks.BYTES])
def test_numbers_are_random_finite_and_as_many_bytes_as_asked_for(kind):
    values = peaks.numbers(kind, 4096)
    assert values.nbytes == 4096 and len(np.unique(values)) > 100
    as_float = (values.astype(np.uint32) << 16).view(np.float32) if kind == "bf16" else values
    assert np.isfinite(as_float).all() and np.abs(as_float).max() <= 1
    assert as_float.flat[0] == pytest.approx(0.999, abs=0.01)


class Scripted:
    """A driver on which every launch takes as long as it is told, by the number of passes."""

    def __init__(self, launch_s):
        self.launch_s, self.passes, self.queue, self.marks, self.freed = launch_s, None, 0.0, {}, []
        self.room, self.taken = 1 << 40, []

    def set_context(self, context):
        pass

    def function(self, cubin, entry):
        return entry

    def stream(self):
        return 1

    def event(self):
        return len(self.marks) + 10

    def alloc(self, size):
        if size > self.room:
            raise CudaError("cuMemAlloc_v2", OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory")
        self.room -= size
        self.taken.append(size)
        return 1 << 20

    def free(self, address):
        self.freed.append(address)
        self.room += self.taken.pop()

    def free_memory(self):
        return self.room

    def copy_in(self, *_):
        return lambda: 0

    synchronize = copy_in

    def check(self, call, code):
        assert not code

    def blocks_per_multiprocessor(self, *_):
        return 2

    def launch(self, function, grid, block, shared, stream, arguments):
        def run():
            self.queue += self.launch_s(function, self.passes)
            return 0

        return run

    def call(self, name, *arguments):
        if name == "cuEventRecord":
            self.marks[len(self.marks)] = self.queue

    def elapsed_s(self, before, after):
        ends = list(self.marks.values())[-2:]
        return ends[1] - ends[0]


@pytest.fixture
def compiled(monkeypatch):
    monkeypatch.setattr(compiling, "compile_path", lambda *_: (b"cubin", ""))


def device(launch_s):
    return Device(Scripted(launch_s), 0, 0, "scripted", (9, 0), 132)


def test_the_fastest_instruction_counts_and_is_named(compiled):
    seconds = {"mma_peak": 2.0, "wgmma_peak": 1.0}
    found = peaks.Peaks(device(lambda entry, _: seconds[entry]))
    rate = found.rate("fp16", 1e-3)
    h = next(f.header for f in peaks.files() if f.path.stem == "wgmma")
    assert rate.instruction == "wgmma m64n256k16"
    assert rate.per_s > 0 and h.flops * h.threads * 2 * 132 > 0
    assert [p.file.path.stem for p in found._ready["fp16"]] == ["wgmma"]
    assert len(found.device.driver.freed) == 2, "the slower one is freed"
    found.close()
    assert len(found.device.driver.freed) == 4


def test_no_memory_for_a_peak_is_a_reason_and_leaves_nothing_behind(compiled):
    found = peaks.Peaks(device(lambda *_: 1.0))
    found.device.driver.room = peaks.COPIED + 1  # for one of two
    assert found.rate(peaks.BYTES, 1e-3) == peaks.Rate(0.0, "")
    assert found.device.driver.taken == []
    (reason,) = found.absent.values()
    assert reason == f"{2 * peaks.COPIED} bytes of device memory are needed, {peaks.COPIED + 1} are free"


def test_what_cupys_pool_keeps_makes_room_for_a_peak(compiled, monkeypatch):
    one = device(lambda *_: 1.0)
    pool = SimpleNamespace(free_all_blocks=lambda: setattr(one.driver, "room", 1 << 40))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(get_default_memory_pool=lambda: pool))
    one.driver.room = 0
    assert peaks.Peaks(one).rate(peaks.BYTES, 1e-3).per_s > 0


def test_a_peak_that_cannot_be_filled_leaves_nothing_behind(compiled, monkeypatch):
    one = device(lambda *_: 1.0)
    monkeypatch.setattr(one.driver, "copy_in", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        peaks.Peaks(one).rate(peaks.BYTES, 1e-3)
    assert one.driver.taken == []


def test_bytes_are_read_and_written(compiled):
    found = peaks.Peaks(device(lambda entry, _: 1e-4))
    assert found.rate(peaks.BYTES, 1e-3).per_s == pytest.approx(2 * peaks.COPIED / 1e-4)


def test_what_no_instruction_offers_is_0(compiled):
    old = device(lambda *_: 1.0)._replace(compute=(7, 0))
    assert peaks.Peaks(old).rate("tf32", 1e-3) == peaks.Rate(0.0, "")
