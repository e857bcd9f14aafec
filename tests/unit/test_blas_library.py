"""Any CBLAS as a backend: a toy one, compiled in every integer width and under every kind of name."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import backends
from backends import _blas_find, blas_library, registry
from backends.base import Problem, Unavailable
from backends.blas_library import BlasLibrary
from backends.operands import allocate
from suite import gate
from suite.exits import Stop
from suite.request import named

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("fake_cblas.c")
COMPILER = shutil.which("cc") or shutil.which("gcc")

Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Build:
    """Compiles the toy: build(bits, prefix, suffix, DEFINE=value, ...)."""
    assert COMPILER, "the tests need a C compiler, as the package does"

    def make(bits: int = 32, prefix: str = "", suffix: str = "", file: str = "libtoy.so", **defines: object):
        path = tmp_path_factory.mktemp("toy") / file
        flags = [f"-DI=int{bits}_t", f"-DNAME(x)={'##'.join(filter(None, (prefix, 'x', suffix)))}"]
        flags += [f"-D{name}={value}" for name, value in defines.items()]
        subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", *flags, SOURCE, "-o", path], check=True)
        return path

    return make


def toy(path: Path) -> BlasLibrary:
    return BlasLibrary("cblas:toy", path, origin="named")


KINDS = [
    (32, "", ""), (64, "", ""), (64, "", "64_"), (64, "scipy_", "64_"), (32, "scipy_", ""), (64, "", "_64"),
]  # fmt: skip


@pytest.mark.parametrize(("bits", "prefix", "suffix"), KINDS)
def test_every_width_and_name_computes(build: Build, bits, prefix, suffix):
    backend = toy(build(bits, prefix, suffix))
    detail = backend.probe().detail
    assert backend.probe().ok, backend.probe().reason
    assert detail["integer_bits"] == bits
    assert detail["symbols"] == f"{prefix}cblas_sgemm{suffix}"
    rng = np.random.default_rng(1)
    for dtype in ("float32", "float64"):
        a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((7, 9), (9, 5)))
        for left, right in (
            (a, b),
            (np.asfortranarray(a), b),
            (a[:, ::-1], b),
            (a[::2], np.asfortranarray(b)),
        ):
            np.testing.assert_array_equal(backend.gemm(left, right), left @ right)
        np.testing.assert_array_equal(backend.gemv(a.T, a[:, 3], alpha=2.0), 2 * (a.T @ a[:, 3]))


def test_a_batch_and_the_gate(build: Build):
    backend = toy(build(64, "scipy_", "64_"))
    for problem in (
        Problem(m=9, n=7, k=5, batch=3),
        Problem(op="gemv", m=6, n=8, trans_a=True, dtype="float64"),
    ):
        session = backend.open(problem, allocate(problem))
        assert gate.check(session).ok
        session.operands.c.fill(np.nan)
        assert session.run_from_c(2) > 0
        assert np.isfinite(session.operands.c).all()


OPEN_BESIDE = """
import ctypes, pathlib, sys
from backends.blas_library import BlasLibrary
ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
print(BlasLibrary("cblas:toy", pathlib.Path(sys.argv[2])).probe().reason or "computes by itself")
"""


def test_what_another_opened_for_everybody_does_not_stand_in(build: Build):
    """As MKL opens its parts: a BLIS opened later called MKL's `sgemm_` for its own."""
    other, own = build(MARK=1), build(MARK=2)
    words = [sys.executable, "-c", OPEN_BESIDE, str(other), str(own)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.strip() == "computes by itself", done.stdout + done.stderr


REFUSED = {
    "names and call disagree": ({"suffix": "64_"}, "contradicts itself: by its symbol names.*64.*32"),
    "its word and a call disagree": (
        {"CONFIG": '"OpenBLAS 0.3 USE64BITINT"'}, "contradicts itself: by its own word.*64.*32",
    ),
    "nothing tells": ({"NO_ASUM": 1}, "nothing tells whether its integers have 32 or 64 bits"),
    "wrong sums": ({"WRONG": 1}, "computes a small gemm of float32 wrongly"),
    "no CBLAS": ({"prefix": "other_"}, "no cblas_sgemm or cblas_dgemm"),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_a_library_that_is_not_what_it_says_is_refused(build: Build, fault):
    options, reason = REFUSED[fault]
    backend, problem = toy(build(**options)), Problem(m=2, n=2, k=2)
    assert not backend.probe().ok
    with pytest.raises(Unavailable, match=reason):
        backend.open(problem, allocate(problem))


def test_the_word_of_the_library_counts_where_no_call_can_show(build: Build):
    wide = toy(build(64, NO_ASUM=1, CONFIG='"OpenBLAS 0.3 USE64BITINT"'))
    assert wide.probe().detail["integer_bits"] == 64
    assert (wide.gemm(np.eye(3), np.ones((3, 2))) == 1).all()


def test_threads_are_set_and_put_back(build: Build):
    backend = toy(build(CONFIG='"OpenBLAS 0.3.99 DYNAMIC_ARCH"'))
    problem = Problem(m=4, n=4, k=4)
    detail = backend.probe().detail
    assert (detail["version"], detail["kernels"], detail["threads"]) == ("0.3.99", "Toy", 2)
    session = backend.open(problem, allocate(problem), threads=1)
    session.activate()
    assert session.observed_threads() == 1
    session.quiesce()
    assert session.observed_threads() == 2
    fixed = toy(build())
    assert fixed.thread_counts(problem) == (1,)
    with pytest.raises(Unavailable, match="no function that sets its thread count"):
        fixed.open(problem, allocate(problem), threads=2)


def test_mkl_that_would_end_the_process_is_only_absent(build: Build, monkeypatch):
    monkeypatch.delenv("MKL_THREADING_LAYER", raising=False)
    path = build(MKL=3, FATAL=1)
    state = toy(path).probe()
    assert not state.ok
    assert str(path) not in Path("/proc/self/maps").read_text(), "who finds it loaded may call it, and end"
    assert "MKL does not run with any layer of INTEL, GNU, TBB, SEQUENTIAL: exit status 2" in state.reason


def test_the_first_threading_layer_that_works_is_taken(build: Build, monkeypatch):
    monkeypatch.delenv("MKL_THREADING_LAYER", raising=False)
    path = build(MKL=3)  # as where only the GNU layer's library lies beside libmkl_rt
    assert toy(path).probe().detail["threading"] == "gnu"
    monkeypatch.setenv("MKL_THREADING_LAYER", "SEQUENTIAL")
    state = toy(path).probe()
    assert not state.ok
    assert "with MKL_THREADING_LAYER=SEQUENTIAL" in state.reason


def test_sizes_beyond_32_bits(build: Build):
    huge = Problem(op="gemv", m=2**31, n=1)
    assert "32-bit sizes" in (toy(build(32)).supports(huge) or "")
    assert toy(build(64)).supports(huge) is None


def test_which_views_are_taken(build: Build):
    backend = toy(build())
    matrix = np.zeros((8, 6), np.float32)
    assert backend.takes(matrix[:, 1:4])
    assert backend.takes(matrix[0:1, ::-1][:, ::-1])
    assert backend.takes(matrix[:, 2])
    refused = (matrix[:, ::2], matrix[::-1], matrix.T, matrix[::-1, 2], np.broadcast_to(matrix[0], (8, 6)))
    assert not any(backend.takes(view) for view in refused)


def test_a_library_is_found_on_the_loaders_path_and_named(build: Build, monkeypatch):
    path = build(64, "", "64_", file="libopenblas64_.so.0", CONFIG='"OpenBLAS 0.3.99 USE64BITINT"')
    monkeypatch.setenv("LD_LIBRARY_PATH", str(path.parent))
    monkeypatch.setattr(_blas_find, "find", _blas_find.look)
    mine = [f for f in _blas_find.find() if f.path.resolve() == path.resolve()]
    assert [(f.family, f.origin) for f in mine] == [("openblas64", "system")]
    listed = [b for b in blas_library.load() if getattr(b, "path", None) == path]
    assert [b.name.startswith("cblas:openblas64") for b in listed] == [True]
    assert listed[0].probe().ok


def test_what_is_loaded_later_changes_no_name(build: Build):
    before = [b.name for b in blas_library.load()]
    path = build(file="libopenblas_late.so", CONFIG='"OpenBLAS 0.3.99"')
    ctypes.CDLL(str(path))
    assert path in _blas_find._loaded()
    assert [b.name for b in blas_library.load()] == before


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("libmkl_rt.so.2", "mkl"), ("libmkl_core.so.2", ""), ("libblis.so.4", "blis"), ("libblas.so.3", ""),
        ("libblis-mt.so.5", "aocl"), ("libdnnl.so.3", "onednn"), ("libopenblas.so.0", "openblas"),
        ("libopenblas64_.so.0", "openblas64"), ("libopenblasp-r0.3.21.so", "openblas"),
        ("libscipy_openblas64_-32a4b2a6.so", "openblas64"), ("libscipy_openblas.so", "openblas"),
        ("libscipy_openblas-c128ec02.so", "openblas"),
    ],
)  # fmt: skip
def test_families_by_file_name(name, family):
    assert _blas_find.family_of(Path("/somewhere") / name) == family


def test_absent_families_are_listed_with_reason_and_cure(monkeypatch):
    monkeypatch.setattr(_blas_find, "find", tuple)
    found = {b.name: b.probe() for b in blas_library.load()}
    assert set(found) == {"cblas:mkl", "cblas:blis", "cblas:openblas", "cblas:onednn"}
    assert all(not state.ok and "no such library" in state.reason and state.cure for state in found.values())


def test_named_by_its_path(build: Build):
    path = build(64, "scipy_", "64_", file="libmine.so")
    backend = backends.get(f"cblas:{path}")
    assert backend.name == "cblas:libmine.so"  # a record has no absolute path
    assert backends.get(f"cblas:{path}") is backend
    assert named([f"cblas:{path}"]) == [backend]
    with pytest.raises(ValueError, match=r"there is no file /nowhere/lib\.so"):
        backends.get("cblas:/nowhere/lib.so")
    with pytest.raises(Stop, match="there is no file"):
        named(["cblas:/nowhere/lib.so"])
    with pytest.raises(Stop, match="is unknown"):
        named(["cblas:nothing"])


def test_two_files_of_one_name_are_two_libraries(tmp_path):
    paths = [tmp_path / folder / "libtwin.so" for folder in ("a", "b", "c/b")]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.touch()
    names = ["cblas:libtwin.so", "cblas:b/libtwin.so", "cblas:c/b/libtwin.so"]
    assert [backends.get(f"cblas:{path}").name for path in paths] == names
    assert [backends.get(f"cblas:{path}").name for path in paths] == names
    assert backends.get(f"cblas:{tmp_path}/b/../b/libtwin.so").name == names[1]


def test_numpys_own_library_is_named_but_no_second_rival():
    same = [b for b in backends.all_backends() if b.stands_beside == "numpy"]
    for backend in same:
        assert backend.probe().detail["same_library_as"] == "numpy"
        assert backend not in registry.usable()
        assert named([backend.name]) == [backend]
    path = blas_library._numpy_file()
    found = [f for f in _blas_find.find() if f.path.resolve() == path]
    assert len(same) == len(found)
