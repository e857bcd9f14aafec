"""What kernels with the launcher "tma" are given beside their arguments: maps for the copy engine (TMA).

Such a kernel is compiled for the layout at hand: TRANS_A, TRANS_B say how A and B are stored. Its parameters
are the problem and one map each for A, B and C; boxes are 128 bytes wide along the contiguous direction, in
the 128-byte swizzle, and the batch is the third dimension.
Operands that the engine cannot take are moved first, and of two float32 operands that both lie across K, B is
turned (`_cuda_realign`): tf32 wgmma needs one along K.
"""

from __future__ import annotations

import ctypes
from ctypes import c_uint32, c_uint64, c_void_p
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ._cuda_source import Kernel
from .arithmetic import ITEMSIZE
from .base import Problem

if TYPE_CHECKING:
    from ._cuda_driver import Driver

LINE_BYTES = 128
MAP_BYTES, MAP_ALIGNMENT = 128, 64
MOST = 2**31 - 2**16
"""Extents are 32-bit, and a coordinate may pass the end by a cluster's tiles."""

_UINT16, _FLOAT32, _TFLOAT32 = 1, 7, 11
_SWIZZLE_128B, _PROMOTE_256B = 3, 3


Map = ctypes.Array[ctypes.c_char]


class Matrix(NamedTuple):
    """A stored matrix, or a batch of them: `rows` lines of `columns` entries, strides in entries."""

    address: int
    rows: int
    columns: int
    ld: int
    batch: int
    batch_stride: int
    itemsize: int


class Box(NamedTuple):
    """What one copy moves: `lines` lines of 128 bytes, of entries of that CUtensorMapDataType."""

    lines: int
    element: int


def _pitches(m: Matrix) -> list[int]:
    """Bytes from a line to the next one, and from a matrix of a batch to the next one."""
    return [stride * m.itemsize for stride in ((m.ld, m.batch_stride) if m.batch > 1 else (m.ld,))]


def aligned(m: Matrix) -> bool:
    """Does every line of it begin at a multiple of 16 bytes?"""
    return all(x % 16 == 0 for x in (m.address, *_pitches(m)))


def taken(m: Matrix) -> bool:
    """Can the copy engine take it? It must be aligned, and not too large."""
    extents = m.rows, m.columns, m.batch
    return aligned(m) and all(0 < n <= MOST for n in extents) and all(x < 2**40 for x in _pitches(m))


def element(p: Problem) -> int:
    """How the engine reads entries: it rounds float32 on the way to tf32; 16 bits pass untouched."""
    if ITEMSIZE[p.dtype] == 2:
        return _UINT16
    return _TFLOAT32 if p.math == "tf32" else _FLOAT32


def encode(driver: Driver, m: Matrix, box: Box) -> Map:
    """A CUtensorMap for `m`; CudaError when the driver refuses. The buffer holds it at `map_address`."""
    buffer = empty_map()
    pitch = m.ld * m.itemsize
    batch_pitch = m.batch_stride * m.itemsize if m.batch > 1 else m.rows * pitch
    arguments = (
        c_void_p(map_address(buffer)), c_uint32(box.element), c_uint32(3), c_void_p(m.address),
        (c_uint64 * 3)(m.columns, m.rows, m.batch), (c_uint64 * 2)(pitch, batch_pitch),
        (c_uint32 * 3)(LINE_BYTES // m.itemsize, box.lines, 1), (c_uint32 * 3)(1, 1, 1),
        c_uint32(0), c_uint32(_SWIZZLE_128B), c_uint32(_PROMOTE_256B), c_uint32(0),
    )  # fmt: skip
    driver.check("cuTensorMapEncodeTiled", driver.prepared("cuTensorMapEncodeTiled", *arguments)())
    return buffer


def empty_map() -> Map:
    """Room for a map; all zeros is one that nobody may use."""
    return ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)


def map_address(buffer: Map) -> int:
    """The aligned address in a buffer of `empty_map`."""
    address = ctypes.addressof(buffer)
    return address + -address % MAP_ALIGNMENT


def turns_b(kernel: Kernel, p: Problem) -> bool:
    """Is B transposed before such a kernel reads it?"""
    return kernel.header.launcher == "tma" and ITEMSIZE[p.dtype] == 4 and p.trans_a and not p.trans_b


def as_read(kernel: Kernel, p: Problem) -> Problem:
    """The problem that the kernel itself is given."""
    return msgspec.structs.replace(p, trans_b=True) if turns_b(kernel, p) else p


def swapped(kernel: Kernel, p: Problem) -> bool:
    """Does it compute C transposed, so that `tile` is along N and M?"""
    return kernel.header.launcher == "tma" and ITEMSIZE[p.dtype] == 4 and not (p.trans_a or p.trans_b)


def defines(kernel: Kernel, p: Problem) -> tuple[tuple[str, int], ...]:
    """What a kernel is compiled with for this problem, beside what its header says; nothing for most."""
    if kernel.header.launcher != "tma" and not kernel.header.by_layout:
        return ()
    q = as_read(kernel, p)
    return (("LAYOUT_GIVEN", 1), ("TRANS_A", int(q.trans_a)), ("TRANS_B", int(q.trans_b)))


def lines(kernel: Kernel, p: Problem) -> tuple[int, int]:
    """Lines of a box of A and of B: of K, as many as fit into 128 bytes, where that is not contiguous; else
    128 of the left factor, and 64 of the right one, whose boxes the blocks of a cluster copy in turns.
    """
    across = LINE_BYTES // ITEMSIZE[p.dtype]
    along_a, along_b = (64, 128) if swapped(kernel, p) else (128, 64)
    return (across if p.trans_a else along_a), (along_b if p.trans_b else across)


def _box_of_c(p: Problem) -> Box:
    return Box(64, _UINT16) if ITEMSIZE[p.dtype] == 2 else Box(32, _FLOAT32)


def maps(driver: Driver, kernel: Kernel, p: Problem, matrices: tuple[Matrix, Matrix, Matrix]) -> list[Map]:
    """Those of A, B and C; an empty one where nothing is read, or C is one that the engine cannot write."""
    lines_a, lines_b = lines(kernel, p)
    boxes = (
        Box(lines_a, element(p)),
        Box(lines_b, element(p)),
        _box_of_c(p),
    )
    pairs = zip(matrices, boxes, strict=True)
    return [encode(driver, m, box) if taken(m) else empty_map() for m, box in pairs]
