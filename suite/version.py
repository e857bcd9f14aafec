"""The version of this tool."""

from __future__ import annotations

import importlib.metadata


def version() -> str:
    """Version of the installed distribution, or `source` when run from a checkout."""
    try:
        return importlib.metadata.version("gemm-crossover")
    except importlib.metadata.PackageNotFoundError:
        return "source"
