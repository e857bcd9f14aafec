"""Numbers as people read them: three significant digits, decimal units."""

from __future__ import annotations

import math


def significant(value: float, digits: int = 3) -> str:
    """`value` with that many significant digits, plain between 0.0001 and ten million."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}" if 1e-4 <= abs(value) < 1e7 else f"{value:.{digits - 1}e}"


def time(seconds: float) -> str:
    """Seconds with the unit that suits: 1.23 µs, 45.6 ms, 7.89 s."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{significant(seconds * factor)} {unit}"
    return f"{significant(seconds * 1e9)} ns"


def size_bytes(count: float) -> str:
    """Bytes in binary units, as caches and memory are sold: 48 KiB, 139 GiB."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{significant(count / (1 << power))} {unit}"
    return f"{count:.0f} B"


def rate(flops: float, seconds: float) -> str:
    """GFLOP/s; empty where there is no time or no operation."""
    return significant(flops / seconds / 1e9) if flops and seconds > 0 else ""


def interval(low: float, high: float) -> str:
    """`1.23 ... 1.31`."""
    return f"{significant(low)} … {significant(high)}"
