"""Operands moved to where lines begin at multiples of 16 bytes: `realign` of cuda/include/realign.cuh."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable
from ctypes import POINTER, c_int, c_longlong, c_uint, c_void_p
from typing import Any, NamedTuple

from . import _cuda_driver as cuda
from ._cuda_session import allocate
from ._cuda_tma import Matrix, taken

THREADS, BLOCKS_PER_MULTIPROCESSOR = 256, 8
WARPS, BYTES_PER_WARP, TURNED = THREADS // 32, 2048, 32
"""A warp moves so many bytes of a line at a time; a block turns 32 x 32 entries."""


class _Move(ctypes.Structure):
    _fields_ = [
        ("from_", c_void_p),
        ("to", c_void_p),
        ("lines", c_longlong),
        ("entries", c_longlong),
        ("batch", c_longlong),
        ("from_stride", c_longlong),
        ("to_stride", c_longlong),
        ("from_batch", c_longlong),
        ("to_batch", c_longlong),
        ("turned", c_longlong),
    ]


class _Moves(ctypes.Structure):
    """`struct Moves`: A and B."""

    _fields_ = [("a", _Move), ("b", _Move)]


class _Value(ctypes.Union):
    _fields_ = [("pad", ctypes.c_char * 64), ("flag", c_int)]


class _Attribute(ctypes.Structure):
    _fields_ = [("id", c_int), ("pad", c_int), ("value", _Value)]


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", POINTER(_Attribute)),
        ("count", c_uint),
    ]


_BEGIN_EARLY = 6
"""CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"""


class Step(NamedTuple):
    """Where an operand goes: `to` without an address yet, or None where it stays."""

    source: Matrix
    to: Matrix | None
    turned: bool = False

    @property
    def size(self) -> int:
        """Bytes of device memory it needs."""
        return 0 if self.to is None else self.to.batch * self.to.batch_stride * self.to.itemsize

    @property
    def blocks(self) -> int:
        """So many of them do it in one go."""
        m = self.source
        if self.to is None:
            return 0
        if self.turned:
            return m.batch * -(-m.rows // TURNED) * -(-m.columns // TURNED)
        return -(-m.batch * m.rows * -(-m.columns * m.itemsize // BYTES_PER_WARP) // WARPS)


def step(m: Matrix, turned: bool, stays: Callable[[Matrix], bool] = taken) -> Step:
    """What has to be done with `m`, whose transpose is wanted if `turned`; else nothing where it `stays`."""
    if 0 in (m.rows, m.columns, m.batch) or (stays(m) and not turned):
        return Step(m, None)
    rows, columns = (m.columns, m.rows) if turned else (m.rows, m.columns)
    per_vector = 16 // m.itemsize
    ld = -(-columns // per_vector) * per_vector
    return Step(m, m._replace(address=0, rows=rows, columns=columns, ld=ld, batch_stride=rows * ld), turned)


class Room:
    """Device memory that is given back by `release`, or when nobody holds it any more."""

    def __init__(self, device: cuda.Device, size: int) -> None:
        self.address = allocate(device, size)
        self.release = weakref.finalize(self, _free, device, self.address)


def _free(device: cuda.Device, address: int) -> None:
    """The collector calls it in any thread, between any two calls of it: the thread keeps its context."""
    if cuda.forked():
        return
    before = device.driver.current_context()
    device.activate()
    try:
        device.driver.free(address)
    finally:
        if before not in (0, device.context):
            device.driver.set_context(before)


@functools.cache
def _function(cubin: bytes, device: cuda.Device) -> int:
    return device.driver.function(cubin, "realign")


class Realigned(NamedTuple):
    """A launch that moves operands, where they are after it, and what it needs until then."""

    run: Callable[[], Any]
    operands: tuple[Matrix, Matrix]
    release: Callable[[], Any]
    keep: tuple[Any, ...]
    size: int
    """Bytes of device memory that it needs."""


def prepare(device: cuda.Device, cubin: bytes, steps: tuple[Step, Step], stream: int) -> Realigned | None:
    """The launch for both operands; None where both stay. Unavailable if the device has too little memory."""
    if not any(s.size for s in steps):
        return None
    starts = 0, -(-steps[0].size // 256) * 256
    size = starts[1] + steps[1].size
    room = Room(device, size)
    found = [
        s.source if s.to is None else s.to._replace(address=room.address + start)
        for s, start in zip(steps, starts, strict=True)
    ]
    moves = _Moves(*(_move(s, to) for s, to in zip(steps, found, strict=True)))
    pointers = (c_void_p * 1)(ctypes.addressof(moves))
    most = device.multiprocessors * BLOCKS_PER_MULTIPROCESSOR
    grid = min(most, sum(s.blocks for s in steps))
    where = stream, ctypes.addressof(pointers)
    run = device.driver.launch(_function(cubin, device), grid, (THREADS, 1), 0, *where)
    return Realigned(run, (found[0], found[1]), room.release, (moves, pointers, room), size)


def launch_early(
    driver: cuda.Driver, function: int, grid: int, block: tuple[int, int], shared_bytes: int, stream: int,
    arguments: int,
) -> tuple[Callable[[], int], Any]:  # fmt: skip
    """A prepared launch that may begin while the one before it still runs, and what must be kept for it.

    The kernel itself waits before it reads what that one writes: so only its start is brought forward.
    """
    attribute = _Attribute(_BEGIN_EARLY, 0, _Value(flag=1))
    config = _Config((grid, 1, 1), (*block, 1), shared_bytes, stream, ctypes.pointer(attribute), 1)
    where = c_void_p(ctypes.addressof(config)), c_void_p(function), c_void_p(arguments), c_void_p(0)
    return driver.prepared("cuLaunchKernelEx", *where), (attribute, config)


def _move(s: Step, to: Matrix) -> _Move:
    m = s.source
    if s.to is None:
        return _Move()
    strides = m.ld, to.ld, m.batch_stride, to.batch_stride
    return _Move(m.address, to.address, m.rows, m.columns, m.batch, *strides, int(s.turned))
