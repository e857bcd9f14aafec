"""TOML headers and source hashes of the CUDA kernels."""

from __future__ import annotations

import pytest

from backends import _cuda_source as source
from backends.cuda_kernels import BrokenKernel, CudaKernel, load

GOOD = """// An idea.
//
// /// kernel
// entry = "f"
// op = "gemm"
// dtypes = ["float32"]
// math = ["fp32"]
// launcher = "grid2d"
// min_sm = 50
// teaches = "x"
//
// [[variant]]
// threads = [32, 8]
// tile = [8, 32, 1]
// ///
#include "problem.cuh"
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="90_test.cu"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_every_kernel_file_is_a_backend_for_each_of_its_variants():
    names = {b.name for b in load()}
    assert {"cuda:01_naive", "cuda:01_naive/uncoalesced", "cuda:02_shared_tile", "cuda:08_wmma"} <= names
    assert {f"cuda:{path.stem}" for path in source.files()} <= names
    assert all(isinstance(b, CudaKernel) and b.device == "cuda" and not b.strided for b in load())


def test_a_good_header_gives_its_values_to_the_compiler(write):
    (kernel,) = source.parse(write(GOOD))
    assert kernel.name == "cuda:90_test"
    assert kernel.defines("float32") == {
        "STORAGE_float32": 1, "THREADS_X": 32, "THREADS_Y": 8, "THREADS": 256,
        "TILE_M": 8, "TILE_N": 32, "TILE_K": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("// /// kernel\n", "", "no TOML block"),
        ("// ///\n", "", "no TOML block"),
        ('entry = "f"', 'entry = "f g"', "entry 'f g' is not a function name"),
        ('// entry = "f"\n', "", "missing required field `entry`"),
        ('entry = "f"', "entry = 3", "`$.entry`"),
        ('op = "gemm"', 'op = "gemmm"', "`$.op`"),
        ('op = "gemm"', 'op = "gemm"\n// colour = 3', "colour"),
        ('"float32"', '"float33"', "dtypes has 'float33'"),
        ('math = ["fp32"]', 'math = ["fp32", "fp64"]', "math has 2 entries for 1 dtypes"),
        ('math = ["fp32"]', 'math = ["fp64"]', "math 'fp64' is no arithmetic of float32"),
        ('"grid2d"', '"grid3d"', "`$.launcher`"),
        ('"grid2d"', '"linear"\n// realigns = true', "realigns is for launcher 'grid2d', not 'linear'"),
        ("min_sm = 50", 'min_sm = "50"', "`$.min_sm`"),
        ("threads = [32, 8]", "threads = [32]", "`$.variant[0].threads`"),
        ("threads = [32, 8]", "threads = [64, 32]", "threads [64, 32]"),
        ("tile = [8, 32, 1]", "tile = [8, 0, 1]", "tile [8, 0, 1]"),
        ("tile = [8, 32, 1]", "tile = [8, 32, 1]\n// shared_bytes = -1", "shared_bytes -1"),
        ("tile = [8, 32, 1]", "tile = [8, 32, 1]\n// defines = { low = 1 }", "defines has 'low'"),
        ("[[variant]]", '[[variant]]\n// name = "a"', "must be there and have no name"),
        ("min_sm = 50", 'min_sm = 50\n// transposes = ["nx"]', "transposes has 'nx'"),
        ("min_sm = 50", "min_sm = ", "90_test.cu"),
    ],
)
def test_a_bad_header_is_named_with_file_and_field(write, old, new, complaint):
    assert old in GOOD
    with pytest.raises(source.HeaderError) as error:
        source.parse(write(GOOD.replace(old, new)))
    assert str(error.value).startswith("90_test.cu: ")
    assert complaint in str(error.value)


def test_a_bad_header_takes_down_only_its_own_kernel(write, monkeypatch):
    paths = [*source.files(), write(GOOD.replace('"gemm"', '"gem"'), "91_bad.cu")]
    monkeypatch.setattr(source, "files", lambda: paths)
    source.all_kernels.cache_clear()
    try:
        found = {b.name: b for b in load()}
    finally:
        source.all_kernels.cache_clear()
    assert isinstance(found["cuda:91_bad"], BrokenKernel)
    assert "91_bad.cu" in found["cuda:91_bad"].probe().reason
    assert isinstance(found["cuda:01_naive"], CudaKernel)


def test_hash_sees_code_defines_and_headers_but_no_comment(write, monkeypatch, tmp_path):
    def digest(text):
        return source.source_hash(source.parse(write(text))[0])

    base = digest(GOOD)
    assert digest(GOOD + "// more\n/* and\nmore */\n\n") == base
    assert digest(GOOD.replace('teaches = "x"', 'teaches = "y"')) == base
    assert digest(GOOD.replace('#include "problem.cuh"', '#include  "problem.cuh"  // why')) == base
    assert digest(GOOD + "int x;\n") != base
    assert digest(GOOD.replace("[8, 32, 1]", "[8, 32, 2]")) != base
    assert digest(GOOD.replace("grid2d", "linear")) != base
    (tmp_path / "include").mkdir()
    header = source.root() / "include" / source.ARGUMENTS
    (tmp_path / "include" / header.name).write_text(header.read_text() + "// a comment\n")
    monkeypatch.setattr(source, "root", lambda: tmp_path)
    assert digest(GOOD) == base
    (tmp_path / "include" / header.name).write_text(header.read_text() + "int y;\n")
    assert digest(GOOD) != base


def test_comments_inside_strings_stay():
    text = 'asm("// stays"); // goes\nchar c = \'"\'; /* goes */ int x;'
    assert " ".join(source.without_comments(text).split()) == 'asm("// stays"); char c = \'"\'; int x;'


def test_the_installed_copy_is_used_where_there_is_no_checkout(monkeypatch, tmp_path):
    module = tmp_path / "backends" / "_cuda_source.py"
    monkeypatch.setattr(source, "__file__", str(module))
    assert source.root() == tmp_path / "backends" / "_cuda"
    (tmp_path / "cuda" / "include").mkdir(parents=True)
    assert source.root() == tmp_path / "backends" / "_cuda", "another package's cuda/ is not ours"
    (tmp_path / "cuda" / "include" / source.ARGUMENTS).write_text("")
    assert source.root() == tmp_path / "cuda"


def test_kernels_say_what_they_do_not_compute():
    from backends import Problem

    naive = next(b for b in load() if b.name == "cuda:01_naive")
    assert naive.supports(Problem(m=3, n=3, k=3)) is None
    assert "not gemv" in naive.supports(Problem(op="gemv", m=3, n=3))
    assert "float32 in tf32" in naive.supports(Problem(m=3, n=3, k=3, math="tf32"))
    rows = next(b for b in load() if b.name == "cuda:20_gemv_warp_row")
    assert "transposes n, not t" in rows.supports(Problem(op="gemv", m=3, n=3, trans_a=True))
    assert "blocks" in naive.supports(Problem(m=2**33, n=2**33, k=1))
