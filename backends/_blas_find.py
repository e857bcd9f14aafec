"""Where CBLAS libraries lie: installed packages, LD_LIBRARY_PATH, the loader's cache, what is loaded already.

Files are found by name and not opened: whether one can be used, `backends._cblas` tells.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FAMILIES = {
    "mkl": r"libmkl_rt\.so",
    "aocl": r"libblis-mt\.so|libaocl\.so",
    "blis": r"libblis\.so",
    "openblas64": r"lib(scipy_)?openblas_?64_?[-_.\w]*\.so",
    "openblas": r"lib(scipy_)?openblas[-_.\w]*\.so",
    "onednn": r"libdnnl\.so",
}
"""File names of each family; the first that fits names the library."""

PACKAGES = ("mkl", "scipy-openblas32", "scipy-openblas64", "numpy", "scipy")
"""Distributions that bring a BLAS, in the order in which one is preferred."""

FOLDERS = ("/usr/local/lib", "/usr/lib", "/usr/lib64", f"{sys.prefix}/lib")


class Found(NamedTuple):
    """A library file: its family, where it is, and the distribution that brought it (or `system`)."""

    family: str
    path: Path
    origin: str


def family_of(path: Path) -> str:
    """The family a file belongs to by its name; empty for none."""
    return next((name for name, pattern in FAMILIES.items() if re.match(pattern, path.name)), "")


@functools.cache
def find() -> tuple[Found, ...]:
    """Every library there is, looked for once in a process: what is loaded later changes no name."""
    return look()


def look() -> tuple[Found, ...]:
    """Every library there is now, each file once (links followed), the preferred one of a family first."""
    found: dict[Path, Found] = {}
    for path, origin in _places():
        family = family_of(path)
        real = path.resolve()
        if family and real not in found and real.is_file():
            found[real] = Found(family, path, origin)
    return tuple(found.values())


def _places() -> Iterator[tuple[Path, str]]:
    for package in PACKAGES:
        yield from ((path, package) for path in _files_of(package))
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        yield from ((path, "system") for path in _libraries(folder))
    yield from ((path, "system") for path in _loader_cache())
    for folder in FOLDERS:
        yield from ((path, "system") for path in _libraries(folder))
    yield from ((path, "loaded") for path in _loaded())


def _files_of(package: str) -> list[Path]:
    """The shared libraries of an installed distribution, as it lists them."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [Path(str(file.locate())) for file in files if ".so" in file.name]


def _libraries(folder: str) -> list[Path]:
    if not folder:
        return []
    try:
        return sorted(path for path in Path(folder).iterdir() if family_of(path))
    except OSError:
        return []


def _loader_cache() -> list[Path]:
    """What `ldconfig -p` lists for this processor; nothing where there is no ldconfig."""
    for program in ("ldconfig", "/sbin/ldconfig"):
        try:
            done = subprocess.run([program, "-p"], capture_output=True, text=True, timeout=10, check=True)
        except (OSError, subprocess.SubprocessError):
            continue
        lines = (line.split(" => ") for line in done.stdout.splitlines() if " => " in line)
        wide = sys.maxsize > 2**32
        return [Path(path) for about, path in lines if ("64" in about) == wide]
    return []


def _loaded() -> list[Path]:
    """Files of the BLAS libraries in this process."""
    from threadpoolctl import ThreadpoolController

    return [Path(c.filepath) for c in ThreadpoolController().lib_controllers if c.user_api == "blas"]
