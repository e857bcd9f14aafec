"""The one parser of shapes and sizes: `square`, `M=N,K=32`, `64:8192:x2`, `64:1024:+8`, `100,200`.

A shape says how M, N and K follow from one size s; a list of sizes says which s to take.
"""

from __future__ import annotations

import re

import msgspec

NAMES = ("M", "N", "K")

FAMILIES = {
    "square": "M=N=K",
    "outer": "M=N,K=32",
    "inner": "M=N=32",
    "tall": "N=K=32",
    "wide": "M=K=32",
    "deep": "M=N,K=16M",
    "flat": "M=N=16K",
}
"""Named shapes; each is short for the expression beside it."""

MAX_SIZE = 1 << 31
MAX_COUNT = 10_000


class Dimension(msgspec.Struct, frozen=True):
    """`fixed` entries, or `factor` times the size where `fixed` is 0."""

    fixed: int = 0
    factor: int = 1

    def at(self, size: int) -> int:
        return self.fixed or self.factor * size


class Shape(msgspec.Struct, frozen=True):
    """How M, N, K follow from a size. `text` is what the user wrote."""

    text: str
    m: Dimension
    n: Dimension
    k: Dimension

    def at(self, size: int) -> tuple[int, int, int]:
        """(M, N, K) at `size`."""
        return self.m.at(size), self.n.at(size), self.k.at(size)


def point(m: int, n: int, k: int) -> Shape:
    """The shape of one fixed point."""
    for name, value in zip(NAMES, (m, n, k), strict=True):
        _check_size(value, name)
    return Shape(f"M={m},N={n},K={k}", Dimension(m), Dimension(n), Dimension(k))


def parse_shape(text: str) -> Shape:
    """`square`, another name in FAMILIES, or clauses such as `M=N,K=32` and `M=16K`.

    A dimension that no clause mentions is the size itself; three numbers make a fixed point. ValueError
    names what is wrong.
    """
    expression = FAMILIES.get(text.strip().lower(), text)
    found: dict[str, Dimension] = {}
    for clause in expression.replace(" ", "").split(","):
        *names, value = clause.upper().split("=")
        if not names or not all(name in NAMES for name in names):
            raise ValueError(_shape_help(text))
        for name in names:
            if name in found:
                raise ValueError(f"shape {text!r} gives {name} twice")
            found[name] = _value(value, text, found)
    return Shape(text, *(found.get(name, Dimension()) for name in NAMES))


def _value(text: str, shape: str, found: dict[str, Dimension]) -> Dimension:
    match = re.fullmatch(r"(\d*)\*?([MNK]?)", text)
    if not match or not any(match.groups()):
        raise ValueError(_shape_help(shape))
    number, name = match.groups()
    factor = int(number or 1)
    _check_size(factor, f"{text} in shape {shape!r}")
    if not name:
        return Dimension(fixed=factor)
    other = found.get(name, Dimension())
    return Dimension(fixed=other.fixed * factor, factor=other.factor * factor)


def _shape_help(text: str) -> str:
    return f"shape {text!r} is not understood: use {', '.join(FAMILIES)} or an expression such as 'M=N,K=32'"


def parse_sizes(text: str) -> tuple[int, ...]:
    """`64:8192:x2` (times 2), `64:1024:+8` (plus 8), a list `100,200`, or a mixture; ascending, each once."""
    sizes: set[int] = set()
    for part in text.replace(" ", "").split(","):
        sizes.update(_range(part, text) if ":" in part else [_integer(part, text)])
        if len(sizes) > MAX_COUNT:
            raise ValueError(f"sizes {text!r} are more than {MAX_COUNT}: take a larger step")
    return tuple(sorted(sizes))


def _range(part: str, text: str) -> list[int]:
    match = re.fullmatch(r"(\d+):(\d+):(x|\+)(\d+(?:\.\d+)?)", part)
    if not match:
        raise ValueError(f"sizes {text!r}: {part!r} is not a range: write start:stop:x2 or start:stop:+8")
    start, stop, step = _integer(match[1], text), _integer(match[2], text), float(match[4])
    if start > stop:
        raise ValueError(f"sizes {text!r}: {start} is above {stop}: write the smaller size first")
    grows = step > 1 if match[3] == "x" else step >= 1 and step == int(step)
    if not grows:
        raise ValueError(f"sizes {text!r}: step {match[3]}{match[4]} does not grow: use x2 or +8")
    return _steps(start, stop, match[3], step)


def _steps(start: int, stop: int, kind: str, step: float) -> list[int]:
    sizes: list[int] = []
    exact = float(start)
    while round(exact) <= stop and len(sizes) <= MAX_COUNT:
        sizes.append(round(exact))
        exact = max(exact * step, sizes[-1] + 1) if kind == "x" else exact + step
    return sizes


def _integer(text: str, whole: str) -> int:
    if not re.fullmatch(r"\d+", text):
        raise ValueError(f"sizes {whole!r}: {text!r} is not a whole number >= 1")
    value = int(text)
    _check_size(value, f"sizes {whole!r}")
    return value


def _check_size(value: int, what: str) -> None:
    if not 1 <= value <= MAX_SIZE:
        raise ValueError(f"{what}: {value} is outside 1 ... {MAX_SIZE}")
