"""What a GPU can do at most, measured: small kernels in cuda/peaks that do one thing as fast as it goes.

An arithmetic has one peak for every instruction that offers it; the fastest counts, and is named.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from ctypes import c_longlong, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from . import _cuda_compile as compiling
from . import _cuda_source as source
from ._cuda_driver import Device
from ._cuda_session import Buffers
from .base import Unavailable

BYTES = "bytes"
"""Stands for device memory among the arithmetics."""

COPIED = 1 << 28
"""Bytes that are copied: several times the largest second-level cache."""

INPUTS = 1 << 20
"""Bytes of random numbers for the other peaks."""


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The TOML block of a file. flops, bytes: of one thread in one pass. instructions: by arithmetic."""

    entry: str
    min_sm: int
    threads: int
    instructions: dict[str, str]
    max_sm: int = 1 << 30
    flops: int = 0
    bytes: int = 0


class File(NamedTuple):
    """One file of cuda/peaks."""

    path: Path
    header: Header


class Rate(NamedTuple):
    """FLOP/s or bytes/s, and by which instruction."""

    per_s: float
    instruction: str


@functools.cache
def files() -> tuple[File, ...]:
    """Every peak there is."""
    paths = sorted((source.root() / "peaks").glob("*.cu"))
    return tuple(File(path, _header(path)) for path in paths)


def _header(path: Path) -> Header:
    block = source.toml_block(path.read_text(), "peak")
    try:
        return msgspec.toml.decode(block.encode(), type=Header)
    except (msgspec.DecodeError, ValueError) as error:
        raise source.HeaderError(f"{path.name}: {error}") from error


def offered(kind: str, compute: tuple[int, int]) -> list[File]:
    """The files that measure an arithmetic (or BYTES) on a device of that compute capability."""
    sm = 10 * compute[0] + compute[1]
    return [f for f in files() if kind in f.header.instructions and f.header.min_sm <= sm <= f.header.max_sm]


def options(file: File, kind: str, target: str) -> list[str]:
    """Compiler options: the header's numbers, so that header and code cannot drift apart."""
    h = file.header
    defines = {"THREADS": h.threads, "FLOPS": h.flops, "BYTES": h.bytes, f"MATH_{kind}": 1}
    return [f"-arch={target}", "-std=c++17", *(f"-D{name}={value}" for name, value in defines.items())]


def numbers(kind: str, size: int, seed: int = 0) -> np.ndarray:
    """`size` bytes of random numbers within 1 as that arithmetic stores them; the first is just below 1."""
    rng = np.random.default_rng(seed)
    dtype = {"fp64": np.float64, "fp16": np.float16}.get(kind, np.float32)
    values = rng.uniform(-1, 1, size // np.dtype(dtype).itemsize * (2 if kind == "bf16" else 1)).astype(dtype)
    values[0] = 0.999
    return (values.view(np.uint32) >> 16).astype(np.uint16) if kind == "bf16" else values


class Peak:
    """One file ready to be measured on a device. Unavailable where it does not compile or fit."""

    def __init__(self, file: File, kind: str, device: Device) -> None:
        self.file, self.device = file, device
        self.events: list[int] = []
        d = device.driver
        device.activate()
        flags = options(file, kind, compiling.arch(*device.compute))
        cubin, _ = compiling.compile_path(file.path, f"peak {file.path.stem}", flags)
        function = d.function(cubin, file.header.entry)
        size = COPIED if kind == BYTES else INPUTS
        self.buffers = Buffers(device, (size, size))
        try:
            self._prepare(function, kind, size)
        except BaseException:
            self.close()
            raise

    @property
    def stream(self) -> int:
        """Everything of this peak is put into it."""
        return self.buffers.stream

    def _prepare(self, function: int, kind: str, size: int) -> None:
        d, h, device = self.device.driver, self.file.header, self.device
        for _ in range(2):
            self.events.append(d.event())
        self._fill(kind, size)
        self.count = c_longlong(size // 16 if kind == BYTES else 1)
        resident = d.blocks_per_multiprocessor(function, h.threads, 0)
        in_flight = device.multiprocessors * resident
        self.blocks = -(-size // 16 // (h.threads * (h.bytes // 32))) if kind == BYTES else in_flight
        self.launch = self._prepared(function)

    def _fill(self, kind: str, size: int) -> None:
        """Random numbers: zeros would run faster than real data."""
        d, chunk = self.device.driver, numbers(kind, min(size, 1 << 24))
        for start in range(0, size, chunk.nbytes):
            copy = d.copy_in(self.buffers.addresses[1] + start, chunk.ctypes.data, chunk.nbytes, self.stream)
            d.check("copy in", copy())
        d.check("copy in", d.synchronize(self.stream)())

    def _prepared(self, function: int) -> Callable[[], Any]:
        arguments = *map(c_void_p, self.buffers.addresses), self.count
        self.keep = arguments, (c_void_p * 3)(*map(ctypes.addressof, arguments))
        at = ctypes.addressof(self.keep[1])
        threads = self.file.header.threads
        return self.device.driver.launch(function, self.blocks, (threads, 1), 0, self.stream, at)

    def rate(self, seconds: float) -> float:
        """FLOP/s or bytes/s of launches that last about `seconds` together."""
        self._time(1)
        launches = 1
        if self.file.header.bytes:
            launches = max(1, round(seconds / self._time(1)))
        else:
            self.count.value = 64
            self.count.value = max(1, round(64 * seconds / self._time(1)))
        h, taken = self.file.header, self._time(launches)
        each = h.bytes if h.bytes else h.flops * self.count.value
        return launches * each * self.blocks * h.threads / taken

    def _time(self, launches: int) -> float:
        d, (before, after) = self.device.driver, self.events
        d.call("cuEventRecord", before, self.stream)
        for _ in range(launches):
            if code := self.launch():
                d.check(f"launch of peak {self.file.path.stem}", code)
        d.call("cuEventRecord", after, self.stream)
        return max(d.elapsed_s(before, after), 1e-9)

    def close(self) -> None:
        """Free what it holds."""
        d = self.device.driver
        while self.events:
            d.call("cuEventDestroy_v2", self.events.pop())
        self.buffers.free()
        d.call("cuStreamDestroy_v2", self.stream)


class Peaks:
    """The peaks of one device, made ready when first asked for."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._ready: dict[str, list[Peak]] = {}
        self.absent: dict[str, str] = {}
        """Peaks that could not be made ready here, each with the reason; the others are still a peak."""

    def rate(self, kind: str, seconds: float) -> Rate:
        """Of an arithmetic, or of BYTES; 0 where nothing here offers it.

        The first time every instruction that offers it is tried, from then on the fastest alone.
        """
        first = kind not in self._ready
        ready = self._ready.setdefault(kind, [] if not first else self._open(kind))
        rates = [(peak.rate(seconds), peak) for peak in ready]
        if not rates:
            return Rate(0.0, "")
        best, peak = max(rates, key=lambda pair: pair[0])
        for other in [p for p in ready if p is not peak]:
            other.close()
        self._ready[kind] = [peak]
        return Rate(best, peak.file.header.instructions[kind])

    def _open(self, kind: str) -> list[Peak]:
        found = []
        for file in offered(kind, self.device.compute):
            try:
                found.append(Peak(file, kind, self.device))
            except Unavailable as error:  # an older compiler lacks an instruction, the card has no room
                self.absent[f"{kind}, {file.path.stem}"] = str(error)
        return found

    def close(self) -> None:
        """Free what all of them hold."""
        for peak in (peak for ready in self._ready.values() for peak in ready):
            peak.close()
        self._ready.clear()
