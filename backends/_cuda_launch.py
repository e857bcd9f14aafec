"""From a problem to a launch: the argument struct of `problem.cuh`, the grid, and the prepared call."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from ctypes import c_double, c_longlong, c_void_p
from types import MappingProxyType
from typing import Any, NamedTuple

from . import _cuda_compile as compiling
from . import _cuda_plan as planning
from . import _cuda_realign as realigning
from . import _cuda_split as splitting
from . import _cuda_tma as tma
from ._cuda_driver import LOCAL_BYTES, REGISTERS, SHARED_BYTES, THREADS_PER_MULTIPROCESSOR, Device
from ._cuda_source import Kernel
from .arithmetic import ITEMSIZE
from .base import Problem, Unavailable

MAX_BLOCKS = 2**31 - 1


class _Operand(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("row_stride", c_longlong),
        ("col_stride", c_longlong),
        ("batch_stride", c_longlong),
    ]


class Arguments(ctypes.Structure):
    """`struct Problem` of cuda/include/problem.cuh; strides in entries."""

    _fields_ = [
        ("a", _Operand),
        ("b", _Operand),
        ("c", _Operand),
        ("m", c_longlong),
        ("n", c_longlong),
        ("k", c_longlong),
        ("batch", c_longlong),
        ("alpha", c_double),
        ("beta", c_double),
        ("splits", c_longlong),
        ("workspace", c_void_p),
        ("tickets", c_void_p),
    ]


class Place(NamedTuple):
    """Where an operand lies on the device: address, leading dimension and batch stride in entries."""

    address: int
    ld: int
    batch_stride: int = 0


def extents(p: Problem) -> tuple[int, int, int]:
    """(m, n, k) as kernels see them: gemv is a gemm with n = 1; k = 0 when alpha is 0."""
    m, n, k = (p.m, 1, p.n) if p.op == "gemv" else (p.m, p.n, p.k)
    return m, n, (0 if p.alpha == 0 else k)


def places(p: Problem, addresses: tuple[int, int, int]) -> tuple[Place, Place, Place]:
    """The operands as C-contiguous arrays at these addresses."""
    m, n, k = (p.m, 1, p.n) if p.op == "gemv" else (p.m, p.n, p.k)
    lds = (m if p.trans_a else k), (k if p.trans_b else n), n
    sizes = m * k, k * n, m * n
    a, b, c = (Place(*three) for three in zip(addresses, lds, sizes, strict=True))
    return a, b, c


def _operand(place: Place, transposed: bool) -> _Operand:
    strides = (1, place.ld) if transposed else (place.ld, 1)
    return _Operand(place.address, *strides, place.batch_stride)


def arguments(
    p: Problem, a: Place, b: Place, c: Place, shared: splitting.Workspace = splitting.NONE
) -> Arguments:
    """The struct a kernel is given."""
    operands = _operand(a, p.trans_a), _operand(b, p.trans_b), _operand(c, False)
    sums = shared.splits, shared.sums, shared.tickets
    return Arguments(*operands, *extents(p), p.batch, p.alpha, p.beta, *sums)


def _tiles(extent: int, tile: int) -> int:
    return -(-extent // tile)


def grid2d(kernel: Kernel, p: Problem) -> int:
    """A block for every CTA tile of every product."""
    m, n, _ = extents(p)
    return p.batch * _tiles(m, kernel.variant.tile[0]) * _tiles(n, kernel.variant.tile[1])


def rows(kernel: Kernel, p: Problem) -> int:
    """A block for every `tile[0]` entries of y."""
    return _tiles(p.m, kernel.variant.tile[0])


def linear(kernel: Kernel, p: Problem) -> int:
    """A block for every `tile[1]` entries of a vector."""
    return _tiles(p.n, kernel.variant.tile[1])


def batched(kernel: Kernel, p: Problem) -> int:
    """A block for every CTA tile of every `PRODUCTS` (one of the variant's defines) neighbouring products."""
    (tm, tn, _), products = kernel.variant.tile, kernel.variant.defines["PRODUCTS"]
    return _tiles(p.batch, products) * _tiles(p.m, tm) * _tiles(p.n, tn)


def clusters(kernel: Kernel, p: Problem) -> int:
    """A block for every CTA tile of every product, in whole clusters along the tile's first direction."""
    (m, n, _), (tile_m, tile_n, _) = extents(p), kernel.variant.tile
    rows, columns = (n, m) if tma.swapped(kernel, p) else (m, n)
    cluster = kernel.variant.cluster
    return p.batch * _tiles(rows, tile_m * cluster) * _tiles(columns, tile_n) * cluster


LAUNCHERS: dict[str, Callable[[Kernel, Problem], int]] = {
    "grid2d": grid2d, "rows": rows, "linear": linear, "persistent": clusters, "tma": clusters,
    "batched": batched, "split_k": grid2d,
}  # fmt: skip
"""CTA tiles of a problem, by the `launcher` of a kernel's header: as many blocks, unless it is persistent."""


def tiles(kernel: Kernel, p: Problem) -> int:
    """CTA tiles of a problem; 0 where there is nothing to compute."""
    return LAUNCHERS[kernel.header.launcher](kernel, p)


def blocks(kernel: Kernel, p: Problem, multiprocessors: int = MAX_BLOCKS) -> int:
    """Blocks of a launch; 0 where there is nothing to compute. Unavailable beyond what a grid may have.

    Persistent kernels ("persistent", "tma"): see `_cuda_plan`. "split_k": one part of K, see `split`.
    """
    count = tiles(kernel, p)
    if count > MAX_BLOCKS:
        raise Unavailable(f"{kernel.name} would need {count} blocks, a grid has at most {MAX_BLOCKS}")
    if kernel.header.launcher not in ("persistent", "tma") or not count:
        return count
    m, n, _ = extents(p)
    extent = (n, m) if tma.swapped(kernel, p) else (m, n)
    return planning.blocks(kernel.variant, extent, p.batch, multiprocessors)


class Function(NamedTuple):
    """A kernel loaded on a device, and its empty stand-in."""

    address: int
    empty: int
    compiled: compiling.Compiled
    resources: dict[str, int]


@functools.cache
def function(
    kernel_name: str, entry: str, shared_bytes: int, dtype: str, device: Device, more: compiling.Defines = ()
) -> Function:
    """Compile (once per process) and load (once per device)."""
    device.activate()
    target = compiling.arch(*device.compute)
    compiled = compiling.compile_kernel(kernel_name, dtype, target, *([more] if more else []))
    d = device.driver
    address = d.function(compiled.cubin, entry, shared_bytes)
    kinds = {"registers": REGISTERS, "static_shared_bytes": SHARED_BYTES, "local_bytes": LOCAL_BYTES}
    resources = {name: d.function_attribute(kind, address) for name, kind in kinds.items()}
    return Function(address, d.function(compiled.cubin, "empty_kernel"), compiled, resources)


def matrices(p: Problem, operands: tuple[Place, Place, Place]) -> tuple[tma.Matrix, tma.Matrix, tma.Matrix]:
    """The operands as they are stored."""
    m, n, k = extents(p)
    shapes = ((k, m) if p.trans_a else (m, k)), ((n, k) if p.trans_b else (k, n)), (m, n)
    a, b, c = (
        tma.Matrix(o.address, *shape, o.ld, p.batch, o.batch_stride, ITEMSIZE[p.dtype])
        for o, shape in zip(operands, shapes, strict=True)
    )
    return a, b, c


def load(kernel: Kernel, p: Problem, device: Device) -> Function:
    """`kernel` for such a problem on `device`; Unavailable with the reason if it does not compile."""
    more = tma.defines(kernel, p)
    return function(kernel.name, kernel.header.entry, kernel.variant.shared_bytes, p.dtype, device, more)


def occupancy(kernel: Kernel, found: Function, device: Device) -> dict[str, Any]:
    """Blocks of a launch that one multiprocessor holds, and the part of its threads that they are."""
    v, d = kernel.variant, device.driver
    threads = v.threads[0] * v.threads[1]
    resident = d.blocks_per_multiprocessor(found.address, threads, v.shared_bytes)
    most = d.attribute(THREADS_PER_MULTIPROCESSOR, device.ordinal)
    return {"blocks_per_multiprocessor": resident, "occupancy": resident * threads / most}


def split(kernel: Kernel, p: Problem, found: Function, device: Device) -> splitting.Split:
    """How K is cut among blocks: one part, unless the launcher is split_k."""
    if kernel.header.launcher != "split_k":
        return splitting.WHOLE
    v = kernel.variant
    threads = v.threads[0] * v.threads[1]
    resident = device.driver.blocks_per_multiprocessor(found.address, threads, v.shared_bytes)
    slots = device.multiprocessors * max(1, resident)
    return splitting.choose(v, p.dtype, tiles(kernel, p), extents(p)[2], slots)


class Launch(NamedTuple):
    """Prepared launches: of the kernel, and of an empty one by the same path."""

    run: Callable[[], Any]
    empty: Callable[[], Any]
    keep: tuple[Any, ...]
    """Memory the launches point into."""
    release: Callable[[], Any] = lambda: None
    """Frees the device memory of these launches, after the last of them has ended."""
    config: Mapping[str, Any] = MappingProxyType({})
    """What is worth knowing of how these operands are read."""


def _nothing() -> int:
    return 0


def prepare(
    kernel: Kernel, p: Problem, device: Device, operands: tuple[Place, Place, Place], stream: int
) -> Launch:
    """Bind a launch of `kernel` on these operands; each call of `.run` starts it and parses nothing."""
    if kernel.header.launcher == "tma":
        return _prepare_tma(kernel, p, device, operands, stream)
    if realigns(kernel, p):
        return _prepare_realigned(kernel, p, device, operands, stream)
    found = load(kernel, p, device)
    shared = splitting.Workspace(device, split(kernel, p, found, device), stream)
    try:
        packed = arguments(p, *operands, shared)
        launch = _launch(kernel, p, found, device, stream, packed, (), shared.splits)
    except BaseException:
        shared.free()
        raise
    return launch._replace(release=shared.free)


def _launch(
    kernel: Kernel, p: Problem, found: Function, device: Device, stream: int, packed: Arguments,
    maps: tuple[tma.Map, ...], splits: int = 1, early: bool = False,
) -> Launch:  # fmt: skip
    count, v, d = blocks(kernel, p, device.multiprocessors) * splits, kernel.variant, device.driver
    addresses = ctypes.addressof(packed), *map(tma.map_address, maps)
    pointers = (c_void_p * len(addresses))(*addresses)
    where = (stream, ctypes.addressof(pointers))
    empty = d.launch(found.empty, 1, v.threads, 0, *where)
    keep: tuple[Any, ...] = (packed, pointers, maps)
    if not count:
        return Launch(_nothing, empty, keep)
    if not early:
        return Launch(d.launch(found.address, count, v.threads, v.shared_bytes, *where), empty, keep)
    run, more = realigning.launch_early(d, found.address, count, v.threads, v.shared_bytes, *where)
    return Launch(run, empty, (*keep, more))


def _prepare_tma(
    kernel: Kernel, p: Problem, device: Device, operands: tuple[Place, Place, Place], stream: int
) -> Launch:
    """The launch with its maps, behind one that moves operands where that must be."""
    found, q = load(kernel, p, device), tma.as_read(kernel, p)
    a, b, c = matrices(p, operands)
    steps = realigning.step(a, turned=False), realigning.step(b, turned=tma.turns_b(kernel, p))
    moved = realigning.prepare(device, found.compiled.cubin, steps, stream) if 0 not in extents(p) else None
    a, b = moved.operands if moved else (a, b)
    maps = tuple(tma.maps(device.driver, kernel, q, (a, b, c)))
    argued = arguments(q, _place(a), _place(b), operands[2])
    return _behind(moved, _launch(kernel, q, found, device, stream, argued, maps, early=moved is not None))


def realigns(kernel: Kernel, p: Problem) -> bool:
    """Does such a kernel have operands moved that 16-byte accesses cannot take?

    Not for products over a tile of K or less: they are over sooner than another launch.
    """
    return kernel.header.realigns and 0 not in extents(p) and extents(p)[2] > kernel.variant.tile[2]


def _prepare_realigned(
    kernel: Kernel, p: Problem, device: Device, operands: tuple[Place, Place, Place], stream: int
) -> Launch:
    """The launch, behind one that moves operands where that is better; there may be no room for them."""
    found, (a, b, _) = load(kernel, p, device), matrices(p, operands)
    steps = realigning.step(a, False, tma.aligned), realigning.step(b, False, tma.aligned)
    try:
        moved, config = realigning.prepare(device, found.compiled.cubin, steps, stream), {}
    except Unavailable as error:
        moved, config = None, {"not_realigned": str(error)}
    a, b = moved.operands if moved else (a, b)
    early = moved is not None and device.compute >= (9, 0)
    argued = arguments(p, _place(a), _place(b), operands[2])
    launch = _launch(kernel, p, found, device, stream, argued, (), early=early)
    return _behind(moved, launch._replace(config=config))


def _place(m: tma.Matrix) -> Place:
    return Place(m.address, m.ld, m.batch_stride)


def _behind(moved: realigning.Realigned | None, product: Launch) -> Launch:
    """`product` behind the launch that moves its operands, if there is one."""
    if moved is None:
        return product
    keep = (*product.keep, moved)
    run = functools.partial(_both, moved.run, product.run)
    empty = functools.partial(_both, product.empty, product.empty)  # as many launches as a run is
    return Launch(run, empty, keep, moved.release, {"realigned_bytes": moved.size})


def _both(first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    return first() or second()
