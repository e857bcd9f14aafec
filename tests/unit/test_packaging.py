"""The distribution: what it declares is what the code uses, and the tree keeps its promises."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path

import pytest

import backends

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = sorted(path for package in ("backends", "suite") for path in (ROOT / package).rglob("*.py"))
IMPORT_NAMES = {
    "cupy_cuda12x": "cupy",
    "cupy_cuda13x": "cupy",
    "nvidia_ml_py": "pynvml",
}
OF_CUPY = {"cupyx", "cupy_backends", "nvidia", "cuda"}


def requirement_names(requirements: list[str]) -> set[str]:
    """Import names of requirements such as `numpy>=1.24`."""
    names = {re.match(r"[\w-]+", text).group().replace("-", "_") for text in requirements}
    return {IMPORT_NAMES.get(name, name) for name in names}


BASE = requirement_names(PROJECT["dependencies"])
EXTRAS = {name: requirement_names(wanted) for name, wanted in PROJECT["optional-dependencies"].items()}
OWN = {"backends", "suite", "_gemm_cpu"}


def imports(tree: ast.AST) -> set[str]:
    """Top-level names of what is imported absolutely anywhere below `tree`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


def at_module_level(tree: ast.Module) -> set[str]:
    """What is imported when the module is, outside functions and outside `if TYPE_CHECKING`."""
    plain = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    return imports(ast.Module(body=plain, type_ignores=[]))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_import_is_a_declared_dependency(path):
    tree = ast.parse(path.read_text())
    standard = set(sys.stdlib_module_names) | OWN
    assert at_module_level(tree) - standard <= BASE, "only base dependencies at module level"
    assert imports(tree) - standard <= BASE.union(*EXTRAS.values()) | OF_CUPY


def test_every_base_dependency_is_used():
    used = set().union(*(imports(ast.parse(path.read_text())) for path in MODULES))
    assert BASE - used - {"tomli", "cffi"} == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_messages_name_only_extras_that_exist(path):
    for listed in re.findall(r"gemm-crossover\[([\w,]+)\]", path.read_text()):
        assert set(listed.split(",")) <= set(EXTRAS)


def test_the_console_script_is_the_command_line():
    module, function = PROJECT["scripts"]["gemm-crossover"].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_the_folder_cuda_holds_no_python():
    assert list((ROOT / "cuda").rglob("*.py")) == [], "a package named cuda would hide NVIDIA's from CuPy"


def test_the_extension_is_not_inside_a_source_folder():
    state = backends.get("native").probe()
    assert state.ok, f"{state.reason}; {state.cure}"
    spec = importlib.util.find_spec("_gemm_cpu")
    assert spec is None or Path(spec.origin).parent.name not in ("backends", "suite")


def test_the_changelog_has_this_version():
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_extra_is_written_about():
    text = "".join((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))
    text += "".join(path.read_text() for path in MODULES)
    assert [extra for extra in EXTRAS if not re.search(rf"\[[\w,.]*\b{extra}\b|extra `{extra}`", text)] == []


@pytest.mark.parametrize(
    ("reason", "expected"), [("no GPU: cublas: no driver", False), ("lazy", True), ("not now, no GPU", True)]
)
def test_a_skip_needs_a_listed_reason(reason, expected, request):
    conftest = request.config.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))
    allowed = (ROOT / ".ci" / "allowed_skips.txt").read_text()
    assert bool(conftest.unexpected_skips({"test": reason}, allowed)) is expected
