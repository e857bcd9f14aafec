"""The speed-up (or, with no GPU figure, the CPU's time) over size, drawn in letters in the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec
import plotext
from rich.console import Console
from rich.text import Text

from ..plan import words
from ..stats import interval
from .figures import significant, time
from .summary import Line, worth_points
from .terminal import utf8

HEIGHT = 18
NARROWEST = 40
ASCII = str.maketrans("┌┐└┘├┤┬┴┼─│µ", "+++++++++-|u")


class Curve(msgspec.Struct, frozen=True):
    """One line of a plot: sizes and positive values, its letter and its name."""

    letter: str
    name: str
    sizes: tuple[int, ...]
    values: tuple[float, ...]


def speedups(lines: Iterable[Line]) -> list[Curve]:
    """One curve of t_cpu/t_gpu for each line that has any."""
    found = []
    for line in lines:
        points = [point for point in line.crossover.points if point.ratio.mid > 0]
        if points:
            values = tuple(point.ratio.mid for point in points)
            found.append(Curve("", name(line), tuple(point.size for point in points), values))
    return _lettered(found)


def cpu_times(lines: Iterable[Line]) -> list[Curve]:
    """One curve of CPU seconds for each line, for where there is no GPU figure at all."""
    found = []
    for line in lines:
        timed = [(entry.size, interval(entry.cpu.times_s).mid) for entry in line.entries if entry.cpu]
        timed = [(size, seconds) for size, seconds in timed if seconds > 0]
        if timed:
            sizes, values = zip(*timed, strict=True)
            found.append(Curve("", f"CPU {name(line, cpu_alone=True)}", sizes, values))
    return _lettered(found)


def name(line: Line, cpu_alone: bool = False) -> str:
    """What tells a line from the others of its run. cpu_alone: with the arithmetic of the CPU side only."""
    q = line.question
    arithmetic = words(*q.side("cpu")) if cpu_alone else q.arithmetic
    mark = {"measured": "", "recorded": ", RECORDED", "cross-machine": ", CPU here against RECORDED GPU"}
    return f"{arithmetic} {q.mode} {q.host_memory}{mark[line.comparison]}"


def _lettered(curves: Sequence[Curve]) -> list[Curve]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return [msgspec.structs.replace(curve, letter=letters[i % 26]) for i, curve in enumerate(curves)]


def show(out: Console, lines: Sequence[Line], recorded: str = "") -> None:
    """Draw the plot, as wide as the terminal; nothing where it is too narrow or there is nothing to draw."""
    curves = speedups(lines)
    title = "Speed-up by the GPU over size: above the line at 1 the GPU is faster"
    if not curves:
        curves, title = cpu_times(worth_points(lines)), "CPU time over size (no GPU figures)"
    if not curves or out.width < NARROWEST:
        return
    text = draw(curves, min(out.width, 110), level=1.0 if title.startswith("Speed") else None)
    out.print(Text(title, style="bold"))
    if recorded:
        out.print(Text(recorded))
    out.print(Text(text if utf8(out) else text.translate(ASCII), no_wrap=True))
    for curve in curves:
        out.print(Text(f"  {curve.letter}  {curve.name}"))


def draw(curves: Sequence[Curve], width: int, level: float | None) -> str:
    """The curves on logarithmic axes as plain text; `level` is where a horizontal line goes."""
    figure = plotext.figure
    figure.clear()
    figure.plot_size(width, HEIGHT)
    figure.theme("colorless")
    if level is not None:
        figure.line(math.log10(level), "h")
    for curve in curves:
        x, y = map(math.log2, curve.sizes), map(math.log10, curve.values)
        signal = figure.signal(list(x), list(y), marker=curve.letter)
        signal.lines(len(curve.sizes) > 1)
        figure.draw(signal)
    sizes = sorted({size for curve in curves for size in curve.sizes})
    kept = _spaced([math.log2(size) for size in sizes], max(2, width // 9))
    figure.ruler("x").ticks([math.log2(sizes[i]) for i in kept], [str(sizes[i]) for i in kept])
    values = [value for curve in curves for value in curve.values] + ([level] if level else [])
    ticks = _decades(min(values), max(values))
    label = significant if level else time
    figure.ruler("y").ticks([math.log10(tick) for tick in ticks], [label(tick) for tick in ticks])
    return str(figure.build().string(colorless=True)).rstrip("\n")


def _spaced(places: Sequence[float], most: int) -> list[int]:
    """Indices of places that lie far enough apart for at most `most` labels."""
    apart = (places[-1] - places[0]) / most
    kept = [0]
    for i, place in enumerate(places):
        if place - places[kept[-1]] >= apart > 0:
            kept.append(i)
    return kept


def _decades(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    inside = [10.0**power for power in powers if low <= 10.0**power <= high]
    return inside if len(inside) > 1 else [low, *inside, high]
