"""The speed-up over size as SVG (or PNG), by matplotlib: the extra `plot`."""

from __future__ import annotations

import io
from typing import Any

from ..exits import Exit, Stop
from ..record import Run
from . import model, notes, plot, summary, tables


def require() -> None:
    """Stop, with the cure, unless matplotlib can be imported."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise Stop("--export-svg needs matplotlib: pip install 'gemm-crossover[plot]'", Exit.USAGE) from None


def render(run: Run, kind: str = "svg") -> bytes:
    """The plot of a run; `kind` is svg or png. RECORDED stands in the title where it holds."""
    require()
    from matplotlib.figure import Figure

    lines = summary.lines(run)
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    curves = plot.speedups(lines)
    if curves:
        _speedups(axes, run, lines)
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.set_ylabel("speed-up t_cpu / t_gpu")
    else:
        for curve in plot.cpu_times(summary.worth_points(lines)):
            axes.plot(curve.sizes, curve.values, marker="o", label=curve.name)
        axes.set_ylabel("CPU time in s")
    axes.set(xscale="log", yscale="log", xlabel="size", title=tables.provenance(run) or notes.conditions(run))
    axes.title.set_fontsize(9)
    if lines:
        axes.legend(fontsize=8)
    return _saved(figure, kind)


def _speedups(axes: Any, run: Run, lines: list[summary.Line]) -> None:
    told = "dashed: MODELLED"  # in the legend once
    for line in lines:
        points = [point for point in line.crossover.points if point.ratio.mid > 0]
        if points:
            sizes = [point.size for point in points]
            drawn = axes.plot(sizes, [p.ratio.mid for p in points], marker="o", label=plot.name(line))[0]
            low = [max(p.ratio.low, p.ratio.mid / 100) for p in points]
            high = [min(p.ratio.high, p.ratio.mid * 100) for p in points]
            axes.fill_between(sizes, low, high, alpha=0.2, color=drawn.get_color())
            if modelled := model.curve(line, run):
                style = {"linestyle": "--", "linewidth": 0.9, "color": drawn.get_color()}
                axes.plot(*zip(*modelled, strict=True), label=told, **style)
                told = "_none"


def _saved(figure: Any, kind: str) -> bytes:
    target = io.BytesIO()
    figure.savefig(target, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return target.getvalue()
