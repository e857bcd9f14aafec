"""The example of a backend in a package of its own: found by its entry point, and held to the contract."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "third_party_backend"

CONTRACT = """
import numpy as np, backends
from backends.base import Problem
from suite import gate

einsum = backends.get("einsum")
assert einsum.probe().ok and einsum in backends.usable(Problem(m=8, n=8, k=8))
assert "batch" in einsum.supports(Problem(m=8, n=8, k=8, batch=2))
problems = [
    Problem(m=33, n=17, k=65),
    Problem(m=9, n=8, k=7, dtype="float64"),
    Problem(op="gemv", m=50, n=31),
]
for problem in problems:
    session = einsum.open(problem, backends.allocate(problem))
    judged = gate.check(session)
    assert judged.ok, judged
out = np.full((2, 2), np.nan)
eye = np.eye(2)
assert np.array_equal(einsum.gemm(eye, eye, out=out), eye) and np.array_equal(out, eye)
bad = np.full((2, 2), np.nan)
assert np.array_equal(einsum.gemm(bad, bad, alpha=0.0, beta=2.0, out=out), 2 * eye)
print("contract kept")
"""


@pytest.fixture
def installed(tmp_path):
    """An environment in which the example counts as installed: the metadata are an installer's."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    about = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(about)
    lines = [
        line
        for group, names in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in names.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    paths = [str(ROOT), str(EXAMPLE / "src"), str(tmp_path), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def run(installed, *arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=installed, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_it_keeps_the_contract(installed):
    done = run(installed, "-c", CONTRACT)
    assert done.stdout.strip() == "contract kept", done.stderr


def test_the_contract_tests_pick_it_up_and_pass(installed):
    chosen = ("tests/contract", "-k", "einsum", "-m", "not gpu")
    done = run(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout and "skipped" not in done.stdout


def test_it_refuses_what_it_does_not_support_with_its_own_reason(installed):
    opening = (
        "p = backends.base.Problem(op='copy', n=4); backends.get('einsum').open(p, backends.allocate(p))"
    )
    done = run(installed, "-c", f"import backends, backends.base; {opening}")
    assert "Unavailable: einsum computes single gemm and gemv, not copy" in done.stderr


def test_list_shows_it(installed):
    done = run(installed, "-m", "suite", "list")
    assert done.returncode == 0, done.stderr
    assert "einsum" in done.stdout


def test_without_installation_it_is_not_there():
    done = run({**os.environ, "PYTHONPATH": str(ROOT)}, "-c", "import backends; backends.get('einsum')")
    assert "no backend 'einsum'" in done.stderr
