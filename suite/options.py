"""Options that several commands share: click decorators whose values are checked when they are parsed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from backends.arithmetic import ITEMSIZE, MATHS, canonical_dtype

from . import export
from .plan import FAMILIES
from .shapes import parse_sizes

TRANSFERS = ("resident", "once", "always")
HOST_MEMORY = ("pageable", "pinned")

F = TypeVar("F", bound=Callable[..., Any])


class Parsed(click.ParamType):
    """A value that a function makes of the text; its ValueError becomes the message of a usage error."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self.parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def listed(parse: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """`a,b` -> (parse("a"), parse("b")); ValueError for an empty entry."""

    def parse_list(text: str) -> tuple[Any, ...]:
        parts = [part.strip() for part in text.split(",")]
        if not all(parts):
            raise ValueError(f"{text!r} has an empty entry: separate values by single commas")
        return tuple(parse(part) for part in parts)

    return parse_list


def flat(_ctx: click.Context, _param: click.Parameter, value: Any) -> tuple[Any, ...]:
    """Joins what a repeated option of lists gave, each value once, in the order given."""
    return tuple(dict.fromkeys(entry for entries in value for entry in entries))


def one_of(known: tuple[str, ...], what: str) -> Callable[[str], str]:
    """A parser that takes these words only."""

    def parse(text: str) -> str:
        if text.lower() not in known:
            raise ValueError(f"{what} {text!r} is unknown: use one of {', '.join(known)}")
        return text.lower()

    return parse


def whole(what: str, least: int = 1) -> Callable[[str], int]:
    """A parser of whole numbers >= `least`."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise ValueError(f"{what} {text!r} is not a whole number >= {least}")
        return value

    return parse


def seconds(text: str) -> float:
    """`90`, `90s`, `2m` -> seconds. ValueError unless it is a number above 0."""
    unit = {"s": 1.0, "m": 60.0}.get(text[-1:], 0.0)
    try:
        value = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError(f"time {text!r} is not a number of seconds above 0 (such as 90, 90s or 2m)")
    return value


def part(text: str) -> float:
    """`2%`, `0.02` -> 0.02. ValueError unless it is at least 0 and below 1."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise ValueError(
            f"resolution {text!r} is no part of the size: 2% and 0.02 are, from 0 to below 100 %"
        )
    return value


def both_memories(text: str) -> tuple[str, ...]:
    """`pageable`, `pinned`, `both` or a list."""
    parts = listed(one_of((*HOST_MEMORY, "both"), "host memory"))(text)
    return HOST_MEMORY if "both" in parts else parts


def many(*names: str, parse: Callable[[str], Any], kind: str, **attributes: Any) -> Callable[[F], F]:
    """A repeatable option whose every use may be a comma list."""
    wrapped = Parsed(kind, parse)
    return click.option(
        *names, type=wrapped, multiple=True, callback=flat, metavar=kind.upper(), **attributes
    )


def stacked(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """One decorator of several; --help lists them in this order."""

    def apply(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


_size = Parsed("integer", whole("size"))

what_to_measure = stacked(
    click.option(
        "--op",
        type=Parsed("op", one_of(("gemm", "gemv"), "operation")),
        default="gemm",
        show_default=True,
        metavar="gemm|gemv",
        help="C = A·B, or y = A·x (A is M by N).",
    ),
    click.option("-m", "m", type=_size, metavar="M", help="Rows of A and C; with -n and -k: one point."),
    click.option("-n", "n", type=_size, metavar="N", help="Columns of B and C (gemv: of A)."),
    click.option("-k", "k", type=_size, metavar="K", help="Columns of A, rows of B (gemm only)."),
    click.option(
        "--shape",
        default="square",
        show_default=True,
        metavar="SHAPE",
        help=f"How M, N, K follow from a size: 'M=N,K=32', 'M=16K' and the like, or a name (gemm:"
        f" {', '.join(FAMILIES['gemm'])}; gemv: {', '.join(FAMILIES['gemv'])}).",
    ),
    click.option(
        "--sizes",
        type=Parsed("sizes", parse_sizes),
        metavar="SIZES",
        help="64:8192:x2 (times 2), 64:1024:+8 (plus 8) or a list; the search refines between them."
        "  [default: gemm 16:4096:x2, gemv 64:8192:x2]",
    ),
    many(
        "--dtype",
        parse=listed(canonical_dtype),
        kind="dtype",
        default=("float32",),
        show_default="float32",
        help=f"{', '.join(ITEMSIZE)}; f32, fp32, f64 and the like are understood. For float16 and bfloat16 "
        "the CPU side computes the same values as float32 in fp32, and every table says so.",
    ),
    many(
        "--math",
        parse=listed(one_of(tuple(MATHS), "math")),
        kind="math",
        help=f"Arithmetic of the GPU side: {', '.join(MATHS)}. The CPU side computes in that of the dtype; "
        "where they differ, every table names both.  [default: that of the dtype; fp32 is never TF32]",
    ),
    click.option(
        "--batch",
        type=Parsed("integer", whole("batch")),
        default="1",
        show_default=True,
        metavar="COUNT",
        help="Products of one call (gemm only).",
    ),
)

how_to_measure = stacked(
    many(
        "--transfer",
        parse=listed(one_of(TRANSFERS, "transfer mode")),
        kind="mode",
        default=TRANSFERS,
        show_default="resident,once,always",
        help="resident: data already on the GPU; once: upload, REUSE runs, download; always: every run pays.",
    ),
    many(
        "--reuse",
        parse=listed(whole("reuse")),
        kind="runs",
        default=("10",),
        show_default="10",
        help="Runs of transfer mode `once`; a list asks the question for each.",
    ),
    many(
        "--host-memory",
        parse=both_memories,
        kind="memory",
        default=("pageable",),
        show_default="pageable",
        help="pageable (what NumPy gives), pinned (faster copies), or both.",
    ),
    many(
        "--backend",
        parse=listed(str),
        kind="name",
        help="Use only this backend on its side (repeatable; `list` names them; `cuda` means every kernel of"
        " ours).  [default: the best of each side]",
    ),
    click.option(
        "--threads",
        type=Parsed("integer", whole("threads")),
        metavar="COUNT",
        help="CPU threads.  [default: the best count, tried on pilot rounds]",
    ),
    click.option(
        "--time-budget",
        type=Parsed("time", seconds),
        default="60",
        show_default=True,
        metavar="TIME",
        help="Seconds for the whole run (90, 90s, 2m).",
    ),
    click.option(
        "--resolution",
        type=Parsed("part", part),
        default="2%",
        show_default=True,
        metavar="PART",
        help="The search ends at a band this narrow, or at one step between sizes where that is more.",
    ),
    click.option(
        "--seed",
        type=Parsed("integer", whole("seed", 0)),
        default="0",
        show_default=True,
        metavar="NUMBER",
        help="Of the random operands and the order of rounds.",
    ),
    click.option(
        "--require-gpu", is_flag=True, help="Exit 5 without a usable GPU, instead of RECORDED figures."
    ),
)


def exports(*kinds: str) -> Callable[[F], F]:
    """`--export-KIND PATH` for each kind; the values are checked paths."""
    return stacked(
        *(
            click.option(
                f"--export-{kind}",
                f"export_{kind}",
                type=Parsed("path", export.checked_target),
                metavar="PATH",
                help=export.HELP[kind],
            )
            for kind in kinds
        )
    )


quiet = click.option(
    "-q", "--quiet", is_flag=True, help="The verdict table only: no progress, points or plot."
)
