"""Tensor maps, realigned operands and persistent grids, as far as the host decides them."""

from __future__ import annotations

import ctypes

import msgspec
import pytest

from backends import Problem, Unavailable, _cuda_launch
from backends import _cuda_driver as cuda
from backends import _cuda_realign as realign
from backends import _cuda_source as source
from backends import _cuda_tma as tma
from backends.cuda_kernels import CudaKernel

KERNELS = {k.name: k for k in source.all_kernels().values() if isinstance(k, source.Kernel)}
WGMMA, NAIVE = KERNELS["cuda:11_wgmma"], KERNELS["cuda:01_naive"]
LAYOUTS = [(a, b) for a in (False, True) for b in (False, True)]


def matrix(address=4096, rows=10, columns=64, ld=64, batch=1, batch_stride=0, itemsize=2):
    return tma.Matrix(address, rows, columns, ld, batch, batch_stride, itemsize)


@pytest.mark.parametrize(
    ("changes", "taken"),
    [
        ({}, True),
        ({"address": 4096 + 8}, False),
        ({"ld": 68}, False),
        ({"ld": 72}, True),
        ({"ld": 68, "itemsize": 4}, True),
        ({"batch_stride": 641}, True),
        ({"batch": 2, "batch_stride": 641}, False),
        ({"batch": 2, "batch_stride": 648}, True),
        ({"rows": 0}, False),
        ({"rows": 2**31}, False),
        ({"ld": 2**39}, False),
    ],
)
def test_what_the_copy_engine_takes(changes, taken):
    assert tma.taken(matrix(**changes)) is taken


def test_realigned_lines_begin_at_multiples_of_16_bytes_and_can_be_taken():
    moved = realign.step(matrix(address=4098, ld=67, columns=65, batch=3, batch_stride=999), turned=False)
    assert moved.to == matrix(address=0, ld=72, columns=65, batch=3, batch_stride=720)
    assert moved.size == 3 * 10 * 72 * 2
    assert tma.taken(moved.to._replace(address=256))
    turned = realign.step(matrix(itemsize=4), turned=True)
    assert turned.to == matrix(address=0, rows=64, columns=10, ld=12, batch_stride=64 * 12, itemsize=4)


def test_short_lines_are_moved_by_a_warp_each():
    assert realign.step(matrix(rows=1001, columns=17, ld=17), False).blocks == 126
    assert realign.step(matrix(rows=3, columns=1025, ld=1025, batch=2, batch_stride=3075), False).blocks == 2
    assert realign.step(matrix(rows=33, columns=65, itemsize=4), True).blocks == 6
    assert realign.step(matrix(), False).blocks == 0


def test_what_can_be_taken_or_is_empty_stays():
    for m in (matrix(), matrix(columns=0, ld=1, address=3), matrix(rows=0)):
        assert realign.step(m, turned=False) == realign.Step(m, None)
        assert realign.step(m, turned=False).size == 0


def test_what_is_aligned_stays_whatever_its_extents():
    huge = matrix(rows=2**31)
    assert realign.step(huge, False, tma.aligned).to is None and realign.step(huge, False).to is not None
    assert realign.step(matrix(ld=65), False, tma.aligned).to == matrix(address=0, ld=64, batch_stride=640)


@pytest.mark.parametrize(
    ("name", "k", "alpha", "moved"),
    [
        ("cuda:10_mma_sync", 65, 1.0, True),
        ("cuda:10_mma_sync", 64, 1.0, False),
        ("cuda:10_mma_sync", 65, 0.0, False),
        ("cuda:10_mma_sync_fp64", 65, 1.0, False),
        ("cuda:01_naive", 65, 1.0, False),
    ],
)
def test_operands_are_moved_for_long_products_of_kernels_that_ask_for_it(name, k, alpha, moved):
    p = Problem(m=9, n=9, k=k, alpha=alpha)
    assert _cuda_launch.realigns(KERNELS[name], p) is moved


def test_kernels_that_have_operands_moved_include_the_code_that_does_it():
    wanting = {k.path for k in KERNELS.values() if k.header.realigns}
    assert wanting
    for path in wanting:
        assert "realign.cuh" in {header.name for header in source.includes(path)[0]}


@pytest.mark.parametrize(("trans_a", "trans_b"), LAYOUTS)
@pytest.mark.parametrize(("dtype", "math"), [("float16", "fp16"), ("float32", "tf32")])
def test_a_kernel_is_compiled_for_the_layout_it_reads(dtype, math, trans_a, trans_b):
    p = Problem(m=9, n=9, k=9, dtype=dtype, math=math, trans_a=trans_a, trans_b=trans_b)
    turns = dtype == "float32" and trans_a and not trans_b
    assert tma.turns_b(WGMMA, p) is turns
    found = dict(tma.defines(WGMMA, p))
    assert found == {"LAYOUT_GIVEN": 1, "TRANS_A": int(trans_a), "TRANS_B": int(trans_b or turns)}
    assert tma.swapped(WGMMA, p) is (dtype == "float32" and not trans_a and not trans_b)
    assert tma.defines(NAIVE, p) == () and tma.as_read(NAIVE, p) == p


def test_a_persistent_grid_is_planned_for_the_tile_as_the_kernel_lays_it():
    p = Problem(m=4096, n=128, k=64, dtype="float16")
    assert WGMMA.variant.tile == (128, 256, 64) and WGMMA.variant.cluster == 2
    assert _cuda_launch.blocks(WGMMA, p, 132) == 32, "edges of 128 columns beside 16 rows of tiles"
    q = Problem(m=4096, n=128, k=64, dtype="float32", math="tf32")
    assert tma.swapped(WGMMA, q) and _cuda_launch.blocks(WGMMA, q, 132) == 32, "edges of 128 rows below"
    assert _cuda_launch.blocks(WGMMA, Problem(m=0, n=4096, k=64, dtype="float16"), 132) == 0


class Driver:
    """Takes maps and notes them."""

    def __init__(self):
        self.maps = []

    def prepared(self, name, *arguments):
        assert name == "cuTensorMapEncodeTiled"
        return lambda: self.maps.append([_plain(x) for x in arguments])

    def check(self, call, code):
        assert not code


def _plain(x):
    return list(x) if hasattr(x, "__len__") else x.value


def test_maps_are_of_128_byte_boxes_with_the_batch_as_third_dimension():
    driver = Driver()
    p = Problem(m=100, n=200, k=48, batch=3, dtype="float16", trans_b=False)
    a = matrix(4096, 100, 48, 48, 3, 4800)
    b = matrix(8192, 48, 200, 208, 3, 9984)
    c = matrix(512, 100, 200, 200, 3, 20_000)
    buffers = tma.maps(driver, WGMMA, p, (a, b, c))
    assert [tma.map_address(x) % 64 for x in buffers] == [0, 0, 0]
    kinds = [(m[1], m[2], m[3], m[4], m[5], m[6], m[9]) for m in driver.maps]
    assert kinds == [
        (1, 3, 4096, [48, 100, 3], [96, 9600], [64, 128, 1], 3),
        (1, 3, 8192, [200, 48, 3], [416, 19968], [64, 64, 1], 3),
        (1, 3, 512, [200, 100, 3], [400, 40_000], [64, 64, 1], 3),
    ]


def test_boxes_are_of_128_lines_of_the_left_factor_and_64_of_the_right_one():
    for p, lines in (
        (Problem(dtype="float16", trans_b=True), (128, 64)),
        (Problem(dtype="float16", trans_a=True), (64, 64)),
        (Problem(dtype="float32", math="tf32"), (64, 32)),  # swapped: A is the right one
        (Problem(dtype="float32", math="tf32", trans_b=True), (128, 64)),
        (Problem(dtype="float32", math="3xtf32", trans_a=True, trans_b=True), (32, 64)),
    ):
        assert tma.lines(WGMMA, p) == lines


def test_a_launch_that_begins_early_says_so_to_the_driver():
    calls = []

    class Early:
        def prepared(self, name, *arguments):
            return lambda: calls.append((name, *(x.value for x in arguments)))

    run, (attribute, config) = realign.launch_early(Early(), 7, 100, (384, 1), 2048, 5, 99)
    run()
    assert calls == [("cuLaunchKernelEx", ctypes.addressof(config), 7, 99, None)]
    assert (list(config.grid), list(config.block)) == ([100, 1, 1], [384, 1, 1])
    assert (config.shared_bytes, config.stream, config.count) == (2048, 5, 1)
    assert config.attributes[0].id == attribute.id == 6 and attribute.value.flag == 1
    assert ctypes.sizeof(attribute) == 72 and ctypes.sizeof(config) == 56, "as in cuda.h"


def test_float32_is_rounded_to_tf32_by_the_engine_unless_it_must_stay_whole():
    elements = {math: tma.element(Problem(dtype="float32", math=math)) for math in ("tf32", "3xtf32")}
    assert elements == {"tf32": 11, "3xtf32": 7}


def test_no_map_for_what_is_not_read_or_cannot_be_written():
    driver = Driver()
    p = Problem(m=10, n=10, k=0, dtype="float16")
    nothing = matrix(rows=10, columns=0)
    assert len(tma.maps(driver, WGMMA, p, (nothing, nothing, matrix(address=2)))) == 3 and not driver.maps


@pytest.mark.parametrize("compute", [(8, 0), (9, 0), (10, 0)])
def test_instructions_of_one_compute_capability_alone(compute):
    refused = WGMMA.refuses(*compute)
    assert (refused is None) == (compute == (9, 0))
    assert refused is None or refused.endswith(f"this is {compute[0]}.0")
    assert NAIVE.refuses(*compute) is None


def test_too_long_for_32_bit_coordinates():
    reason = CudaKernel(WGMMA).supports(Problem(m=1, n=1, k=2**31, dtype="float16"))
    assert reason is not None and "takes extents up to" in reason


@pytest.mark.parametrize("field", ["cluster", "ctas_per_sm"])
def test_a_cluster_of_nothing_is_refused(field, tmp_path):
    path = tmp_path / "90_test.cu"
    path.write_text(WGMMA.path.read_text().replace("cluster = 2", f"{field} = 0"))
    with pytest.raises(source.HeaderError, match="must be at least 1"):
        source.parse(path)


def test_a_run_behind_one_that_moves_operands_is_two_launches_and_so_is_an_empty_one():
    said = []
    product = _cuda_launch.Launch(lambda: said.append("product"), lambda: said.append("empty"), ())
    moved = realign.Realigned(lambda: said.append("move"), (matrix(), matrix()), lambda: None, (), 640)
    launch = _cuda_launch._behind(moved, product)
    launch.run()
    launch.empty()
    assert said == ["move", "product", "empty", "empty"] and launch.config == {"realigned_bytes": 640}
    assert _cuda_launch._behind(None, product) is product


def test_memory_to_realign_is_given_back_once(monkeypatch):
    freed, contexts = [], [9]

    class Memory:
        def alloc(self, size):
            if size > 1000:
                raise cuda.CudaError("cuMemAlloc", cuda.OUT_OF_MEMORY, "", "")
            return 77

        def free(self, address):
            assert contexts[-1] == 5, "the device's own"
            freed.append(address)

        def free_memory(self):
            return 5

        def set_context(self, context):
            contexts.append(context)

        def current_context(self):
            return contexts[-1]

    device = cuda.Device(Memory(), 0, 5, "", (9, 0), 132)
    room = realign.Room(device, 10)
    room.release()
    room.release()
    assert freed == [77]
    del room
    realign.Room(device, 10)
    assert freed == [77, 77], "memory that nobody holds is freed"
    assert contexts == [9, 5, 9, 5, 9], "what the thread was at is not disturbed"
    with pytest.raises(Unavailable, match="2000 bytes of device memory are needed, 5 are"):
        realign.Room(device, 2000)


def test_the_hash_of_other_kernels_does_not_know_clusters():
    assert "CLUSTER" not in NAIVE.defines("float32") and WGMMA.defines("float16")["CLUSTER"] == 2
    wider = msgspec.structs.replace(WGMMA.variant, cluster=4)
    changed = msgspec.structs.replace(WGMMA, variant=wider)
    assert source.source_hash(changed) != source.source_hash(WGMMA)
