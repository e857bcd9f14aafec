"""Everything a contributor runs: `nox -l` lists the sessions, `nox -s tests` runs one."""

from pathlib import Path

import nox

nox.options.sessions = ["lint", "tests"]
nox.options.default_venv_backend = "uv|venv"

C_SOURCES = [
    str(path)
    for folder in ("cpu", "cuda", "tests/c", "tests/bare_metal")
    for path in sorted(Path(folder).rglob("*"))
    if path.suffix in {".c", ".h", ".cu", ".cuh"}
]


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff, mypy, clang-format, codespell."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("clang-format", "--dry-run", "-Werror", *C_SOURCES)
    session.run("codespell")


@nox.session(python=["3.10", "3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """Every test that needs no GPU, with the native library installed."""
    session.install(".[test,bf16]")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def tests_gpu(session: nox.Session) -> None:
    """The tests that need a GPU; posargs `cuda12` for an older driver."""
    session.install(f".[test,bf16,{(session.posargs or ['cuda13'])[0]}]")
    session.run("python", "-m", "pytest", "-m", "gpu")


@nox.session
def sanitize(session: nox.Session) -> None:
    """The C tests under AddressSanitizer with UndefinedBehaviourSanitizer, then under ThreadSanitizer."""
    session.install("cmake", "ninja", "cffi")
    for preset in ("asan", "tsan"):
        session.run("cmake", "--workflow", "--preset", preset)


@nox.session
def emulated(session: nox.Session) -> None:
    """The C tests on emulated processors with AVX-512; needs bochs."""
    session.install("cmake", "ninja", "cffi")
    session.run("cmake", "--workflow", "--preset", "emulated")


@nox.session
def bench(session: nox.Session) -> None:
    """The pytest-benchmark suite; give `--benchmark-autosave` or `--benchmark-compare` after `--`."""
    session.install(".[test]")
    session.run("python", "-m", "pytest", "tests/bench", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Rewrite the generated tables in README and docs from the recorded runs."""
    session.install(".")
    session.run("python", "docs/generate.py")
