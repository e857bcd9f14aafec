"""Documents that cannot drift from the code: commands, links, examples, generated tables."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from suite import experiments

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
README = (ROOT / "README.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    """The fenced code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_two_commands_of_the_readme_are_one_line_each():
    setup, tests = blocks(README, "sh")[:2]
    assert setup.count("\n") == tests.count("\n") == 1
    assert "pip install" in setup
    assert "-m suite crossover" in setup
    assert tests.strip().endswith("-m pytest")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), f"{target} does not exist"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_named_in_documents_exist(path):
    text = path.read_text()
    named = set(re.findall(r"(?:-m suite|^\s*gemm-crossover) ([a-z]+)", text, re.MULTILINE))
    assert named <= set(experiments.names())


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_nox_sessions_named_in_documents_exist(path):
    sessions = set(re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(), re.MULTILINE))
    assert set(re.findall(r"nox -s (\w+)", path.read_text())) <= sessions


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_named_in_documents_exist(path):
    named = re.findall(r"`((?:backends|suite|cpu|cuda|docs|tests|examples)/[\w./-]*)`", path.read_text())
    assert [
        name for name in named if not name.startswith("backends/_cuda") and not (ROOT / name).exists()
    ] == []


def test_the_python_example_of_the_readme_runs():
    scope: dict = {}
    exec(blocks(README, "python")[0], scope)
    A, B = scope["A"], scope["B"]
    assert np.allclose(scope["C"], A @ B)
    assert np.allclose(scope["y"], A @ B[:, 0])


def generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = module
    spec.loader.exec_module(module)
    return module


def test_generated_tables_are_what_the_records_say():
    stale = generator().stale(ROOT)
    assert stale == [], "run python docs/generate.py"


def test_a_changed_table_is_noticed(tmp_path):
    (tmp_path / "README.md").write_text(README.replace("<!-- end -->", "one more line\n<!-- end -->", 1))
    (tmp_path / "docs").mkdir()
    assert generator().stale(tmp_path) == ["README.md"]


def test_every_rung_of_the_cpu_ladder_is_explained():
    text = (ROOT / "docs" / "ladder-cpu.md").read_text()
    names = [
        path.stem.replace("_", " ", 1).replace("_", "-") for path in (ROOT / "cpu/ladder").glob("[0-9]*.c")
    ]
    assert "| 08_library | the library |" in text, "a recorded climb stands below"
    assert names and [name for name in names if f"**{name}**" not in text] == []
