"""What a model says beside what was measured: why each point takes its time, and the crossover it foretells.

All of it is MODELLED: from constants fitted on a few sizes of the same machine, here or in the run's record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from .. import plan
from ..analysis import calibration, reason
from ..analysis.judged import crossing, judged, scan
from ..analysis.model import Model, of_record
from ..analysis.prediction import Device
from ..record import Cell, Run
from ..stats import interval
from .summary import CONFIDENCE, Entry, Line

CLOSE = 1.5
"""A prediction farther from the time it is to explain explains nothing."""

CURVE_STEP = 1.15
"""Ratio of neighbouring sizes of a drawn curve."""

DEVICES: tuple[Device, ...] = ("cpu", "cuda")

_models: list[tuple[Run, dict[str, Model]]] = []
"""Of the runs shown last, so that every row of a table need not fit again."""


def models(run: Run) -> dict[str, Model]:
    """By provenance of cells: of the machine measured on, and of the recorded one."""
    for known, found in _models:
        if known is run:
            return found
    found = {kind: _model(run, kind) for kind in ("measured", "recorded")}
    _models.append((run, found))
    del _models[:-4]
    return found


def _model(run: Run, kind: str) -> Model:
    cells = [cell for cell in run.cells if cell.provenance == kind]
    own = "recorded" if run.experiment == "profile" else "measured"
    kept = of_record(run.model) if kind == own else None
    return kept or calibration.tried(cells, run.machine if kind == own else None)[0]


# -- why


def why(entry: Entry, run: Run) -> str:
    """`GPU launch-bound: …; CPU compute-bound: …`."""
    sides = [("GPU", entry.gpu), ("CPU", entry.cpu)]
    found = [(name, _reason(cell, run)) for name, cell in sides if cell]
    return "; ".join(f"{name} {because.text}" for name, because in found if because)


def _reason(cell: Cell, run: Run) -> reason.Reason | None:
    """From the parts measured, else from the model where that comes near the time."""
    model = models(run).get(cell.provenance)
    if model is None or cell.calls_from != "python":
        return None
    roofs = model.roofs.get(cell.device)
    work = reason.Work.of(cell.problem, cell.device, cell.transfer, cell.reuse)
    time_s = interval(cell.times_s, CONFIDENCE).mid
    split = reason.measured(time_s, cell.parts_s, work, roofs)
    if split is not None:
        return split
    told = model.predict(
        cell.problem, cell.device, cell.transfer, cell.reuse, cell.host_memory,  # type: ignore[arg-type]
    )  # fmt: skip
    if told is None or not time_s / CLOSE < told.time_s < time_s * CLOSE:
        return None
    return reason.foretold(told, work, roofs)


# -- the crossover foretold


def predicted(line: Line, run: Run) -> str:
    """The size from which the model has the GPU win, in the range measured; empty where it has none."""
    sizes = [entry.size for entry in line.entries]
    if line.question.calls_from != "python" or len(sizes) < 2 or not _known(line, run, sizes[-1]):
        return ""
    found = crossing(lambda size: _wins(line, run, size), sizes[0], sizes[-1])
    if found is None:
        return f"> {sizes[-1]}"
    return f"≤ {sizes[0]}" if found == sizes[0] else str(found)


def curve(line: Line, run: Run) -> list[tuple[int, float]]:
    """(size, t_cpu / t_gpu) as foretold over the range measured; empty where the model has no constants."""
    sizes = [entry.size for entry in line.entries]
    if line.question.calls_from != "python" or len(sizes) < 2:
        return []
    between = sorted({*sizes, *scan(sizes[0], sizes[-1], CURVE_STEP)})
    return [(size, ratio) for size in between if (ratio := _ratio(line, run, size))]


def _known(line: Line, run: Run, size: int) -> bool:
    return _ratio(line, run, size) is not None


def _wins(line: Line, run: Run, size: int) -> bool:
    return (_ratio(line, run, size) or 0.0) > 1


def _ratio(line: Line, run: Run, size: int) -> float | None:
    q = line.question
    times: list[float] = []
    for device in DEVICES:
        dtype, math = q.side(device)
        problem = plan.problem_at(q.op, plan.family(q.shape, q.op), size, dtype, math, batch=q.batch or 1)
        held = q.threads if device == "cpu" else None
        told = models(run)[_provenance(line, device)].predict(
            problem, device, q.transfer, q.reuse, q.host_memory, held,  # type: ignore[arg-type]
        )  # fmt: skip
        if told is None:
            return None
        times.append(told.time_s)
    return times[0] / times[1] if times[1] > 0 else None


def _provenance(line: Line, device: str) -> str:
    recorded = line.comparison == "recorded" or (line.comparison == "cross-machine" and device == "cuda")
    return "recorded" if recorded else "measured"


# -- how good it is


def note(run: Run, lines: Sequence[Line]) -> Iterable[str]:
    """On what the model was fitted and how far it is off elsewhere."""
    found = [
        one
        for kind, model in models(run).items()
        for one in judged(model, (cell for cell in run.cells if cell.provenance == kind))
    ]
    errors = {
        name: [one.median for one in found if one.key[0] == device]
        for name, device in (("CPU", "cpu"), ("GPU", "cuda"))
    }
    said = [f"{median(off) * 100:.0f} % for the {name}" for name, off in errors.items() if off]
    if said:
        most = max(one.fitted for one in found)
        yield (
            f"MODELLED, fitted on {most} sizes of each side: the model's times are off by "
            f"{' and '.join(said)} at the other sizes (median). `predicted` is its crossover; `why` is its "
            "largest share, where no split was measured."
        )


ERRORS = ("side", "operation", "host memory", "transfer", "fitted on", "held out", "off by (median)", "worst")


def errors(run: Run) -> tuple[tuple[str, ...], ...]:
    """For each side and transfer mode: sizes fitted on and held out, and how far times are off there."""
    rows = []
    for kind, model in models(run).items():
        for one in judged(model, (cell for cell in run.cells if cell.provenance == kind)):
            device, op, dtype, _, memory, _ = one.key
            side = "CPU" if device == "cpu" else "GPU"
            mode = "" if device == "cpu" else one.transfer
            off = [f"{share * 100:.0f} %" for share in (one.median, one.worst)]
            rows.append((side, f"{op} {dtype}", memory, mode, str(one.fitted), str(one.held_out), *off))
    return tuple(sorted(rows))
