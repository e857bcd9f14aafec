"""Launcher "split_k": into how many parts K is cut, and the device memory in which the parts meet.

A tile of C for every block leaves most of the GPU idle when C is small, however long K is. So each tile gets
several blocks, each of which adds up one part of K; `cuda/include/split.cuh` says how they add the parts.
"""

from __future__ import annotations

from typing import NamedTuple

from ._cuda_driver import Device
from ._cuda_session import allocate
from ._cuda_source import Variant

ACC_BYTES = {"float64": 8, "float32": 4, "float16": 4, "bfloat16": 4}
"""Bytes of an `Acc` of problem.cuh."""

FAN = 16
"""How many parts one block adds at most in one step: SPLIT_FAN of split.cuh."""

_ALIGN = 256


class Split(NamedTuple):
    """splits: parts of K. sums_bytes, tickets: what all tiles together need in device memory."""

    splits: int = 1
    sums_bytes: int = 0
    tickets: int = 0


WHOLE = Split()


def choose(v: Variant, dtype: str, tiles: int, k: int, slots: int) -> Split:
    """Split K for `tiles` tiles on a device that holds `slots` blocks at one time."""
    splits = best(tiles, -(-k // v.tile[2]), slots)
    if splits == 1:
        return WHOLE
    parts = tiles * splits
    return Split(splits, parts * v.tile[0] * v.tile[1] * ACC_BYTES[dtype], parts)


def best(tiles: int, steps: int, slots: int) -> int:
    """The number of parts with the least `cost`, the smallest of equals; no part is empty."""
    if tiles < 1 or steps < 2:
        return 1
    most = max(1, 2 * slots // tiles)
    return min(range(1, min(steps, most) + 1), key=lambda splits: cost(splits, tiles, steps, slots))


def cost(splits: int, tiles: int, steps: int, slots: int) -> float:
    """Time in steps of a tile's K loop: rounds of blocks, each with its longest part, and adding up.

    Each of one or two meetings costs a block about one step, each partial tile read another 1/16.
    """
    rounds = -(-tiles * splits // slots)
    groups = -(-splits // FAN)
    meetings = 0 if splits == 1 else 1 if groups == 1 else 2
    reads = min(splits, FAN) + (groups if groups > 1 else 0)
    return rounds * -(-steps // splits) + (meetings + reads / 16 if meetings else 0.0)


class Workspace:
    """Partial sums and tickets of one prepared launch, zeroed once: the blocks reset the tickets."""

    def __init__(self, device: Device | None, split: Split, stream: int) -> None:
        self.splits, self._device = split.splits, device
        self.sums = self.tickets = self._address = 0
        if device is None or split.splits == 1:
            return
        ticket_bytes = -(-4 * split.tickets // _ALIGN) * _ALIGN
        self._address = self.tickets = allocate(device, ticket_bytes + split.sums_bytes)
        self.sums = self.tickets + ticket_bytes
        try:
            device.driver.check("zeroing tickets", device.driver.zero(self.tickets, ticket_bytes, stream)())
        except BaseException:
            self.free()
            raise

    def free(self) -> None:
        """Give the memory back; harmless when repeated."""
        address, self._address = self._address, 0
        if address and self._device is not None:
            self._device.driver.free(address)


NONE = Workspace(None, WHOLE, 0)
