"""Why a call takes as long as it does, in words: which part is the largest, and how far from its roof.

From the parts of one call, measured or foretold. Parts that were measured count only where the session was
awake and waited for: such a split names its `wait`. Older records have none, and get no reason from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from backends.base import Problem

from .model import Roofs, amount_done, kernel_bound, roof_share, times_copied
from .prediction import Bound, Prediction

MOST = 0.5
"""A share from here on is the one bound; below it, the two largest are named."""

VERBS: dict[Bound, str] = {
    "launch": "launching and waiting",
    "transfer": "copying",
    "bandwidth": "reading and writing memory",
    "compute": "arithmetic",
}


class Reason(NamedTuple):
    """bound: the largest share. text: `launch-bound: 8.1 of 10.4 µs are launching and waiting; …`."""

    bound: Bound
    text: str


class Work(NamedTuple):
    """What a call did: runs of a problem, and how often its operands were copied to the device and back."""

    problem: Problem
    runs: int
    copied: int

    @classmethod
    def of(cls, problem: Problem, device: str, transfer: str, reuse: int) -> Work:
        """Of one `enqueue(transfer, reuse)` on that device."""
        return cls(problem, reuse, times_copied(device, transfer, reuse))


def foretold(told: Prediction, work: Work, roofs: Roofs | None) -> Reason:
    """From the parts of a prediction."""
    parts = told.parts
    shares: dict[Bound, float] = {
        "launch": parts.get("launch", 0.0),
        "transfer": parts.get("h2d", 0.0) + parts.get("d2h", 0.0),
        kernel_bound(work.problem, roofs): parts.get("kernel", 0.0),
    }
    return in_words(shares, sum(shares.values()), work, roofs)


def measured(
    time_s: float, parts: Mapping[str, float] | None, work: Work, roofs: Roofs | None
) -> Reason | None:
    """From the parts of one run as a session split them; None where they cannot be those of this time.

    What is neither copied nor in the kernel is launching and waiting.
    """
    if not parts or "wait" not in parts or time_s <= 0:
        return None
    copies = work.copied * (parts.get("h2d", 0.0) + parts.get("d2h", 0.0))
    kernel = work.runs * parts.get("kernel", 0.0)
    if copies + kernel > 1.1 * time_s:
        return None
    shares: dict[Bound, float] = {
        "launch": max(0.0, time_s - copies - kernel),
        "transfer": copies,
        kernel_bound(work.problem, roofs): kernel,
    }
    return in_words(shares, time_s, work, roofs)


def in_words(shares: Mapping[Bound, float], time_s: float, work: Work, roofs: Roofs | None) -> Reason:
    """The largest share, or the two largest where none is half of the time, and their distance to a roof."""
    ranked = sorted(shares, key=lambda name: -shares[name])
    top = ranked[0]
    if time_s <= 0:
        return Reason(top, "")
    if shares[top] >= MOST * time_s:
        head = f"{top}-bound: {_part(shares[top], time_s)} {VERBS[top]}"
    else:
        head = " and ".join(f"{name} {_percent(shares[name] / time_s)}" for name in ranked[:2])
    return Reason(top, head + _roof(top, shares, time_s, work, roofs))


def _part(part_s: float, time_s: float) -> str:
    """`8.1 of 10.4 µs are` where these are short, `87 % of the time is` else."""
    if time_s < 1e-4:
        return f"{part_s * 1e6:.1f} of {time_s * 1e6:.1f} µs are"
    return f"{_percent(part_s / time_s)} of the time is"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.01 else "under 1 %"


def _roof(top: Bound, shares: Mapping[Bound, float], time_s: float, work: Work, roofs: Roofs | None) -> str:
    """How near the largest share comes to its roof; of a launch, how near the whole call comes to one."""
    over, seconds = top, shares[top]
    if top == "launch":
        over, seconds = "compute" if work.problem.op == "gemm" else "bandwidth", time_s
    done = amount_done(over, work.problem, work.copied, work.runs)
    share = roof_share(roofs, over, work.problem.math, done, seconds)
    if share is None or roofs is None:
        return ""
    text = f"{_percent(share)} of {_roof_name(over, work.problem.math, roofs)}"
    return f"; {text}" if top == "launch" else f", at {text}"


def _roof_name(bound: Bound, math: str, roofs: Roofs) -> str:
    if bound == "compute":
        rate, what = f"{roofs.flops[math] / 1e12:.3g} TFLOP/s", "peak"
    else:
        per_s = roofs.link if bound == "transfer" else roofs.memory
        rate, what = f"{per_s / 1e9:.0f} GB/s", "link" if bound == "transfer" else "memory"
    return f"the {rate} {what}" if roofs.measured else f"{rate}, the best seen here"
