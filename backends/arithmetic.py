"""The arithmetics a result may claim: what each one rounds, and so how wrong it may be.

`math` is the arithmetic really done, never the storage type: float32 operands multiplied by tensor
cores in TF32 are `tf32`, and never stand beside `fp32` unlabelled.
"""

from __future__ import annotations

import msgspec


class Math(msgspec.Struct, frozen=True):
    """One arithmetic.

    u_in: unit roundoff applied to each operand before multiplying (0: operands are used as stored).
    u_acc: unit roundoff of the accumulator.
    """

    name: str
    u_in: float
    u_acc: float
    storage: tuple[str, ...]


U32, U64 = 2.0**-24, 2.0**-53

MATHS: dict[str, Math] = {
    m.name: m
    for m in (
        Math("fp64", 0.0, U64, ("float64",)),
        Math("fp32", 0.0, U32, ("float32",)),
        Math("tf32", 2.0**-11, U32, ("float32",)),
        Math("3xtf32", 2.0**-23, U32, ("float32",)),
        Math("bf16", 2.0**-8, U32, ("bfloat16", "float32")),
        Math("fp16", 2.0**-11, U32, ("float16", "float32")),
    )
}
"""Known arithmetics. fp16 and bf16 accumulate in fp32; pure half accumulation is not offered.
3xtf32: each operand is a sum of two that tf32 keeps, 23 bits; the product of two small parts is left out."""

DEFAULT_MATH = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}

ITEMSIZE = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}

ALIASES = {
    "f64": "float64", "fp64": "float64", "f8": "float64", "double": "float64",
    "f32": "float32", "fp32": "float32", "f4": "float32", "single": "float32",
    "f16": "float16", "fp16": "float16", "f2": "float16", "half": "float16",
    "bf16": "bfloat16",
}  # fmt: skip


def canonical_dtype(name: str) -> str:
    """`f32`, `fp32`, `float32` -> `float32`; ValueError names the wrong value and the right ones."""
    full = ALIASES.get(name.lower(), name.lower())
    if full not in ITEMSIZE:
        raise ValueError(f"dtype {name!r} is unknown: use one of {', '.join(ITEMSIZE)}")
    return full
