"""What a model says of one call: the interface between whoever makes models and whoever asks them.

Nothing here predicts. A predictor is fitted elsewhere, from calibration or from the cells of a run, and is
handed to what explains, compares or exports rules.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from backends.base import HostMemory, Problem, Transfer

Bound = Literal["launch", "transfer", "bandwidth", "compute"]
"""What takes most of the time: starting and waiting, copies between host and device, the device's own memory,
or arithmetic."""

Device = Literal["cpu", "cuda"]


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """The time of one `enqueue(transfer, reuse)` on one side, whole and in parts. SI units.

    parts: seconds by name, those of `Session.parts` (h2d, launch, kernel, d2h) and others that the model has;
    they need not add up to `time_s`, since some of them hide each other.
    bound: the largest share. roof_share: how near that share comes to its roof (peak, bandwidth of memory or
    of the link), in 0 … 1; None where it has none, as a launch.
    log_sd: standard deviation of ln(true time / time_s), from residuals held out: 0.1 is about 10 %.
    backend, threads: who would stand there; empty and None where the model does not tell them apart.
    """

    time_s: float
    parts: dict[str, float]
    bound: Bound
    roof_share: float | None
    log_sd: float
    backend: str = ""
    threads: int | None = None


class Predictor(Protocol):
    """A fitted model of one machine. Pure: it measures nothing, imports no backend and takes microseconds."""

    def predict(
        self,
        problem: Problem,
        device: Device,
        transfer: Transfer,
        reuse: int = 1,
        host_memory: HostMemory = "pageable",
        threads: int | None = None,
    ) -> Prediction | None:
        """The best of that side at `problem`, None where the model has no constants for such a call.

        problem: in the arithmetic of that side (see `plan.cpu_problem`). A CPU has no transfers: there
        `transfer` changes nothing, and the time is that of `reuse` runs. threads: None for the best count; a
        number only where the model knows that count.
        """
        ...
