"""One product launched on bare device memory: any offset and leading dimension, and a look at all around C.

Shared by the tests on the CPU stand-in, those on a GPU, and `gpu_sanitize.py`. Operands are small integers,
so every sum is exact and the result must match bit for bit after its one rounding to the storage type.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from backends import _cuda_driver as cuda
from backends import _cuda_launch as launching
from backends._cuda_source import Kernel, all_kernels, includes, without_comments
from backends.base import Problem
from backends.operands import numpy_dtype

GUARD = 64
"""Entries before and after every operand that hold NaN and must stay as they are."""

KERNELS = {name: kernel for name, kernel in all_kernels().items() if isinstance(kernel, Kernel)}


STAND_INS = {header.name for header in (Path(__file__).parent / "cuda_on_cpu" / "include").iterdir()}
"""Headers that the CPU stand-in has its own version of."""


def has_assembly(kernel: Kernel) -> bool:
    """Is it written in PTX in part? Then it runs on a GPU alone, unless the CPU stand-in knows the header.

    An empty `asm("" ...)`, which only hides a value from the compiler, is none.
    """
    files = (kernel.path, *(path for path in includes(kernel.path)[0] if path.name not in STAND_INS))
    instruction = re.compile(r'\basm\b(?: volatile)?\s*\((?!\s*"")')
    return any(instruction.search(without_comments(path.read_text())) for path in files)


SCALES = ((1.0, 0.0), (0.5, -2.0), (0.0, 0.0), (0.0, 2.0))
"""(alpha, beta) by BLAS rules."""


class Layout(NamedTuple):
    """How the operands lie: entries past a 256-byte boundary, and entries added to each leading dimension,
    which is then rounded up to a multiple."""

    offset: int = 0
    pad: int = 0
    multiple: int = 1


LAYOUTS = (Layout(), Layout(1), Layout(0, 8), Layout(8, 16), Layout(3, 1), Layout(0, 1, 8), Layout(8, 5, 4))


def tile_shapes(kernel: Kernel) -> list[tuple[int, int, int]]:
    """(m, n, k) at and one beside the CTA tile, K = 0, one entry, two tiles; K long enough to be split."""
    h, (tm, tn, tk) = kernel.header, kernel.variant.tile
    split = h.launcher == "split_k"
    if h.op == "gemm":
        around = [(tm + i, tn + j, tk + i * j) for i, j in itertools.product((-1, 0, 1), repeat=2)]
        long = [(tm + 1, tn, 5 * tk + 1), (tm, 3, 40 * tk + 7), (5, 9, 2 * tk)] if split else []
        return [
            (1, 1, 1),
            (tm, tn, 0),
            (2 * tm + 1, tn + 1, 2 * tk + 1),
            *(tuple(map(abs, s)) for s in around),
            *long,
        ]
    if h.op == "gemv":
        tm *= kernel.variant.cluster
        lengths = (0, 1, 31, 33, 255, 257, 1031)
        long = [(tm + 1, 2 * tk + 3, 1), (1, 50 * tk - 1, 1)] if split else []
        return [(m, n, 1) for m in (1, tm - 1, tm, tm + 1, 3 * tm + 2) for n in lengths if m] + long
    return [(1, n, 1) for n in (1, 31, tn - 1, tn, tn + 1, 3 * tn + 5)]


def problems(kernel: Kernel, dtype: str, shapes: list[tuple[int, int, int]]) -> Iterator[Problem]:
    """Those shapes in every transposition the kernel takes and every scale that its op has."""
    h = kernel.header
    width = {"gemm": 2, "gemv": 1}.get(h.op, 0)
    stored = ["".join(s) for s in itertools.product("nt", repeat=width)] if width else ["n"]
    kinds = [s for s in stored if not h.transposes or s in h.transposes]
    scales = SCALES if width else SCALES[:1]
    for (m, n, k), kind, (alpha, beta) in itertools.product(shapes, kinds, scales):
        math = dict(zip(h.dtypes, h.math, strict=True))[dtype]
        transposed = {"trans_a": kind[0] == "t", "trans_b": kind[1:] == "t"}
        yield Problem(
            op=h.op, m=m, n=n, k=k, dtype=dtype, math=math, alpha=alpha, beta=beta, **transposed,
        )  # fmt: skip


class Region:
    """An operand inside a larger buffer of NaN, on the host and on the device."""

    def __init__(
        self,
        device: cuda.Device,
        shape: tuple[int, int, int],
        dtype: str,
        layout: Layout,
        guard: int = GUARD,
    ) -> None:
        batch, rows, columns = shape
        self.ld = -(-(columns + layout.pad) // layout.multiple) * layout.multiple
        self.first = guard + layout.offset
        size = max(1, self.first + batch * rows * self.ld + guard)
        self.host = np.full(size, np.nan, numpy_dtype(dtype))
        inside = self.host[self.first : self.first + batch * rows * self.ld].reshape(batch, rows, self.ld)
        self.view = inside[:, :, :columns]
        self.device, self.batch_stride = device, rows * self.ld
        self.address = device.driver.alloc(self.host.nbytes)

    def place(self) -> launching.Place:
        """Where the operand begins."""
        start = self.address + self.first * self.host.itemsize
        return launching.Place(start, self.ld, self.batch_stride)

    def upload(self, stream: int) -> None:
        copy = self.device.driver.copy_in(self.address, self.host.ctypes.data, self.host.nbytes, stream)
        self.device.driver.check("copy in", copy())

    def download(self, stream: int) -> None:
        copy = self.device.driver.copy_out(self.host.ctypes.data, self.address, self.host.nbytes, stream)
        self.device.driver.check("copy out", copy())

    def download_entries(self, stream: int) -> None:
        """Nothing but the operand's own entries: what lies between its rows may never have had a value."""
        d = self.device.driver
        for row in (row for product in self.view for row in product if row.size):
            offset = row.ctypes.data - self.host.ctypes.data
            d.check("copy out", d.copy_out(row.ctypes.data, self.address + offset, row.nbytes, stream)())

    def free(self) -> None:
        self.device.driver.free(self.address)


def _integers(rng: np.random.Generator, view: np.ndarray) -> None:
    view[...] = rng.integers(-4, 5, view.shape).astype(view.dtype)


def _shapes(p: Problem) -> tuple[tuple[int, int, int], ...]:
    """Rows and columns in memory of A, B and C, with the batch in front."""
    if p.op not in ("gemm", "gemv"):
        return ((1, 1, p.n),) * 3
    m, n, k = (p.m, 1, p.n) if p.op == "gemv" else (p.m, p.n, p.k)
    a, b = ((k, m) if p.trans_a else (m, k)), ((n, k) if p.trans_b else (k, n))
    return (p.batch, *a), (p.batch, *b), (p.batch, m, n)


def _layouts(p: Problem, layout: Layout) -> list[Layout]:
    """Matrices are padded, vectors are not; that of a vector operation begins later by that many entries."""
    packed = Layout(layout.offset)
    moved = Layout(layout.offset + layout.pad)
    return {"gemm": [layout] * 3, "gemv": [layout, packed, packed]}.get(p.op, [moved, packed, packed])


def expected(p: Problem, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """C in float64, from operands as they lie in memory; exact for small integers."""
    if p.op == "copy":
        return a.astype(np.float64)
    if p.op == "vector_add":
        return a.astype(np.float64) + b.astype(np.float64)
    left = a.astype(np.float64).swapaxes(1, 2) if p.trans_a else a.astype(np.float64)
    right = b.astype(np.float64).swapaxes(1, 2) if p.trans_b else b.astype(np.float64)
    product = p.alpha * (left @ right) if p.alpha else np.zeros(c.shape)
    return product + (p.beta * c.astype(np.float64) if p.beta else 0.0)


def check(
    kernel: Kernel, p: Problem, layout: Layout = LAYOUTS[0], seed: int = 0, *, bare: bool = False
) -> None:
    """Launch and compare: C exact, everything around it untouched, and a second launch identical.

    bare: for the sanitizers, which then see more. Nothing lies around the operands, so that one entry too far
    is outside an allocation, and what must not be read is left without a value.
    """
    device = cuda.device(0)
    device.activate()
    stream = device.driver.stream()
    regions = [
        Region(device, shape, p.dtype, where, 0 if bare else GUARD)
        for shape, where in zip(_shapes(p), _layouts(p, layout), strict=True)
    ]
    try:
        (_bare if bare else _compare)(kernel, p, regions, stream, np.random.default_rng(seed))
    finally:
        for region in regions:
            region.free()
        device.driver.call("cuStreamDestroy_v2", stream)


def _compare(
    kernel: Kernel, p: Problem, regions: list[Region], stream: int, rng: np.random.Generator
) -> None:
    a, b, c = regions
    if p.alpha:  # else A and B stay NaN: alpha = 0 must not read them
        _integers(rng, a.view)
        _integers(rng, b.view)
    if p.beta:
        _integers(rng, c.view)
    before = c.host.copy()
    for region in regions:
        region.upload(stream)
    results = []
    launch = launching.prepare(kernel, p, c.device, (a.place(), b.place(), c.place()), stream)
    for _ in range(2):  # the same launch: what it leaves behind is what it starts from
        c.host[...] = before
        c.upload(stream)
        assert not launch.run(), "launch failed"
        c.download(stream)
        c.device.driver.check("run", c.device.driver.synchronize(stream)())
        results.append(c.host.copy())
    launch.release()
    after = results[0]
    assert results[1].tobytes() == after.tobytes(), f"{kernel.name}: two runs of {p} differ"
    c.host[...] = before
    want = expected(p, a.view, b.view, c.view).astype(np.float32 if p.dtype == "bfloat16" else before.dtype)
    c.view[...] = want.astype(before.dtype)
    wrong = np.flatnonzero(_bits(after) != _bits(c.host))
    assert wrong.size == 0, f"{kernel.name}: {p}: {wrong.size} entries differ, the first at {wrong[:4]}"


def _bare(kernel: Kernel, p: Problem, regions: list[Region], stream: int, rng: np.random.Generator) -> None:
    a, b, c = regions
    if p.alpha:
        _integers(rng, a.view)
        _integers(rng, b.view)
    if p.beta:
        _integers(rng, c.view)
    for region in ((a, b) if p.alpha else ()) + ((c,) if p.beta else ()):
        region.upload(stream)
    want = expected(p, a.view, b.view, c.view).astype(c.host.dtype)
    places = a.place(), b.place(), c.place()
    launch = launching.prepare(kernel, p, c.device, places, stream)
    assert not launch.run(), "launch failed"
    c.device.driver.check("run", c.device.driver.synchronize(stream)())
    launch.release()
    c.download_entries(stream)
    c.device.driver.check("copy out", c.device.driver.synchronize(stream)())
    wrong = np.flatnonzero(_bits(np.ascontiguousarray(c.view)) != _bits(want))
    assert wrong.size == 0, f"{kernel.name}: {p}: {wrong.size} entries differ, the first at {wrong[:4]}"


def _bits(array: np.ndarray) -> np.ndarray:
    """Entries as integers, so that NaN compares too; -0 counts as 0."""
    clean = np.where(array == 0, np.zeros((), array.dtype), array)
    return clean.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[array.itemsize])
