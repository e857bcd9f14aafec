"""Binds one CBLAS library through cffi's ABI mode, whatever its symbols are called and its integers are wide.

The width of its integers is never guessed. Symbol names (`cblas_sgemm64_`) and the library's own word
(OpenBLAS's configuration, BLIS's information call) claim one; a call then shows it: `cblas_sasum` of
n = 2 - 2^32 entries. A library with 64-bit integers sees a negative count and by the rules of BLAS returns 0
without reading; one with 32-bit integers sees the low half, 2, and adds up two entries. Claim and call must
agree. At last small products are compared, so that a library that computes something else is refused.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._blas_control import Control, control_of
from .base import Unavailable

NAMES = tuple(itertools.product(("", "scipy_"), ("", "64_", "_64")))
"""(prefix, suffix) of the symbols; plain ones first: MKL has `_64` ones beside those."""

ROW_MAJOR, NO_TRANS, TRANS = 101, 111, 112

C_TYPE = {"float32": "float", "float64": "double"}
LETTER = {"float32": "s", "float64": "d"}

GEMM = (
    "void {name}(int order, int ta, int tb, {i} m, {i} n, {i} k, {t} alpha, const {t} *a, {i} lda, "
    "const {t} *b, {i} ldb, {t} beta, {t} *c, {i} ldc);"
)
GEMV = (
    "void {name}(int order, int ta, {i} m, {i} n, {t} alpha, const {t} *a, {i} lda, const {t} *x, {i} inc_x, "
    "{t} beta, {t} *y, {i} inc_y);"
)
SASUM = "float {name}(int64_t n, const float *x, int64_t inc_x);"
ONEDNN_SGEMM = (
    "int {name}(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, "
    "const float *b, int64_t ldb, float beta, float *c, int64_t ldc);"
)


@functools.cache
def load_flags() -> int:
    """How a library is opened: for itself alone, its own symbols before all others.

    MKL opens its parts for everybody. A BLIS opened after it found MKL's `sgemm_` where it meant its own, and
    so computed with MKL, on MKL's threads. Sanitizers refuse this way of opening: there the order counts.
    """
    process = ctypes.CDLL(None)
    watched = any(hasattr(process, f"__{name}_init") for name in ("asan", "tsan", "msan"))
    return os.RTLD_NOW | os.RTLD_LOCAL | (0 if watched else getattr(os, "RTLD_DEEPBIND", 0))


class Symbols:
    """A loaded library, whose functions are looked up by a declaration and a name."""

    def __init__(self, path: Path) -> None:
        """Unavailable where the loader refuses the file."""
        import cffi

        self.ffi, self.path = cffi.FFI(), path
        self._known: dict[str, Any] = {}
        try:
            self.lib = self.ffi.dlopen(str(path), load_flags())
        except OSError as error:
            text = str(error).split("Additionally", 1)[0].rpartition(f"{path}: ")[2]
            text = text.replace(f"{path.parent}/", "").strip(" .")
            raise Unavailable(f"{path.name} cannot be loaded: {text}") from None

    def close(self) -> None:
        """Let go of the file, so that nobody else in this process finds it loaded and calls it.

        threadpoolctl does, and an MKL that lacks one of its libraries then ends the process.
        """
        self.ffi.dlclose(self.lib)

    def get(self, name: str, declaration: str, **words: str) -> Any | None:
        """The function of that name, None where the library has none; `{name}` and `words` are filled in.

        The first declaration of a name stands.
        """
        if name not in self._known:
            self.ffi.cdef(declaration.format(name=name, **words))
            self._known[name] = getattr(self.lib, name, None)
        return self._known[name]


class Cblas:
    """A library that is ready: `gemm` and `gemv` by dtype, its integers' width, `control` of its threads."""

    def __init__(self, path: Path) -> None:
        """Unavailable, with the reason, for what cannot be loaded or is no CBLAS that computes rightly."""
        symbols = Symbols(path)
        self.ffi, self.name = symbols.ffi, path.name
        self.gemm: dict[str, Any] = {}
        self.gemv: dict[str, Any] = {}
        try:
            self._recognise(symbols)
        except Unavailable:
            symbols.close()
            raise
        if self.onednn:
            self.int_bits, self.gemm = 64, {"float32": self.onednn}
        else:
            self.int_bits = _width(symbols, self)
            self._declare(symbols)
        check_products(self)

    def _recognise(self, symbols: Symbols) -> None:
        """What it calls its functions and how its threads are controlled; nothing has been computed yet."""
        self.onednn = symbols.get("dnnl_sgemm", ONEDNN_SGEMM)
        decorated = None if self.onednn else _decoration(symbols)
        if decorated is None and not self.onednn:
            raise Unavailable(f"{self.name} has no cblas_sgemm or cblas_dgemm under any name known here")
        self.prefix, self.suffix = decorated or ("", "")
        self.control: Control = control_of(symbols, self.prefix, self.suffix)
        self.control.prepare()

    def _declare(self, symbols: Symbols) -> None:
        for dtype, letter in LETTER.items():
            words = {"i": f"int{self.int_bits}_t", "t": C_TYPE[dtype]}
            for op, declaration, table in (("gemm", GEMM, self.gemm), ("gemv", GEMV, self.gemv)):
                name = f"{self.prefix}cblas_{letter}{op}{self.suffix}"
                function = symbols.get(name, declaration, **words)
                if function is not None:
                    table[dtype] = function

    def pointer(self, array: np.ndarray) -> Any:
        """The address of the array's first element, typed; the array must outlive it."""
        address = array.__array_interface__["data"][0]
        return self.ffi.cast(f"{C_TYPE[array.dtype.name]} *", address)

    def address(self, op: str, dtype: str) -> int:
        """The function as a number, for those who call it from C."""
        function = (self.gemm if op == "gemm" else self.gemv)[dtype]
        return int(self.ffi.cast("uintptr_t", function))


def _decoration(symbols: Symbols) -> tuple[str, str] | None:
    """Prefix and suffix of the names under which the library has a gemm; None for none."""
    nothing = "void {name}(void);"  # looked up only: `Cblas` declares what it calls
    looked_up = Symbols(symbols.path)
    known = (
        (prefix, suffix)
        for prefix, suffix in NAMES
        for letter in LETTER.values()
        if looked_up.get(f"{prefix}cblas_{letter}gemm{suffix}", nothing) is not None
    )
    found = next(known, None)
    looked_up.close()
    return found


def _width(symbols: Symbols, found: Cblas) -> int:
    """32 or 64, by claim and call. Unavailable where they contradict each other or there is neither."""
    asum = symbols.get(f"{found.prefix}cblas_sasum{found.suffix}", SASUM)
    shown = None if asum is None else shown_bits(symbols.ffi, asum)
    claims = [("symbol names", 64 if found.suffix else None), ("own word", found.control.claimed_bits())]
    for what, bits in claims:
        if bits and shown and bits != shown:
            raise Unavailable(
                f"{found.name} contradicts itself: by its {what} integers have {bits} bits, by a call {shown}"
            )
    width = shown or next((bits for _, bits in claims if bits), None)
    if width is None:
        raise Unavailable(
            f"{found.name}: nothing tells whether its integers have 32 or 64 bits (no cblas_sasum)"
        )
    return width


def shown_bits(ffi: Any, asum: Callable[..., float]) -> int | None:
    """The width that a call of `cblas_sasum` shows; None where its answer is neither."""
    ones = ffi.new("float[4]", [1, 1, 1, 1])
    return {0.0: 64, 2.0: 32}.get(asum(2 - 2**32, ones, 1))


def check_products(found: Cblas) -> None:
    """Unavailable unless small products of whole numbers, of every function, come out exactly."""
    for dtype in found.gemm:
        a, b = (np.arange(-5, 7, dtype=dtype).reshape(shape) for shape in ((3, 4), (4, 3)))
        for ta, tb in itertools.product((False, True), repeat=2):
            _expect(found, dtype, a.T.copy() if ta else a, b.T.copy() if tb else b, ta, tb)
        if dtype in found.gemv:
            x, y = b[:, 0].copy(), np.full(3, np.nan, dtype)
            found.gemv[dtype](*gemv_arguments(found, a, x, y, False, 1.0, 0.0))
            _compare(found, f"gemv of {dtype}", y, (a * x).sum(axis=1))


def _expect(found: Cblas, dtype: str, a: np.ndarray, b: np.ndarray, ta: bool, tb: bool) -> None:
    c = np.full((3, 3), 7, dtype)
    found.gemm[dtype](*gemm_arguments(found, (a, b, c), (ta, tb), 2.0, 1.0))
    left, right = a.T if ta else a, b.T if tb else b
    want = 2 * (left[:, :, None] * right[None, :, :]).sum(axis=1) + 7
    _compare(found, f"gemm of {dtype}", c, want)


def _compare(found: Cblas, what: str, got: np.ndarray, want: np.ndarray) -> None:
    if not np.array_equal(got, want):
        raise Unavailable(f"{found.name} computes a small {what} wrongly: it is left alone")


def leading(array: np.ndarray) -> int:
    """The leading dimension of a matrix with unit column stride, at least the columns it has."""
    rows, columns = array.shape
    return array.strides[0] // array.itemsize if rows > 1 else max(1, columns)


def gemm_arguments(
    found: Cblas, arrays: Sequence[np.ndarray], trans: tuple[bool, bool], alpha: float, beta: float
) -> tuple[Any, ...]:
    """What the library's gemm takes for A, B, C, row-major with unit column stride as they lie."""
    a, b, c = arrays
    (m, n), k = c.shape, a.shape[0 if trans[0] else 1]
    sizes = (m, n, k, alpha, found.pointer(a), leading(a), found.pointer(b), leading(b))
    rest = (*sizes, beta, found.pointer(c), leading(c))
    if found.onednn:
        return (*(b"T" if flag else b"N" for flag in trans), *rest)
    return (ROW_MAJOR, *(TRANS if flag else NO_TRANS for flag in trans), *rest)


def gemv_arguments(
    found: Cblas, a: np.ndarray, x: np.ndarray, y: np.ndarray, trans_a: bool, alpha: float, beta: float
) -> tuple[Any, ...]:
    """What the library's gemv takes for a row-major matrix and vectors of positive steps."""
    steps = [max(1, vector.strides[0] // vector.itemsize) for vector in (x, y)]
    vectors = (found.pointer(x), steps[0], beta, found.pointer(y), steps[1])
    flag = TRANS if trans_a else NO_TRANS
    return (ROW_MAJOR, flag, *a.shape, alpha, found.pointer(a), leading(a), *vectors)
