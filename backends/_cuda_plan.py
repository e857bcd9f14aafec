"""How many blocks a persistent grid has: what cuda/include/tile_plan.cuh deals out, counted on the host."""

from __future__ import annotations

from ._cuda_source import Variant


def blocks(v: Variant, extents: tuple[int, int], batch: int, multiprocessors: int) -> int:
    """No more blocks than the device holds at one time, in whole clusters.

    No more than there is work for, either; and where there are whole tiles alone, no more than gives each
    its share: 256 tiles on 132 multiprocessors take two rounds on 128 as well.
    """
    held = max(1, multiprocessors * v.ctas_per_sm // v.cluster)
    tiles, edges = items(v, extents, batch)
    cut = cuts(v, tiles % held, held)
    if tiles < held:
        return v.cluster * min(held, tiles * cut + edges)
    if edges or cut > 1:
        return v.cluster * held
    return v.cluster * _ceil(tiles, _ceil(tiles, held))


def items(v: Variant, extents: tuple[int, int], batch: int) -> tuple[int, int]:
    """(tiles of a cluster, edges that fill no more than a part of one) of all products."""
    (m, n), (tile_m, tile_n, _) = extents, v.tile
    tall, most = tile_m * v.cluster, v.defines.get("CUTS", 1)
    rows = _ceil(m - (tile_m if v.cluster > 1 else 0), tall)
    columns = _ceil(n - (tile_n // 2 if most > 1 else 0), tile_n)
    beside = rows if n > columns * tile_n else 0
    below = _ceil(n, tile_n) if m > rows * tall else 0
    return batch * rows * columns, batch * (beside + below)


def cuts(v: Variant, rest: int, clusters: int) -> int:
    """Into how many pieces the tiles of an incomplete last round are cut: 1 if they are not."""
    most, found = v.defines.get("CUTS", 1), 1
    while rest and found < most and rest * found * 2 <= clusters:
        found *= 2
    return found


def _ceil(extent: int, tile: int) -> int:
    return -(-extent // tile)
