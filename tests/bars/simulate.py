"""The engine on many simulated machines: how often it is right, how sure, and what it takes.

    python tests/bars/simulate.py --machines 1000 docs/records/simulated.json

Every level of noise has as many machines, each with drift as large as its noise, heavy one-sided tails and
spells of a held-down clock; every fourth has an isolated flip, half of those at a size of the coarse sweep.
The record is written anew every few machines, so that an interrupted call leaves one with the counts reached.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "unit")]

from machines import COARSE, Machine, search, truths  # noqa: E402

from suite.journal import atomic_write  # noqa: E402

NOISE = (0.01, 0.05, 0.2)
TAILS, THROTTLE, FLIPPED = 0.05, 0.1, 4
CLEAR = (0.8, 1.25)


def machine(seed: int, noise: float) -> Machine:
    """The seed-th machine of a level of noise, with every trouble at once."""
    made = Machine(seed, noise, drift=noise, tails=TAILS, throttle=THROTTLE)
    if seed % FLIPPED == 0:
        rng = random.Random(seed)
        made.flip = rng.choice(COARSE) if seed % (2 * FLIPPED) == 0 else 8 * rng.randrange(2, 512)
    return made


def judge(seed: int, noise: float, budget_s: float) -> dict:
    """One machine: whether its truth lies in the band, wrong verdicts, undecided sizes, the band, visits."""
    made = machine(seed, noise)
    found = search(made, budget_s)
    clear = [p for p in found.points if not CLEAR[0] <= made.ratio(p.size) <= CLEAR[1]]
    low, high = found.band
    return {
        "held": truths(made).held_by(found),
        "points": len(found.points),
        "wrong": sum(made.contradicted_by(p) for p in found.points),
        "clear": len(clear),
        "undecided": sum(p.ratio.verdict == "undecided" for p in clear),
        "width": (high - low) / low if low and high else None,
        "steps": (high - low) / made.step(low) if low and high else None,
        "visits": made.visits,
    }


def summary(judged: list[dict]) -> dict:
    """The figures of one level."""
    widths = [one["width"] for one in judged if one["width"] is not None]
    steps = [one["steps"] for one in judged if one["steps"] is not None]
    return {
        "machines": len(judged),
        "held": sum(one["held"] for one in judged) / len(judged),
        "machines_with_a_wrong_verdict": sum(one["wrong"] > 0 for one in judged) / len(judged),
        "wrong_verdicts": sum(one["wrong"] for one in judged) / sum(one["points"] for one in judged),
        "undecided_outside_0.8_1.25": sum(o["undecided"] for o in judged)
        / max(1, sum(o["clear"] for o in judged)),
        "machines_without_a_two_sided_band": (len(judged) - len(widths)) / len(judged),
        "median_band": statistics.median(widths) if widths else None,
        "median_band_steps": statistics.median(steps) if steps else None,
        "visits_median": statistics.median(one["visits"] for one in judged),
        "visits_most": max(one["visits"] for one in judged),
    }


def main() -> None:
    """Judge, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("--machines", type=int, default=1000, help="for each level of noise")
    parser.add_argument("--first", type=int, default=0, help="seed of the first machine")
    parser.add_argument("--budget", type=float, default=60.0, help="simulated seconds for each machine")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no machine after these")
    options = parser.parse_args()
    start = time.monotonic()
    judged: dict[float, list[dict]] = {noise: [] for noise in NOISE}
    for number in range(options.machines):
        if time.monotonic() - start > options.seconds:
            break
        for noise, found in judged.items():
            found.append(judge(options.first + number, noise, options.budget))
        if number % 25 == 24 or number + 1 == options.machines:
            write(options, judged)


def write(options: argparse.Namespace, judged: dict[float, list[dict]]) -> None:
    """The record, and a line for whoever waits."""
    levels = {f"{noise:g}": summary(found) for noise, found in judged.items()}
    about = {
        "what": "the search on simulated machines with a known crossover, null backend",
        "troubles": {"drift": "as the noise", "tails": TAILS, "throttle": THROTTLE, "flipped": 1 / FLIPPED},
        "asked_machines": options.machines,
        "first_seed": options.first,
        "budget_s": options.budget,
        "levels": levels,
    }
    atomic_write(options.target, json.dumps(about, indent=1) + "\n")
    print(json.dumps({k: {n: round(v, 4) for n, v in x.items() if v is not None} for k, x in levels.items()}))


if __name__ == "__main__":
    main()
