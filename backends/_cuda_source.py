"""CUDA kernels as text: where they are, the TOML block at their top, what they include, their hash.

Nothing here needs CUDA, CuPy or a GPU.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from .arithmetic import ITEMSIZE, MATHS

TRANSPOSES = ("n", "t", "nn", "nt", "tn", "tt")
ARGUMENTS = "problem.cuh"


class HeaderError(ValueError):
    """A kernel's TOML block is missing or wrong; the text names the file and the field."""


class Variant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to compile a kernel. threads: block size (x, y); tile: CTA tile (M, N, K), in entries."""

    threads: tuple[int, int]
    tile: tuple[int, int, int]
    name: str = ""
    shared_bytes: int = 0
    """Dynamic shared memory of a launch, bytes."""
    cluster: int = 1
    """Launchers "persistent" and "tma": CTAs of a cluster, neighbours along M."""
    ctas_per_sm: int = 1
    """The same launchers: CTAs that an SM holds at one time."""
    defines: dict[str, int] = {}


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The TOML block. math[i] is the arithmetic done for dtypes[i]."""

    entry: str
    op: Literal["gemm", "gemv", "vector_add", "copy"]
    dtypes: tuple[str, ...]
    math: tuple[str, ...]
    launcher: Literal["grid2d", "rows", "linear", "persistent", "tma", "batched", "split_k"]
    """How many blocks a launch has: see `_cuda_launch.LAUNCHERS`."""
    min_sm: int
    teaches: str
    variant: tuple[Variant, ...]
    transposes: tuple[str, ...] = ()
    """Which of A and B may be stored transposed (n no, t yes), e.g. "nt"; empty: all."""
    by_layout: bool = False
    """Compiled for each way to store A and B (LAYOUT_GIVEN, TRANS_A, TRANS_B), as launcher "tma" is."""
    realigns: bool = False
    """Launcher "grid2d": operands that 16-byte accesses cannot take are moved first, as for "tma", where the
    product is long enough (`_cuda_launch.realigns`); it includes realign.cuh."""
    only_sm: int = 0
    """The one compute capability whose own instructions (sm_90a) it uses; 0: any from min_sm on."""


class Kernel(msgspec.Struct, frozen=True):
    """A kernel file and one of its variants."""

    path: Path
    header: Header
    variant: Variant

    @property
    def name(self) -> str:
        """`cuda:01_naive`, or `cuda:01_naive/uncoalesced` for a named variant."""
        return f"cuda:{self.path.stem}" + (f"/{self.variant.name}" if self.variant.name else "")

    def defines(self, dtype: str) -> dict[str, int]:
        """What the compiler is told, so that header and code cannot drift apart."""
        v = self.variant
        tile = dict(zip(("TILE_M", "TILE_N", "TILE_K"), v.tile, strict=True))
        x, y = v.threads
        threads = {"THREADS_X": x, "THREADS_Y": y, "THREADS": x * y}
        shared = {"SHARED_BYTES": v.shared_bytes} if v.shared_bytes else {}
        found = {f"STORAGE_{dtype}": 1, **threads, **tile, **shared, **v.defines}
        if self.header.launcher in ("persistent", "tma"):
            found.update(CLUSTER=v.cluster)
        return found

    def refuses(self, major: int, minor: int) -> str | None:
        """Why it cannot run on that compute capability, or None."""
        h, here = self.header, major * 10 + minor
        if here < h.min_sm:
            return f"{self.name} needs compute capability {h.min_sm / 10:.1f}, this is {major}.{minor}"
        if h.only_sm and here != h.only_sm:
            only = f"{h.only_sm / 10:.1f}"
            return f"{self.name} is written for compute capability {only} alone, this is {major}.{minor}"
        return None


def root() -> Path:
    """The folder with `kernels/` and `include/`: the checkout's cuda/, else the installed copy."""
    here = Path(__file__).resolve().parent
    checkout = here.parent / "cuda"
    return checkout if (checkout / "include" / ARGUMENTS).is_file() else here / "_cuda"


def files() -> list[Path]:
    """Every kernel file, in the order of its number."""
    return sorted((root() / "kernels").glob("*.cu"))


def toml_block(text: str, kind: str = "kernel") -> str:
    """The lines between `// /// kernel` and `// ///`, without their comment marks; "" if there is none."""
    lines = [line.strip() for line in text.splitlines()]
    if f"// /// {kind}" not in lines:
        return ""
    rest = lines[lines.index(f"// /// {kind}") + 1 :]
    inside = rest[: rest.index("// ///")] if "// ///" in rest else []
    return "\n".join(line.removeprefix("//").removeprefix(" ") for line in inside)


def parse(path: Path) -> list[Kernel]:
    """The variants of a kernel file. HeaderError names the file, the field and what would be right."""
    block = toml_block(path.read_text())
    if not block:
        raise HeaderError(f"{path.name}: no TOML block between '// /// kernel' and '// ///'")
    try:
        header = msgspec.toml.decode(block.encode(), type=Header)
    except (msgspec.ValidationError, msgspec.DecodeError, ValueError) as error:
        raise HeaderError(f"{path.name}: {error}") from error
    for problem in _mistakes(header):
        raise HeaderError(f"{path.name}: {problem}")
    return [Kernel(path, header, variant) for variant in header.variant]


def _mistakes(h: Header) -> Iterator[str]:
    """What the types alone cannot say, one sentence per mistake."""
    if not h.entry.isidentifier():
        yield f"entry {h.entry!r} is not a function name"
    yield from _type_mistakes(h)
    if h.realigns and h.launcher != "grid2d":
        yield f"realigns is for launcher 'grid2d', not {h.launcher!r}"
    for transposes in h.transposes:
        if transposes not in TRANSPOSES:
            yield f"transposes has {transposes!r}: use some of {', '.join(TRANSPOSES)}"
    names = [v.name for v in h.variant]
    if names[:1] != [""]:
        yield "variant: the first [[variant]] must be there and have no name: it is the default"
    if len(set(names)) != len(names):
        yield f"variant: names must differ, got {names}"
    for v in h.variant:
        yield from _variant_mistakes(v)


def _type_mistakes(h: Header) -> Iterator[str]:
    for dtype in h.dtypes:
        if dtype not in ITEMSIZE:
            yield f"dtypes has {dtype!r}: use some of {', '.join(ITEMSIZE)}"
    if not h.dtypes or len(h.math) != len(h.dtypes):
        yield f"math has {len(h.math)} entries for {len(h.dtypes)} dtypes: give one for each"
    for dtype, math in zip(h.dtypes, h.math, strict=False):
        if math not in MATHS or dtype not in MATHS[math].storage:
            yield f"math {math!r} is no arithmetic of {dtype}: use one of {', '.join(MATHS)}"


def _variant_mistakes(v: Variant) -> Iterator[str]:
    where = f"variant {v.name or 'default'!r}"
    if min(v.threads) < 1 or v.threads[0] * v.threads[1] > 1024:
        yield f"{where}: threads {list(v.threads)} must be at least 1 each and at most 1024 together"
    if min(v.tile) < 1:
        yield f"{where}: tile {list(v.tile)} must be at least 1 in each direction"
    if min(v.cluster, v.ctas_per_sm) < 1:
        yield f"{where}: cluster {v.cluster} and ctas_per_sm {v.ctas_per_sm} must be at least 1"
    if v.shared_bytes < 0:
        yield f"{where}: shared_bytes {v.shared_bytes} must not be negative"
    for name in v.defines:
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            yield f"{where}: defines has {name!r}: use capitals, digits and _"


_COMMENT = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|//[^\n]*|/\*.*?\*/""", re.DOTALL)
_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def without_comments(text: str) -> str:
    """`text` with every comment replaced by a space; strings keep their slashes."""
    return _COMMENT.sub(lambda m: m.group(1) or " ", text)


def includes(path: Path) -> tuple[list[Path], list[str]]:
    """(our own headers, names of system headers) that a file includes, directly or not, in a stable order."""
    own: list[Path] = []
    system: list[str] = []
    waiting = [path]
    while waiting:
        for ours, theirs in _INCLUDE.findall(without_comments(waiting.pop(0).read_text())):
            header = root() / "include" / ours
            if theirs and theirs not in system:
                system.append(theirs)
            elif ours and header not in own:
                own.append(header)
                waiting.append(header)
    return own, system


def source_hash(kernel: Kernel) -> str:
    """Hash of what the compiler reads for this variant: code of file and headers, and the defines.

    Comments and white space do not count, nor does the compiler: 16 hexadecimal digits.
    """
    texts = [path.read_text() for path in (kernel.path, *sorted(includes(kernel.path)[0]))]
    code = ["".join(without_comments(text).split()) for text in texts]
    h, v = kernel.header, kernel.variant
    layouts = (*(("by layout",) if h.by_layout else ()), *(("realigns",) if h.realigns else ()))
    launch = (h.entry, h.op, h.launcher, h.dtypes, h.math, h.transposes, v.shared_bytes, *layouts)
    defines = [sorted(kernel.defines(dtype).items()) for dtype in h.dtypes]
    return hashlib.sha256(repr((code, launch, defines)).encode()).hexdigest()[:16]


@functools.cache
def all_kernels() -> dict[str, Kernel | HeaderError]:
    """Every variant of every kernel by name; a file whose header is wrong maps to its error."""
    found: dict[str, Kernel | HeaderError] = {}
    for path in files():
        try:
            found.update((kernel.name, kernel) for kernel in parse(path))
        except HeaderError as error:
            found[f"cuda:{path.stem}"] = error
    return found
