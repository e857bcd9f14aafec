"""The constants of a machine's model, in the terminal and as Markdown, and how sure they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

from rich.console import Console
from rich.text import Text

from .. import calibrate_judge
from ..analysis.model import Model, Roofs, Side, Terms, of_record
from ..journal import readable
from ..record import Run
from . import figures, markdown, tidy
from .comparison import fitted, machine_line
from .tables import Shown
from .terminal import show_table

__all__ = ["check", "makers", "show"]

SIDES = (
    "side", "operation", "host memory", "way", "latency", "GFLOP/s at most", "GB/s at most",
    "GB/s beyond the cache", "hidden when queued", "off by",
)  # fmt: skip

LINKS = ("host memory", "latency", "GB/s in", "GB/s out", "GB/s in beyond the cache")
JUDGED = ("operation", "shape", "MxNxK", "side", "transfer", "measured", "predicted", "off by")
ROOFS_TITLE = "roofs"
ROOFS = ("side", "FLOP/s", "memory GB/s", "link GB/s", "from")


def check(run: Run) -> None:
    """ValueError for a record without constants."""
    _model(run)


def _model(run: Run) -> Model:
    found = of_record(run.model)
    if found is None:
        raise ValueError("the run holds no constants of a model: too few sizes were timed on either side")
    return found


def show(run: Run, out: Console, *, quiet: bool = False) -> None:
    """Print the constants; quiet: without the machine and the roofs."""
    if not quiet:
        out.print(Text(machine_line(run)))
    for table in tables(run):
        if quiet and table.title == ROOFS_TITLE:
            continue
        shown = fitted(table, out.width)
        show_table(
            out, shown.title, shown.columns, shown.rows, "\n".join(f"* {note}" for note in shown.notes)
        )


def makers(run: Run) -> dict[str, Callable[[], bytes]]:
    """For each kind of export the function that makes its bytes."""
    return {
        "json": lambda: readable(run),
        "csv": lambda: tidy.render(run),
        "markdown": lambda: "\n".join(markdown.table(table) for table in tables(run)).encode(),
    }


def tables(run: Run) -> list[Shown]:
    """Sides, links, roofs; a table without rows is left out."""
    model = _model(run)
    found = [
        Shown(
            "MODELLED: constants of each side",
            SIDES,
            tuple(row for side in model.sides for row in side_rows(side)),
            notes=(
                "off by: standard deviation at sizes left out of the fit, largest of the transfer modes.",
            ),
            spare=("hidden when queued", "GB/s beyond the cache", "host memory"),
        ),
        Shown("MODELLED: copies between host and device", LINKS, tuple(link_rows(model))),
        Shown(ROOFS_TITLE, ROOFS, tuple(roof_row(*pair) for pair in model.roofs.items())),
        judged(run, model),
    ]
    return [table.filled() for table in found if table.rows]


def judged(run: Run, model: Model) -> Shown:
    """The model beside what was measured where it was not fitted; without rows where nothing was."""
    held_out = set(run.options.get("held_out", ()))
    found = calibrate_judge.told(model, [cell for cell in run.cells if cell.group in held_out])
    notes = [
        f"{name} times are off by {median(off) * 100:.0f} % (median), {max(off) * 100:.0f} % at worst"
        for name, device in (("CPU", "cpu"), ("GPU", "cuda"))
        if (off := [one.off for one in found if one.device == device])
    ]
    right, total = calibrate_judge.crossed(found)
    notes += [f"the quicker side is named in {right} of {total} comparisons"] if total else []
    title = "MODELLED beside measured, at sizes and shapes it was not fitted on"
    return Shown(title, JUDGED, tuple(map(judged_row, found)), tuple(notes))


def judged_row(one: calibrate_judge.Told) -> tuple[str, ...]:
    """One problem on one side in one mode."""
    p = one.problem
    sizes = f"{p.m}x{p.n}x{p.k}" if p.op == "gemm" else f"{p.m}x{p.n}"
    mode = "" if one.device == "cpu" else f"{one.transfer} x{one.reuse}" if one.reuse > 1 else one.transfer
    side = "CPU" if one.device == "cpu" else "GPU"
    times = figures.time(one.measured_s), figures.time(one.predicted_s)
    return f"{p.op} {p.dtype}", one.shape, sizes, side, mode, *times, f"{one.off * 100:.0f} %"


def side_rows(side: Side) -> Iterator[tuple[str, ...]]:
    """One for each way of computing."""
    for way in side.terms:
        yield (
            "CPU" if side.device == "cpu" else "GPU",
            f"{side.op} {side.dtype}" + (f" in {side.math}" if side.math not in ("fp32", "fp64") else ""),
            side.host_memory,
            f"{way.backend}{f' x{way.threads}' if way.threads else ''}",
            figures.time(way.latency_s) if way.latency_s else "",
            _per_s(way.flop_s),
            _per_s(way.byte_s),
            _far(way),
            figures.time(side.hidden_s) if side.hidden_s else "",
            f"{max(side.log_sd.values(), default=0.0) * 100:.0f} %",
        )


def _far(way: Terms) -> str:
    if not way.far_byte_s:
        return ""
    return f"{_per_s(way.byte_s + way.far_byte_s)} beyond {figures.size_bytes(way.near_bytes)}"


def link_rows(model: Model) -> Iterator[tuple[str, ...]]:
    """One for each kind of host memory."""
    for link in model.links:
        far = _per_s(link.byte_s + link.in_s + link.far_s) if link.far_s else ""
        yield (
            link.host_memory,
            figures.time(link.latency_s) if link.latency_s else "",
            _per_s(link.byte_s + link.in_s),
            _per_s(link.byte_s + link.out_s),
            f"{far} beyond {figures.size_bytes(link.near_bytes)}" if far else "",
        )


def roof_row(device: str, roofs: Roofs) -> tuple[str, ...]:
    """The rates that nothing exceeds."""
    rates = ", ".join(f"{math} {rate / 1e12:.3g} T" for math, rate in roofs.flops.items() if rate)
    memory, link = (f"{rate / 1e9:.0f}" if rate else "" for rate in (roofs.memory, roofs.link))
    where = "measured with instructions alone" if roofs.measured else "the best rate of any run"
    return "CPU" if device == "cpu" else "GPU", rates, memory, link, where


def _per_s(seconds: float) -> str:
    """A thousand million of them a second."""
    return figures.significant(1e-9 / seconds) if seconds else ""
