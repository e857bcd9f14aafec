"""Plain products without touching the arrays in Python: C reads NumPy's struct at the address of each object.

NumPy publishes that struct (PyArrayObject_fields) and has kept it since 1.0. Still nothing is taken on trust:
the quick call exists only where CPython gives addresses as `id` and a probe finds every field in its place.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

FIELDS = "Pi4xPPPPi"
"""data, ndim, shape, strides, base, dtype, flags: they follow the object's head."""

WRITEABLE_ALIGNED = 0x500


def quick_product(ffi: Any, lib: Any) -> Callable[[int, int, int], int] | None:
    """`gemm_arrays` taking the `id` of A, B and out, or None where objects do not look as expected."""
    if platform.python_implementation() != "CPython" or not _layout_is_known(ffi):
        return None
    dtypes = (id(np.dtype(np.float32)), id(np.dtype(np.float64)))
    lib.gemm_arrays_known(object.__basicsize__, id(np.ndarray), *dtypes)
    return lib.gemm_arrays


def _layout_is_known(ffi: Any) -> bool:
    """Do the fields of two different arrays, read as C will read them, say what NumPy says?"""
    wide = np.zeros((3, 5), np.float32)
    return all(_fields_match(ffi, array) for array in (wide, np.zeros((7, 4))[::2, ::-1].T))


def _fields_match(ffi: Any, array: np.ndarray) -> bool:
    head = object.__basicsize__
    if np.ndarray.__basicsize__ < head + struct.calcsize(FIELDS):
        return False
    whole = bytes(ffi.buffer(ffi.cast("char *", id(array)), head + struct.calcsize(FIELDS)))
    (kind,) = struct.unpack_from("P", whole, head - struct.calcsize("P"))
    data, ndim, shape, strides, _, dtype, flags = struct.unpack_from(FIELDS, whole, head)
    if (kind, data, ndim, dtype) != (
        id(np.ndarray),
        array.__array_interface__["data"][0],
        2,
        id(array.dtype),
    ):
        return False
    found = tuple(tuple(ffi.cast("ptrdiff_t *", at)[0:2]) for at in (shape, strides))
    return found == (array.shape, array.strides) and flags & WRITEABLE_ALIGNED == WRITEABLE_ALIGNED
