"""Loads the C library of `cpu/`: cffi's extension `_gemm_cpu`, else the plain shared library beside it.

In a checkout nothing stale runs in silence: the library must have been built from what `cpu/` holds now.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from .base import Unavailable

ABI = 1
"""What this package expects of `gemm.h`; raised together with GEMM_ABI there."""

CHECKOUT = Path(__file__).resolve().parents[1]
INSTALL = "pip install . in a checkout (pip install -e . to work on it), or pip install gemm-crossover"


class Library(NamedTuple):
    """The bound library: cffi's `ffi`, the functions of `gemm.h`, and how they are called: api or abi."""

    ffi: Any
    lib: Any
    mode: str

    def text(self, pointer: Any) -> str:
        """A C string as text."""
        return self.ffi.string(pointer).decode()


@functools.cache
def library() -> Library:
    """The library, checked. Unavailable carries the reason as its text and the cure as `cure`."""
    bound = _extension() or _plain()
    if bound is None:
        raise _absent("the C library is not built: no module _gemm_cpu and no _gemm_cpu_plain.so", INSTALL)
    found = bound.lib.gemm_abi()
    if found != ABI:
        raise _absent(
            f"the C library has ABI version {found}, this package needs {ABI}", f"rebuild: {INSTALL}"
        )
    if _stale(bound):
        raise _absent("the C library was built from other sources than those in cpu/", f"rebuild: {INSTALL}")
    _tell(bound)
    return bound


def _absent(reason: str, cure: str) -> Unavailable:
    error = Unavailable(reason)
    error.cure = cure  # type: ignore[attr-defined]
    return error


def _extension() -> Library | None:
    try:
        module = importlib.import_module("_gemm_cpu")
    except ModuleNotFoundError:
        return None
    except ImportError as error:
        raise _absent(f"_gemm_cpu cannot be loaded: {error}", f"rebuild: {INSTALL}") from error
    return Library(module.ffi, module.lib, "api")


def _plain() -> Library | None:
    """The library without Python headers behind it; it brings its own declarations."""
    places = (Path(folder) / "_gemm_cpu_plain.so" for folder in sys.path)
    path = next((str(place) for place in places if place.is_file()), None)
    if path is None:
        return None
    import cffi

    first = cffi.FFI()
    first.cdef("const char *gemm_declarations(void);")
    declarations = first.string(first.dlopen(path).gemm_declarations()).decode()
    ffi = cffi.FFI()
    ffi.cdef(declarations)
    return Library(ffi, ffi.dlopen(path), "abi")


def _stale(bound: Library) -> bool:
    """In a checkout: do the sources in cpu/ differ from those the library was built from?"""
    script = CHECKOUT / "cpu" / "tools" / "cffi_source.py"
    spec = importlib.util.spec_from_file_location("_cffi_source", script) if script.is_file() else None
    if spec is None or spec.loader is None:
        return False
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool.source_hash() != bound.text(bound.lib.gemm_source_hash())


def _tell(bound: Library) -> None:
    """Pass on what the library found wrong in the environment, and show its pool to threadpoolctl."""
    complaint = bound.text(bound.lib.gemm_warnings())
    if complaint:
        warnings.warn(complaint.strip(), RuntimeWarning, stacklevel=3)
    _register()


def _register() -> None:
    """Make the library's thread pool one that `threadpoolctl.threadpool_limits` sees and limits."""
    import threadpoolctl

    class GemmController(threadpoolctl.LibController):
        user_api = "blas"
        internal_api = "gemm_cpu"
        filename_prefixes = ("_gemm_cpu",)
        check_symbols = ("gemm_threads_get", "gemm_threads_set", "gemm_isa")

        def get_num_threads(self) -> int:
            return self.dynlib.gemm_threads_get()

        def set_num_threads(self, num_threads: int) -> int:
            return self.dynlib.gemm_threads_set(num_threads)

        def get_version(self) -> str:
            return f"ABI {self.dynlib.gemm_abi()}"

        def set_additional_attributes(self) -> None:
            self.threading_layer = "pthreads"

    threadpoolctl.register(GemmController)
