"""How a command ends: one number per kind of ending, and the exception that carries it."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command; a script may rely on them."""

    OK = 0
    ERROR = 1
    USAGE = 2
    REGRESSION = 3
    NO_VERDICT = 4
    """A requested row ended without a verdict."""
    NO_GPU = 5
    """--require-gpu or a named GPU backend, and no usable GPU."""
    INTERRUPTED = 130


class Stop(Exception):
    """Ends a command with one line for the user (what was wrong, what would be right) and an exit code."""

    def __init__(self, message: str, code: Exit = Exit.ERROR) -> None:
        super().__init__(message)
        self.code = code
