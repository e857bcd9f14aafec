"""What the everyday calls accept: dtypes, shapes, scalars and `out`; every error names the wrong value."""

from __future__ import annotations

from typing import Any

import numpy as np


def common_dtype(A: np.ndarray, B: np.ndarray) -> np.dtype:
    """The float type both are computed in: the wider of two floats, or the one beside a bool.

    TypeError for integers, complex and other types, for two bools, and for masked arrays.
    """
    floats = [d for name, array in (("A", A), ("B", B)) if (d := _float_or_bool(name, array)).kind != "b"]
    if not floats:
        raise TypeError("A and B are both bool: convert one, e.g. A.astype('float32')")
    try:
        return np.result_type(*floats).newbyteorder("=")
    except TypeError:
        raise TypeError(f"A has dtype {A.dtype}, B {B.dtype}: convert both to float32") from None


def _float_or_bool(name: str, array: np.ndarray) -> np.dtype:
    dtype = array.dtype
    if dtype.kind == "b" or (dtype.kind == "f" and dtype.itemsize <= 8) or dtype.name == "bfloat16":
        return dtype
    advice = {
        "i": f"convert it, e.g. {name}.astype('float64') (exact up to 2**53)",
        "u": f"convert it, e.g. {name}.astype('float64') (exact up to 2**53)",
        "c": "multiply its .real and .imag parts separately",
        "f": f"convert it with {name}.astype('float64')",
    }.get(dtype.kind, f"convert it, e.g. {name}.astype('float64')")
    raise TypeError(f"{name} has dtype {dtype}, not float16, float32 or float64: {advice}")


def as_array(name: str, value: Any) -> np.ndarray:
    """`value` as a plain array. TypeError for a masked array, whose mask the product would ignore."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array and its mask would be ignored: pass {name}.filled(0)")
    return np.asarray(value)


def real_number(name: str, value: Any) -> float:
    """`value` as a float, -0.0 as 0.0. TypeError unless it is one real number."""
    try:
        if isinstance(value, (str, bytes, complex, np.complexfloating)) or np.ndim(value):
            raise TypeError
        return float(value) + 0.0
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be one real number, got {value!r}") from None


def matmul_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of A @ B for any numbers of axes, as `np.matmul` has it. ValueError names both shapes."""
    if not a or not b:
        raise ValueError(f"A has shape {a}, B {b}: a scalar is no matrix, give it at least one axis")
    inner = b[0] if len(b) == 1 else b[-2]
    if a[-1] != inner:
        raise ValueError(f"A has shape {a}, B {b}: A's {a[-1]} columns must match B's {inner} rows")
    try:
        lead = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise ValueError(f"A has shape {a}, B {b}: the leading axes do not broadcast") from None
    return (*lead, *(a[-2:-1]), *(b[-1:] if len(b) > 1 else ()))


def gemv_shape(a: tuple[int, ...], x: tuple[int, ...]) -> tuple[int, ...]:
    """The shape (M,) of A @ x for A (M, N) and x (N,). ValueError names both shapes."""
    if len(a) != 2 or len(x) != 1:
        raise ValueError(f"gemv takes a matrix and a vector, got shapes {a} and {x}: use gemm for others")
    if a[1] != x[0]:
        raise ValueError(f"A has shape {a}, x {x}: A's {a[1]} columns must match x's {x[0]} entries")
    return a[:1]


def checked_out(out: Any, shape: tuple[int, ...], dtype: np.dtype, beta: float) -> np.ndarray:
    """`out` where it fits, or a new array. ValueError and TypeError say what would fit, `out` unchanged."""
    if out is None:
        if beta != 0:
            raise ValueError(f"beta = {beta:g} adds to an existing result: pass it as out=")
        return np.empty(shape, dtype)
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"out must be a NumPy array, got {type(out).__name__}")
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}, the product has {shape}")
    if out.dtype != dtype:
        raise TypeError(f"out has dtype {out.dtype.str}, the product is {dtype.name} ({dtype.str})")
    if not out.flags.writeable:
        raise ValueError("out is read-only: pass a writeable array")
    if out.size and any(s == 0 and n > 1 for s, n in zip(out.strides, out.shape, strict=True)):
        raise ValueError(f"out has strides {out.strides}: several of its entries share one place in memory")
    return out


def may_overlap_itself(array: np.ndarray) -> bool:
    """Could two entries share memory? False is certain: each axis steps over all that smaller ones span."""
    if array.flags.c_contiguous:
        return False
    span = array.itemsize
    for step, count in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if step < span:
            return True
        span = step * (count - 1) + span
    return False
