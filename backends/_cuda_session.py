"""A problem on a CUDA device: buffers, copies, one stream. What it runs is bound by the backend."""

from __future__ import annotations

import os
import statistics
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from ._cuda_driver import OUT_OF_MEMORY, CudaError, Device
from ._cuda_graph import Replay
from .base import Problem, Session, SessionInfo, Unavailable
from .operands import Operands

FORKED = (
    "CUDA was used in this process's parent before fork(), and a forked child cannot use it: "
    "start workers with multiprocessing.get_context('spawn')"
)


class Bound(NamedTuple):
    """What a backend puts into a session. Each call returns an error code, 0 or None for success."""

    run: Callable[[], Any]
    empty: Callable[[], Any]
    explain: Callable[[int], Exception]
    """The error that a code of `run` or `empty` stands for."""
    release: Callable[[], None] = lambda: None
    keep: Any = None


class Buffers:
    """Device memory and the stream of one session. Unavailable when the card has too little, nothing kept."""

    def __init__(self, device: Device, sizes: tuple[int, ...]) -> None:
        self.device, self.addresses = device, []
        start = time.perf_counter()
        try:
            for size in sizes:
                self.addresses.append(_alloc(device, size) if size else 0)
            self.stream = device.driver.stream()
        except CudaError as error:
            self.free()
            raise _too_large(error, sum(sizes), device.driver.free_memory()) from error
        self.alloc_s = time.perf_counter() - start

    def free(self) -> None:
        """Give every byte back."""
        while self.addresses:
            address = self.addresses.pop()
            if address:
                self.device.driver.free(address)


def allocate(device: Device, size: int) -> int:
    """Address of `size` bytes outside a session's buffers; Unavailable when the card has too little."""
    try:
        return _alloc(device, size)
    except CudaError as error:
        raise _too_large(error, size, device.driver.free_memory()) from error


def _alloc(device: Device, size: int) -> int:
    try:
        return device.driver.alloc(size)
    except CudaError as error:
        if error.code != OUT_OF_MEMORY or not _empty_cupy_pool():
            raise
        return device.driver.alloc(size)


def _empty_cupy_pool() -> bool:
    """Free what CuPy's pool keeps without using it; False when CuPy has no say here."""
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return False
    try:
        cupy.get_default_memory_pool().free_all_blocks()
    except Exception:  # an unusable CuPy has nothing to give back
        return False
    return True


def _too_large(error: CudaError, wanted: int, free: int) -> Exception:
    if error.code != OUT_OF_MEMORY:
        return error
    return Unavailable(f"{wanted} bytes of device memory are needed, {free} are free")


def _nothing() -> None:
    return None


class CudaSession(Session):
    """Uploads, runs and downloads on one stream; pinned or pageable is what the host arrays are."""

    def __init__(
        self,
        problem: Problem,
        operands: Operands,
        info: SessionInfo,
        device: Device,
        bind: Callable[[CudaSession], Bound],
    ) -> None:
        super().__init__(problem, operands, info)
        self.device, self._closed = device, False
        self._replay: Replay | None = None
        device.activate()
        arrays = [operands.a, operands.b, operands.c]
        for array in arrays:
            if array is not None and not array.flags.c_contiguous:
                raise ValueError("device sessions take C-contiguous host arrays")
        self.buffers = Buffers(device, tuple(0 if x is None else x.nbytes for x in arrays))
        info.alloc_s = self.buffers.alloc_s
        try:
            self._prepare_copies()
            self._bound = bind(self)
        except BaseException:
            self._free()
            raise
        self._run, self._empty = self._bound.run, self._bound.empty
        _live.add(self)

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Device addresses of A, B and C; 0 where an operand is absent or empty."""
        a, b, c = self.buffers.addresses
        return a, b, c

    @property
    def stream(self) -> int:
        """The stream everything of this session is put into."""
        return self.buffers.stream

    def _prepare_copies(self) -> None:
        driver, stream = self.device.driver, self.stream
        inputs = [self.operands.a, self.operands.b, self.operands.c if self.problem.beta != 0 else None]
        self._uploads = tuple(
            driver.copy_in(address, array.ctypes.data, array.nbytes, stream)
            for address, array in zip(self.addresses, inputs, strict=True)
            if array is not None and array.nbytes
        )
        c = self.operands.c
        self._download = (
            driver.copy_out(c.ctypes.data, self.addresses[2], c.nbytes, stream) if c.nbytes else _nothing
        )
        self._synchronize = driver.synchronize(stream)

    def upload(self) -> None:
        for copy in self._uploads:
            if code := copy():
                self.device.driver.check("copy to the device", code)

    def run(self) -> None:
        if code := self._run():
            raise self._bound.explain(code)

    def run_empty(self) -> None:
        if code := self._empty():
            raise self._bound.explain(code)

    def download(self) -> None:
        if code := self._download():
            self.device.driver.check("copy from the device", code)

    def synchronize(self) -> None:
        if code := self._synchronize():
            self.device.driver.check("work on the device", code)

    def activate(self) -> None:
        if self not in _live:
            raise Unavailable(FORKED if not self._closed else "this session is closed")
        self.device.activate()

    def run_on_device(self, calls: int) -> float:
        if self._replay is None:
            self._replay = Replay(self.device.driver, self.stream, self._run, self._bound.explain)
        seconds = self._replay.seconds(calls)
        self.info.config["queued_by"] = self._replay.queued or "graph"
        return seconds

    def parts(self) -> dict[str, float]:
        """Median of five: h2d, kernel and d2h by device events, launch in host time; seconds."""
        driver = self.device.driver
        events = [driver.event() for _ in range(4)]
        try:
            samples = [self._parts_once(events) for _ in range(6)][1:]
        finally:
            for event in events:
                driver.call("cuEventDestroy_v2", event)
        return {name: statistics.median(s[name] for s in samples) for name in samples[0]}

    def _parts_once(self, events: list[int]) -> dict[str, float]:
        driver = self.device.driver

        def mark(i: int) -> None:
            driver.call("cuEventRecord", events[i], self.stream)

        mark(0)
        self.upload()
        mark(1)
        start = time.perf_counter()
        self.run()
        launch_s = time.perf_counter() - start
        mark(2)
        self.download()
        mark(3)
        h2d, kernel, d2h = (driver.elapsed_s(events[i], events[i + 1]) for i in range(3))
        return {"h2d": h2d, "launch": launch_s, "kernel": kernel, "d2h": d2h}

    def close(self) -> None:
        """Wait, then free buffers, stream and what the backend holds. Harmless when repeated or forked."""
        if self._closed or self not in _live:
            return
        self._closed = True
        _live.discard(self)
        self.device.activate()
        try:
            self.synchronize()
        finally:
            if self._replay is not None:
                self._replay.close()
            self._bound.release()
            self._free()

    def _free(self) -> None:
        self.buffers.free()
        self.device.driver.call("cuStreamDestroy_v2", self.stream)


_live: weakref.WeakSet[CudaSession] = weakref.WeakSet()


def _forked() -> Any:
    raise Unavailable(FORKED)


def _disarm() -> None:
    """In a forked child: every call of an inherited session says why it cannot work."""
    for session in list(_live):
        session._uploads = (_forked,)
        session._run = session._empty = session._download = session._synchronize = _forked
    _live.clear()


os.register_at_fork(after_in_child=_disarm)
