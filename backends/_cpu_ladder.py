"""The teaching rungs of cpu/ladder: their headers as data, and each one as a backend.

They are in no registry, so that no comparison takes one for a candidate: `backends()` is the way to them.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from ._native_library import library
from .arithmetic import DEFAULT_MATH, ITEMSIZE
from .base import Availability, Backend, HostMemory, Problem, SessionInfo, Unavailable, require
from .native import NativeSession
from .operands import Operands

BUILDS = ("scalar", "auto", "vector")
CACHE_LINE = 64
TILE = ("mr", "nr", "mc", "kc", "nc")


class HeaderError(ValueError):
    """A rung's TOML block is missing or wrong; the text names the file and the field."""


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The TOML block at the top of a rung: cpu/ladder/rung.h says what each field means."""

    title: str
    idea: str
    changes: str
    look_at: str
    builds: tuple[Literal["scalar", "auto", "vector"], ...]
    flops_per_entry: dict[Literal["registers", "block"], str]
    threaded: bool = False


class Rung(msgspec.Struct, frozen=True):
    """A rung in one of its builds, at its place in the table of the C library."""

    path: Path
    header: Header
    build: str
    index: int

    @property
    def name(self) -> str:
        """`02_interchanged`, or `02_interchanged/auto` for a further build."""
        return self.path.stem + ("" if self.build == self.header.builds[0] else f"/{self.build}")


def root() -> Path:
    """The folder of the rungs: the checkout's cpu/ladder, else the installed copy."""
    here = Path(__file__).resolve().parent
    checkout = here.parent / "cpu" / "ladder"
    return checkout if (checkout / "rung.h").is_file() else here / "_ladder"


@functools.cache
def rungs() -> tuple[Rung, ...]:
    """Every rung in every build, in the order of the ladder."""
    headers = [(path, parse(path)) for path in sorted(root().glob("[0-9]*.c"))]
    pairs = [(path, header, build) for path, header in headers for build in header.builds]
    return tuple(Rung(*pair, index) for index, pair in enumerate(pairs))


def parse(path: Path) -> Header:
    """The header of a rung. HeaderError names the file, the field and what would be right."""
    found = re.search(r"^ \* /// rung\n(.*?)^ \* ///\n", path.read_text(), re.MULTILINE | re.DOTALL)
    if found is None:
        raise HeaderError(f"{path.name}: no TOML block between ' * /// rung' and ' * ///'")
    block = re.sub(r"^ \* ?", "", found[1], flags=re.MULTILINE)
    try:
        header = msgspec.toml.decode(block.encode(), type=Header)
    except (msgspec.ValidationError, msgspec.DecodeError, ValueError) as error:
        raise HeaderError(f"{path.name}: {error}") from error
    for mistake in _mistakes(header):
        raise HeaderError(f"{path.name}: {mistake}")
    texts = {name: " ".join(getattr(header, name).split()) for name in ("idea", "changes", "look_at")}
    return msgspec.structs.replace(header, **texts)


def _mistakes(header: Header) -> Iterator[str]:
    if not header.builds or len(set(header.builds)) != len(header.builds):
        yield f"builds must name at least one of {', '.join(BUILDS)}, each once, got {list(header.builds)}"
    for level, formula in header.flops_per_entry.items():
        try:
            evaluate(formula, dict.fromkeys((*map(str.upper, TILE), "LINE"), 2.0))
        except ValueError as error:
            yield f"flops_per_entry.{level}: {error}"


_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def evaluate(formula: str, values: Mapping[str, float]) -> float:
    """The value of a formula of numbers, names in `values`, + - * / and parentheses. ValueError else."""

    def value(node: ast.AST) -> float:
        if isinstance(node, ast.Expression):
            return value(node.body)
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return float(node.value)
        if isinstance(node, ast.Name) and node.id in values:
            return values[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError(f"{formula!r}: use numbers, {', '.join(values)}, + - * / and parentheses")

    try:
        return value(ast.parse(formula, mode="eval"))
    except SyntaxError:
        raise ValueError(f"{formula!r} is not a formula") from None


class RungBackend(Backend):
    """One rung: gemm in float32 and float64, operands stored by rows."""

    device: Literal["cpu", "cuda"] = "cpu"

    def __init__(self, rung: Rung) -> None:
        self.rung, self.name = rung, f"ladder:{rung.name}"

    def probe(self) -> Availability:
        try:
            compiled = _facts(self.rung.index, "float32")["name"]
        except Unavailable as error:
            return Availability(ok=False, reason=str(error), cure=getattr(error, "cure", ""))
        if compiled == self.rung.name:
            return Availability(ok=True)
        reason = f"the C library has {compiled or 'no rung'} in the place of {self.rung.name}"
        return Availability(ok=False, reason=reason, cure="rebuild: pip install .")

    def supports(self, problem: Problem) -> str | None:
        p = problem
        if p.op != "gemm" or p.batch != 1 or p.trans_a or p.trans_b:
            return f"{self.name} computes single products of matrices stored by rows"
        if p.dtype not in ("float32", "float64") or p.math != DEFAULT_MATH[p.dtype]:
            return f"{self.name} computes float32 in fp32 and float64 in fp64, not {p.dtype} in {p.math}"
        return None

    def thread_counts(self, problem: Problem) -> tuple[int, ...]:
        return (library().lib.gemm_threads_max(),) if self.rung.header.threaded else (1,)

    def open(
        self,
        problem: Problem,
        operands: Operands,
        *,
        host_memory: HostMemory = "pageable",
        devices: tuple[int, ...] = (0,),
        threads: int | None = None,
    ) -> RungSession:
        """threads: for a threaded rung (all allowed when None); the others always have one."""
        require(self, problem)
        return RungSession(problem, operands, threads if self.rung.header.threaded else 1, self.rung)


class RungSession(NativeSession):
    """A prepared call that the rung takes in place of the library's own path."""

    def __init__(self, problem: Problem, operands: Operands, threads: int | None, rung: Rung) -> None:
        super().__init__(problem, operands, threads)
        lib, ffi = self._bound.lib, self._bound.ffi
        self._lib, self._index, self._seconds = lib, rung.index, ffi.new("double *")
        self.info = _info(self.info, problem.dtype, rung)

    def run(self) -> None:
        _check(self._lib.gemm_ladder_run(self._index, self._call))

    def run_from_c(self, calls: int) -> float:
        _check(self._lib.gemm_ladder_timed(self._index, self._call, calls, self._seconds))
        return self._seconds[0]


def _check(status: int) -> None:
    if status == library().lib.GEMM_NO_MEMORY:
        raise MemoryError("no memory for the packed panels of this rung")
    if status:
        raise ValueError(f"the rung refused the call (status {status}): operands must be stored by rows")


def _facts(index: int, dtype: str) -> dict[str, Any]:
    """Name, instruction set and tile of the rung that would run now; an empty name where there is none."""
    bound = library()
    found = bound.ffi.new("gemm_rung *")
    if bound.lib.gemm_ladder_rung(index, int(dtype == "float64"), found):
        return {"name": "", "isa": "", **dict.fromkeys(TILE, 0)}
    texts = {name: bound.text(getattr(found, name)) for name in ("name", "isa")}
    return {**texts, **{name: int(getattr(found, name)) for name in TILE}}


def _info(info: SessionInfo, dtype: str, rung: Rung) -> SessionInfo:
    """What runs, and the FLOP per byte that the model gives its tile."""
    facts, size = _facts(rung.index, dtype), ITEMSIZE[dtype]
    values = {name.upper(): float(facts[name]) for name in TILE} | {"LINE": CACHE_LINE / size}
    config = {
        "isa": facts["isa"],
        "build": rung.build,
        "tile": {name: facts[name] for name in TILE if facts[name]},
        "flop_per_byte": {
            level: evaluate(formula, values) / size for level, formula in rung.header.flops_per_entry.items()
        },
    }
    return msgspec.structs.replace(info, kernel=rung.name, config=config)


def backends() -> list[RungBackend]:
    """One backend for each rung and build, in the order of the ladder. HeaderError for a wrong header."""
    return [RungBackend(rung) for rung in rungs()]
