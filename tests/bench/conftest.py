"""The option of the benchmarks."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--largest", type=int, default=1024, help="largest M = N = K of GEMM (default 1024)")
