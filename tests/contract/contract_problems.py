"""Problems of every kind, small, with the sizes at which tiles, tails and empty cases go wrong."""

from __future__ import annotations

import itertools

from backends.arithmetic import MATHS
from backends.base import Backend, Problem

SIZES = [
    (1, 1, 1), (2, 3, 4), (7, 9, 3), (13, 17, 8), (16, 16, 16), (33, 32, 31), (63, 65, 64), (127, 129, 130),
    (128, 128, 256), (257, 64, 33), (100, 100, 100), (1, 300, 5), (300, 1, 5), (1, 1, 4099), (64, 64, 1),
    (3, 5, 0), (64, 64, 0), (0, 5, 3), (5, 0, 3), (0, 0, 0),
]  # fmt: skip
SCALARS = [(2.0, 0.0), (1.0, 1.0), (0.5, -1.5), (0.1, 0.3), (0.0, 0.0), (0.0, 0.5)]
FEW = [(1, 1, 1), (33, 17, 65), (128, 96, 64), (4, 5, 0)]


def gemm_problems(dtype: str, math: str) -> list[Problem]:
    def problem(size: tuple[int, int, int], **more: object) -> Problem:
        return Problem(m=size[0], n=size[1], k=size[2], dtype=dtype, math=math, **more)  # type: ignore[arg-type]

    tails = [(64, 64, k) for k in (2, 5, 8, 15, 24, 40, 63, 72, 120, 136)]
    return [
        *(problem(size) for size in (*SIZES, *tails, (600, 512, 520))),
        *(problem(size, alpha=a, beta=b) for size in FEW for a, b in SCALARS),
        *(problem(size, trans_a=t, trans_b=u, beta=0.5) for size in FEW for t, u in ((1, 0), (0, 1), (1, 1))),
        *(problem(size, batch=3, beta=b) for size in FEW for b in (0.0, 1.0)),
    ]


def gemv_problems(dtype: str, math: str) -> list[Problem]:
    sizes = [(m, n) for m, n in itertools.product((0, 1, 5, 33, 130, 1000), (0, 1, 8, 65, 1003))]
    plain = [Problem(op="gemv", m=m, n=n, dtype=dtype, math=math) for m, n in sizes]
    return [
        *plain,
        *(
            Problem(op="gemv", m=m, n=n, dtype=dtype, math=math, alpha=a, beta=b, trans_a=t)
            for m, n in ((1, 1), (65, 33), (33, 300), (5, 0))
            for a, b in ((1.0, 0.0), *SCALARS)
            for t in (False, True)
        ),
    ]


def vector_problems(op: str, dtype: str, math: str) -> list[Problem]:
    sizes = (0, 1, 2, 31, 32, 33, 255, 256, 257, 1023, 4097, 100_003)
    return [Problem(op=op, n=n, dtype=dtype, math=math) for n in sizes]  # type: ignore[arg-type]


def families() -> dict[str, list[Problem]]:
    """Every kind of problem there is: one for each op, storage type and arithmetic."""
    found: dict[str, list[Problem]] = {}
    for math in MATHS.values():
        for dtype in math.storage:
            found[f"gemm-{dtype}-{math.name}"] = gemm_problems(dtype, math.name)
            found[f"gemv-{dtype}-{math.name}"] = gemv_problems(dtype, math.name)
            for op in ("vector_add", "copy"):
                found[f"{op}-{dtype}-{math.name}"] = vector_problems(op, dtype, math.name)
    return found


FAMILIES = families()


def everyday_dtypes(backend: Backend, op: str) -> list[str]:
    """The dtypes in which the backend takes that op as the everyday calls ask for it."""
    every = ("float32", "float64", "float16")
    return [d for d in every if backend.supports(Problem(op=op, m=9, n=7, dtype=d)) is None]  # type: ignore[arg-type]
