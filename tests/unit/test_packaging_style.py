"""Sizes that keep the code readable: functions, modules, kernel files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sorted(
    path for folder in ("backends", "suite", "docs", "examples") for path in (ROOT / folder).rglob("*.py")
)
C_FILES = sorted(
    path
    for folder in ("cpu", "cuda")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".c", ".h", ".cu", ".cuh"}
)


def code_lines(node: ast.AST) -> int:
    """Lines of a function from `def` to its end, without the docstring."""
    lines = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        lines -= first.end_lineno - first.lineno + 1
    return lines


@pytest.mark.parametrize("path", PYTHON, ids=lambda p: str(p.relative_to(ROOT)))
def test_functions_stay_below_40_lines_and_modules_below_400(path):
    text = path.read_text()
    assert len(text.splitlines()) < 400
    functions = [
        n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert {node.name: code_lines(node) for node in functions if code_lines(node) > 40} == {}


@pytest.mark.parametrize("path", C_FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_c_and_cuda_files_stay_small(path):
    limit = 250 if "kernels" in path.parts else 400
    assert len(path.read_text().splitlines()) < limit


@pytest.mark.parametrize("path", PYTHON + C_FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_loose_ends(path):
    assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b", path.read_text())
