"""What CBLAS libraries tell of themselves and how each is told its number of threads.

A subclass of `Control` for each family, chosen by the functions that the library exports, not by its name.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from .base import Unavailable

if TYPE_CHECKING:
    from ._cblas import Symbols

GET, SET, TEXT = "int {name}(void);", "void {name}(int count);", "const char *{name}(void);"


class Control:
    """The base: a library that says nothing and whose threads cannot be set."""

    family = "unknown"
    controllable = False

    def __init__(self, symbols: Symbols, prefix: str, suffix: str) -> None:
        self.symbols, self.prefix, self.suffix = symbols, prefix, suffix

    def prepare(self) -> None:
        """Before the first call of anything else. Unavailable where the library would not survive it."""

    def claimed_bits(self) -> int | None:
        """Width of its integers by its own word; None where it has none."""
        return None

    def version(self) -> str:
        """Version, as short text."""
        return ""

    def kernels(self) -> str:
        """The processor type its kernels were chosen for; empty where it does not tell."""
        return ""

    def threading(self) -> str:
        """Which threads it uses; empty where it does not tell."""
        return ""

    def get(self) -> int:
        """Threads in force."""
        return 1

    def swap(self, count: int) -> int:
        """Put `count` in force; returns what a later `swap` puts back."""
        return 1

    def _text(self, name: str) -> str:
        function = self.symbols.get(name, TEXT)
        pointer = None if function is None else function()
        return self.symbols.ffi.string(pointer).decode(errors="replace") if pointer else ""


class Adjustable(Control):
    """A library with a function that tells the count and one that sets it."""

    controllable = True
    getter = setter = ""
    get_declaration, set_declaration = GET, SET

    def __init__(self, symbols: Symbols, prefix: str, suffix: str) -> None:
        super().__init__(symbols, prefix, suffix)
        self._get = symbols.get(f"{prefix}{self.getter}{suffix}", self.get_declaration)
        self._set = symbols.get(f"{prefix}{self.setter}{suffix}", self.set_declaration)
        self.controllable = self._get is not None and self._set is not None

    def get(self) -> int:
        return max(1, self._get()) if self._get is not None else 1

    def swap(self, count: int) -> int:
        before = self._get() if self._get is not None else 1
        if self._set is not None:
            self._set(count)
        return before


class OpenBlas(Adjustable):
    """OpenBLAS, also in SciPy's builds with a prefix and a suffix."""

    family = "OpenBLAS"
    getter, setter = "openblas_get_num_threads", "openblas_set_num_threads"

    def _own_text(self, name: str) -> str:
        return self._text(f"{self.prefix}{name}{self.suffix}")

    def claimed_bits(self) -> int | None:
        config = self._own_text("openblas_get_config").split()
        return None if not config else 64 if "USE64BITINT" in config else 32

    def version(self) -> str:
        words = self._own_text("openblas_get_config").split()
        return words[1] if len(words) > 1 else ""

    def kernels(self) -> str:
        return self._own_text("openblas_get_corename")

    def threading(self) -> str:
        parallel = self.symbols.get(f"{self.prefix}openblas_get_parallel{self.suffix}", GET)
        return {0: "none", 1: "pthreads", 2: "openmp"}.get(parallel() if parallel else -1, "")


class Blis(Adjustable):
    """BLIS and AMD's AOCL-BLAS. Without a setting it uses one thread, and tells -1."""

    family = "BLIS"
    getter, setter = "bli_thread_get_num_threads", "bli_thread_set_num_threads"
    get_declaration, set_declaration = "int64_t {name}(void);", "void {name}(int64_t count);"

    def claimed_bits(self) -> int | None:
        size = self.symbols.get("bli_info_get_blas_int_type_size", "int64_t {name}(void);")
        return int(size()) if size else None

    def version(self) -> str:
        return self._text("bli_info_get_version_str")

    def kernels(self) -> str:
        query = self.symbols.get("bli_arch_query_id", GET)
        name = self.symbols.get("bli_arch_string", "const char *{name}(int id);")
        return self.symbols.ffi.string(name(query())).decode() if query and name else ""

    def threading(self) -> str:
        for what in ("openmp", "pthreads"):
            function = self.symbols.get(f"bli_info_get_enable_{what}", "int64_t {name}(void);")
            if function and function():
                return what
        return "none"


ONEDNN_ISAS = {0x20: "AVX-512", 0x4: "AVX2", 0x2: "AVX", 0x1: "SSE4.1"}


class OpenMp(Adjustable):
    """oneDNN, or any other library, over the OpenMP runtime that it brought along."""

    family = "OpenMP"
    getter, setter = "omp_get_max_threads", "omp_set_num_threads"

    def swap(self, count: int) -> int:
        """Sets every OpenMP runtime there is: once MKL has loaded Intel's, later libraries may use that."""
        from threadpoolctl import ThreadpoolController

        before = super().swap(count)
        for runtime in ThreadpoolController().lib_controllers:
            if runtime.user_api == "openmp":
                runtime.set_num_threads(count)
        return before

    def version(self) -> str:
        about = self.symbols.get("dnnl_version", "const int *{name}(void);")
        return ".".join(str(about()[i]) for i in range(3)) if about else ""

    def kernels(self) -> str:
        isa = self.symbols.get("dnnl_get_effective_cpu_isa", GET)
        if not isa:
            return ""
        level = isa()  # dnnl_cpu_isa_t: each level has the bits of those below
        return next((name for bit, name in ONEDNN_ISAS.items() if level & bit), "")

    def threading(self) -> str:
        return "openmp"


LAYERS = {"INTEL": 0, "GNU": 3, "TBB": 4, "SEQUENTIAL": 1}
"""MKL's threading layers in the order they are tried, with their numbers in mkl_service.h."""

MKL_VERSION = """
typedef struct {{ int major, minor, update; const char *status, *build, *processor, *platform; }} mkl_version;
void {name}(mkl_version *about);
"""

TRY_LAYER = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
if sys.argv[2]:
    lib.MKL_Set_Threading_Layer(int(sys.argv[2]))
n, one = ctypes.c_int64(128), ctypes.c_double(1)
a, b, c = ((ctypes.c_double * n.value**2)(*[1] * n.value**2) for _ in "abc")
lib.cblas_dgemm(101, 111, 111, n, n, n, one, a, n, b, n, one, c, n)
sys.exit(0 if c[0] == n.value + 1 else 3)
"""


class Mkl(Adjustable):
    """MKL through libmkl_rt.

    It loads its other libraries at the first call and ends the process where one is missing. So a process of
    its own tries that call before, with each threading layer until one works.
    """

    family = "MKL"
    getter, setter = "MKL_Get_Max_Threads", "MKL_Set_Num_Threads_Local"
    set_declaration = "int {name}(int count);"
    layer = ""

    def prepare(self) -> None:
        chosen = os.environ.get("MKL_THREADING_LAYER", "").upper()
        names = [chosen] if chosen else list(LAYERS)
        complaint = ""
        for name in names:
            complaint = self._try(str(LAYERS.get(name, "")))
            if not complaint:
                self.layer = name
                set_layer = self.symbols.get("MKL_Set_Threading_Layer", "int {name}(int layer);")
                if name in LAYERS and set_layer:
                    set_layer(LAYERS[name])
                return
        where = f"with MKL_THREADING_LAYER={chosen}" if chosen else f"with any layer of {', '.join(names)}"
        raise Unavailable(f"MKL does not run {where}: {complaint}")

    def _try(self, layer: str) -> str:
        """Empty when a process computes a product with this layer, else what it said at its end."""
        command = [sys.executable, "-I", "-S", "-c", TRY_LAYER, str(self.symbols.path), layer]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            return type(error).__name__
        said = " ".join((done.stderr + done.stdout).split()).replace(str(self.symbols.path.parent), "...")
        return "" if done.returncode == 0 else said[-200:] or f"exit status {done.returncode}"

    def swap(self, count: int) -> int:
        """The thread's own setting, 0 where it has none and the process's counts."""
        return self._set(count) if self._set is not None else 0

    @functools.cached_property
    def _about(self) -> Any:
        """What the library tells of itself: MKLVersion of mkl_types.h; all empty where it does not."""
        ask = self.symbols.get("MKL_Get_Version", MKL_VERSION)
        about = self.symbols.ffi.new("mkl_version *")
        if ask is not None:
            ask(about)
        return about

    def version(self) -> str:
        return f"{self._about.major}.{self._about.minor}.{self._about.update}"

    def kernels(self) -> str:
        text = self._about.processor
        words = self.symbols.ffi.string(text).decode(errors="replace") if text else ""
        return " ".join(re.findall(r"\((?:Intel\(R\) )?((?:AVX|AMX)[\w.-]*)\)", words)) or words[:40]

    def threading(self) -> str:
        return self.layer.lower()


def control_of(symbols: Symbols, prefix: str, suffix: str) -> Control:
    """The control that fits what the library exports."""
    marks: list[tuple[type[Control], str, str]] = [
        (OpenBlas, f"{prefix}openblas_get_num_threads{suffix}", GET),
        (Mkl, "MKL_Get_Max_Threads", GET),
        (Blis, "bli_thread_get_num_threads", "int64_t {name}(void);"),
        (OpenMp, "omp_get_max_threads", GET),
    ]
    for kind, name, declaration in marks:
        if symbols.get(name, declaration) is not None:
            plain = kind is not OpenBlas
            return kind(symbols, "" if plain else prefix, "" if plain else suffix)
    return Control(symbols, prefix, suffix)
