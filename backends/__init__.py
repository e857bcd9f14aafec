"""One interface over every way of computing a matrix product. `backends.get("native").gemm(A, B)`."""

from .base import Availability, Backend, DeviceLost, Problem, Session, SessionInfo, Unavailable
from .operands import Operands, allocate, fill_random
from .registry import all_backends, get, usable

__all__ = [
    "Availability",
    "Backend",
    "DeviceLost",
    "Operands",
    "Problem",
    "Session",
    "SessionInfo",
    "Unavailable",
    "all_backends",
    "allocate",
    "fill_random",
    "get",
    "usable",
]
