"""From which size the GPU is worth it: a pure function of the ratios at the sizes that were measured.

First win: the smallest measured size with a win.
Isolated loss: a measured size with a loss whose two nearest measured sizes below and two nearest above are
all wins, and whose direct neighbours lie no farther apart than the coarse spacing: a reversal narrower than
what the sweep claims to see. One neighbour short on either side, or a loss beside another, is not isolated.
Stable from: the smallest measured size with a win from which no measured size is a loss or undecided,
isolated losses excepted; they are listed by name.
Band: the true crossover lies above `band[0]`, the largest loss below the stable region, and at most at
`band[1]`, where that begins; all in between is undecided or reverses. None: no such size was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from backends.base import Problem
from suite.record import Cell

from . import visits
from .controls import NO_CONTROLS, Resolution, group_resolution, run_resolution
from .ratio import UNKNOWN, Ratio

Kind = Literal["crosses", "<= smallest", "> largest", "undecided", "nothing measured"]


class Point(msgspec.Struct, frozen=True):
    """One measured size: the ratio there, and which CPU backend at how many threads met which GPU backend."""

    size: int
    ratio: Ratio
    cpu: str = ""
    gpu: str = ""
    cpu_threads: int | None = None


class Change(msgspec.Struct, frozen=True):
    """Two decided sizes without another between them, whose verdicts differ; `to` is the larger one's."""

    low: int
    high: int
    to: Literal["win", "loss"]


class Crossover(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. Sizes are measured sizes; see the head of this module for the definitions.

    kind: `crosses` (a loss, then stable wins); `<= smallest` (stable from the smallest size on);
    `> largest` (a loss at the largest size); `undecided` (the largest size, or everything below the stable
    region, is undecided). resolution: the smallest ratio that the controls of the run can tell from 1.
    """

    kind: Kind
    points: tuple[Point, ...] = ()
    first_win: int | None = None
    stable_from: int | None = None
    band: tuple[int | None, int | None] = (None, None)
    undecided: tuple[int, ...] = ()
    isolated_losses: tuple[int, ...] = ()
    changes: tuple[Change, ...] = ()
    spacing: float = 2.0
    resolution: float = math.inf
    cpu: str = ""
    gpu: str = ""
    cpu_threads: int | None = None

    @property
    def completeness(self) -> str:
        """What the sweep can have missed, in words."""
        return f"reversals narrower than a factor of {self.spacing:g} in size may have been missed"


def crossover(points: Sequence[Point], *, spacing: float = 2.0, resolution: float = math.inf) -> Crossover:
    """The crossover of points in any order, one per size.

    spacing: largest ratio of neighbouring sizes of the coarse sweep. ValueError when a size comes twice.
    """
    points = tuple(sorted(points, key=lambda point: point.size))
    if any(a.size == b.size for a, b in pairwise(points)):
        raise ValueError(f"sizes must differ, got {[point.size for point in points]}")
    if not points:
        return Crossover(kind="nothing measured", spacing=spacing, resolution=resolution)
    isolated = _isolated(points, spacing)
    stable = _stable(points, isolated)
    kind, band = _kind(points, stable)
    stood = points[-1] if stable is None else points[stable]
    return Crossover(
        kind=kind,
        points=points,
        first_win=next((p.size for p in points if p.ratio.verdict == "win"), None),
        stable_from=None if stable is None else points[stable].size,
        band=band,
        undecided=tuple(p.size for p in points if p.ratio.verdict == "undecided"),
        isolated_losses=tuple(points[i].size for i in isolated),
        changes=tuple(_changes(points)),
        spacing=spacing,
        resolution=resolution,
        cpu=stood.cpu,
        gpu=stood.gpu,
        cpu_threads=stood.cpu_threads,
    )


def _isolated(points: Sequence[Point], spacing: float) -> list[int]:
    verdicts = [point.ratio.verdict for point in points]
    pattern = ["win", "win", "loss", "win", "win"]
    return [
        i
        for i in range(2, len(points) - 2)
        if verdicts[i - 2 : i + 3] == pattern and points[i + 1].size <= spacing * points[i - 1].size
    ]


def _stable(points: Sequence[Point], isolated: Sequence[int]) -> int | None:
    """Index from which all are wins or isolated losses, itself a win; None when the last is neither."""
    stable = None
    for i in reversed(range(len(points))):
        if points[i].ratio.verdict == "win":
            stable = i
        elif i not in isolated:
            break
    return stable


def _kind(points: Sequence[Point], stable: int | None) -> tuple[Kind, tuple[int | None, int | None]]:
    below = points if stable is None else points[:stable]
    low = next((p.size for p in reversed(below) if p.ratio.verdict == "loss"), None)
    if stable is None:
        return ("> largest" if points[-1].ratio.verdict == "loss" else "undecided"), (low, None)
    kind: Kind = "<= smallest" if stable == 0 else "crosses" if low is not None else "undecided"
    return kind, (low, points[stable].size)


def _changes(points: Sequence[Point]) -> Iterable[Change]:
    decided = [point for point in points if point.ratio.verdict != "undecided"]
    for a, b in pairwise(decided):
        if a.ratio.verdict != b.ratio.verdict and b.ratio.verdict != "undecided":
            yield Change(a.size, b.size, b.ratio.verdict)


def by_group(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Cells by comparison group, in the order in which groups first appear."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.group, []).append(cell)
    return groups


def resolutions(cells: Iterable[Cell], confidence: float = 0.95) -> dict[str, Resolution]:
    """Of each comparison group; one without controls has the run's."""
    found = {key: group_resolution(group, confidence) for key, group in by_group(cells).items()}
    run = run_resolution(list(found.values()))
    return {key: one if one.controls else run for key, one in found.items()}


def points(
    cells: Iterable[Cell],
    transfer: str,
    reuse: int,
    size_of: Callable[[Problem], int],
    confidence: float = 0.95,
) -> list[Point]:
    """The points of one transfer mode; groups in which a side has no time are left out.

    Every verdict is held to the resolution of its own group, or of the run where that had no controls.
    """
    cells = list(cells)
    limits = resolutions(cells, confidence)
    found: dict[int, Point] = {}
    seen: dict[int, visits.Seen] = {}
    for key, group in by_group(cells).items():
        cpu, gpu = (candidate(group, device, transfer, reuse) for device in ("cpu", "cuda"))
        if cpu is not None and gpu is not None:
            size, limit = size_of(cpu.problem), limits.get(key, NO_CONTROLS).ratio
            one = visits.seen(cpu, gpu, confidence, limit if math.isfinite(limit) else 1.0)
            found[size] = Point(size, UNKNOWN, cpu.backend, gpu.backend, cpu.threads)
            seen.update({size: one} if one is not None else {})
    known = visits.ratios(seen, confidence)
    return [msgspec.structs.replace(p, ratio=known.get(size, UNKNOWN)) for size, p in found.items()]


def candidate(cells: Iterable[Cell], device: str, transfer: str, reuse: int) -> Cell | None:
    """The timed candidate of one side and mode in a group, None when that side has no time."""
    wanted = ("candidate", device, transfer, reuse)
    timed = (cell for cell in cells if cell.samples_s and cell.calls_from == "python")
    return next((c for c in timed if (c.role, c.device, c.transfer, c.reuse) == wanted), None)
