"""What a persistent grid deals out: every entry of C once, evenly; and the number of its blocks."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest

from backends import _cuda_plan as plan
from backends import _cuda_source as source
from backends._cuda_source import Variant
from tests.cuda_on_cpu import device as stand_in

pytestmark = pytest.mark.skipif(bool(stand_in.missing()), reason=stand_in.missing() or "compilers are here")

KINDS = [((128, 256), 2, 2), ((128, 256), 1, 2), ((128, 128), 2, 2), ((128, 256), 4, 4), ((128, 128), 1, 1)]
EXTENTS = (1, 64, 65, 128, 129, 200, 256, 257, 320, 385, 511, 512, 513, 700)


def variant(tile, cluster, cuts):
    return Variant(threads=(384, 1), tile=(*tile, 64), cluster=cluster, defines={"CUTS": cuts})


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan.so"
    text = stand_in.HERE / "plan_on_cpu.cpp"
    include = f"-I{source.root() / 'include'}"
    flags = ["-std=c++17", "-O2", "-shared", "-fPIC", "-fsanitize=undefined", "-fno-sanitize-recover"]
    subprocess.run(["g++", *flags, include, text, "-o", path], check=True)
    return ctypes.CDLL(str(path))


def cover(library, kind, extents, batch, blocks):
    """(how often each entry is computed, tiles' worth of columns that each block multiplies)"""
    (tile, cluster, cuts), (m, n) = kind, extents
    counts, work = np.zeros((batch, m, n), np.uint8), np.zeros(blocks)
    call = library[f"cover_{tile[0]}_{tile[1]}_{cluster}_{cuts}"]
    call.restype = ctypes.c_longlong
    call.argtypes = [*[ctypes.c_longlong] * 3, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p]
    assert call(m, n, batch, blocks, counts.ctypes.data, work.ctypes.data) == 0
    return counts, work


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_entry_is_computed_once_on_any_number_of_blocks(library, kind):
    tile, cluster, cuts = kind
    for i, (m, n) in enumerate((m, n) for m in EXTENTS for n in EXTENTS):
        batch = 1 + i % 3
        chosen = plan.blocks(variant(tile, cluster, cuts), (m, n), batch, 132)
        for blocks in {cluster, 3 * cluster, 7 * cluster, chosen}:
            counts, _ = cover(library, kind, (m, n), batch, blocks)
            assert (counts == 1).all(), (m, n, batch, blocks)


@pytest.mark.parametrize(
    ("size", "most"),
    [(4096, 4), (4104, 4.5), (4168, 4.5), (4232, 4.5), (1000, 0.5), (1024, 0.5), (1100, 0.5), (2048, 1)],
)
def test_the_last_round_is_short(library, size, most):
    kind = KINDS[0]
    blocks = plan.blocks(variant(*kind), (size, size), 1, 132)
    counts, work = cover(library, kind, (size, size), 1, blocks)
    assert (counts == 1).all() and work.max() <= most and blocks <= 132


@pytest.mark.parametrize(
    ("extents", "multiprocessors", "blocks"),
    [
        ((1, 1), 132, 2),
        ((257, 257), 132, 10),  # a tile in two pieces, two edges to the right and below
        ((4104, 4104), 132, 132),  # 256 tiles, and 33 edges for those that have one tile less
        ((4096, 4096), 132, 128),  # 256 clusters: four rounds on 66 and on 64
        ((4096, 4096), 4096, 1024),
        ((8192, 8192), 132, 128),
        ((4352, 4352), 132, 132),  # 25 tiles more than four rounds of 66: in two pieces each
        ((256 * 67, 256), 132, 132),
        ((4096, 4096), 1, 2),
    ],
)
def test_blocks_are_in_whole_clusters_and_evenly_loaded(extents, multiprocessors, blocks):
    assert plan.blocks(variant((128, 256), 2, 2), extents, 1, multiprocessors) == blocks


def test_a_batch_is_one_row_of_work():
    v = variant((128, 256), 2, 2)
    assert plan.items(v, (300, 300), 7) == (7, 21)
    assert plan.items(v, (0, 300), 7) == (0, 0)
