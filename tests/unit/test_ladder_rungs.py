"""The rungs of cpu/ladder through Python: headers, right results, planted faults that the gate catches."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import cffi
import msgspec
import numpy as np
import pytest

import backends
from backends import _cpu_ladder as source
from backends.base import Problem, SessionInfo, Unavailable
from backends.native import NativeSession
from backends.operands import Operands, allocate
from suite import gate, ladder
from suite.reference import ReferenceCache

ROOT = Path(__file__).resolve().parents[2]
RUNGS = source.backends()
NAMES = [b.rung.name for b in RUNGS]

GOOD = """/* An idea.
 *
 * /// rung
 * title = "plain"
 * idea = "one"
 * changes = \"\"\"
 * two
 * lines\"\"\"
 * look_at = "three"
 * builds = ["scalar", "auto"]
 *
 * [flops_per_entry]
 * registers = "2 * MR * NR / (MR + NR)"
 * ///
 */
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "90_test.c"
        path.write_text(text)
        return path

    return write


class TestHeader:
    def test_a_good_one(self, write):
        header = source.parse(write(GOOD))
        assert (header.title, header.changes, header.threaded) == ("plain", "two lines", False)
        assert header.builds == ("scalar", "auto")

    @pytest.mark.parametrize(
        ("old", "new", "complaint"),
        [
            (" * /// rung\n", "", "no TOML block"),
            (" * ///\n", "", "no TOML block"),
            (' * title = "plain"\n', "", "missing required field `title`"),
            ('"plain"', "3", "`$.title`"),
            ('"plain"', '"plain"\n * colour = "red"', "colour"),
            ('["scalar", "auto"]', '["scalar", "fast"]', "`$.builds[1]`"),
            ('["scalar", "auto"]', "[]", "builds must name at least one"),
            ('["scalar", "auto"]', '["auto", "auto"]', "each once"),
            ("registers =", "cache =", "'cache'"),
            ("2 * MR", "2 * XR", "flops_per_entry.registers: '2 * XR"),
            ("2 * MR", "2 ** MR", "flops_per_entry.registers"),
            ("2 * MR", "2 * (MR", "is not a formula"),
            ('"three"', "", "90_test.c"),
        ],
    )
    def test_a_bad_one_is_named_with_file_and_field(self, write, old, new, complaint):
        text = GOOD.replace(old, new)
        assert text != GOOD
        with pytest.raises(source.HeaderError) as error:
            source.parse(write(text))
        assert complaint in str(error.value) and str(error.value).startswith("90_test.c: ")

    @pytest.mark.parametrize(
        ("formula", "value"), [("2 / 2", 1), ("2 * MR * NR / (MR + NR)", 12.8), ("MR - 1.5", 6.5)]
    )
    def test_formulas(self, formula, value):
        assert source.evaluate(formula, {"MR": 8, "NR": 32}) == pytest.approx(value)

    @pytest.mark.parametrize("formula", ["__import__('os')", "MR.real", "MR if 1 else 2", "'2'", "-MR", ""])
    def test_nothing_else_is_evaluated(self, formula):
        with pytest.raises(ValueError, match=r"formula|use numbers"):
            source.evaluate(formula, {"MR": 8})


class TestTable:
    def test_headers_and_compiled_library_agree(self):
        assert [b.probe().reason for b in RUNGS if not b.probe().ok] == []
        lib = source.library().lib
        assert lib.gemm_ladder_count() == len(RUNGS)

    def test_the_issue_s_ideas_are_there_in_their_order(self):
        main = [b.rung.path.stem for b in RUNGS if b.rung.build == b.rung.header.builds[0]]
        assert main == [
            "01_naive",
            "02_interchanged",
            "03_cache_tiled",
            "04_register_tiled",
            "05_vectorised",
            "06_packed",
            "07_threaded",
        ]

    def test_no_rung_is_a_candidate_of_a_comparison(self):
        assert [b.name for b in backends.all_backends() if b.name.startswith("ladder")] == []

    def test_another_rung_in_the_library_is_said(self):
        moved = source.RungBackend(msgspec.structs.replace(RUNGS[0].rung, index=1))
        assert "02_interchanged in the place of 01_naive" in moved.probe().reason

    def test_intensities_are_those_of_the_tile(self):
        problem = Problem(m=8, n=8, k=8)
        found = {b.rung.name: b.open(problem, allocate(problem)).info.config for b in RUNGS}
        assert found["01_naive"]["flop_per_byte"] == {"registers": 0.25, "block": 0.03125}
        tile = found["05_vectorised"]["tile"]
        expected = 2 * tile["mr"] * tile["nr"] / (tile["mr"] + tile["nr"]) / 4
        assert found["05_vectorised"]["flop_per_byte"]["registers"] == pytest.approx(expected)
        by_block = [found[name]["flop_per_byte"]["block"] for name in NAMES if "/" not in name]
        assert by_block == sorted(by_block), "no rung has a lower intensity than the one before"

    @pytest.mark.parametrize(
        "wrong",
        [
            {"op": "gemv", "m": 4, "n": 4},
            {"m": 4, "n": 4, "k": 4, "batch": 2},
            {"m": 4, "n": 4, "k": 4, "trans_a": True},
            {"m": 4, "n": 4, "k": 4, "dtype": "float16"},
            {"m": 4, "n": 4, "k": 4, "math": "tf32"},
        ],
    )
    def test_what_it_does_not_compute_does_not_open(self, wrong):
        problem = Problem(**wrong)
        with pytest.raises(Unavailable, match="computes"):
            RUNGS[0].open(problem, Operands(*[np.zeros(1, np.float32)] * 3))


@pytest.mark.parametrize("backend", RUNGS, ids=NAMES)
class TestRight:
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_gate(self, backend, dtype):
        cache = ReferenceCache(8)
        shapes = [(1, 1, 1), (40, 33, 17), (64, 64, 64), (129, 70, 257), (5, 7, 0), (3, 0, 4)]
        for m, n, k in shapes:
            for alpha, beta in ((1.0, 0.0), (-2.0, 0.5), (0.0, 1.0)):
                problem = Problem(m=m, n=n, k=k, dtype=dtype, alpha=alpha, beta=beta)
                session = backend.open(problem, allocate(problem))
                outcome = gate.check(session, cache=cache)
                session.close()
                assert outcome.ok, f"{problem}: {outcome.detail}"

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_every_size_to_40_with_leading_dimensions_and_sentinels(self, backend, dtype):
        rng = np.random.default_rng(1)
        for size in range(1, 41):
            m, n, k = size, 1 + size * 7 % 40, 1 + size * 11 % 40
            whole = [np.full((rows + 2, columns + 5), np.nan, dtype) for rows, columns in
                     ((m, k), (k, n), (m, n))]  # fmt: skip
            a, b, c = (w[1:-1, 2:-3] for w in whole)
            a[...], b[...] = rng.integers(-8, 9, a.shape), rng.integers(-8, 9, b.shape)
            session = backend.open(Problem(m=m, n=n, k=k, dtype=dtype), Operands(a, b, c))
            session.run()
            session.close()
            assert np.array_equal(c, a @ b)
            assert np.isnan(whole[2]).sum() == whole[2].size - c.size, "wrote outside C"

    def test_timed_inside_c(self, backend):
        problem = Problem(m=50, n=50, k=50)
        session = backend.open(problem, allocate(problem))
        assert 0 < session.run_from_c(1) < 10 and session.run_from_c(0) < session.run_from_c(200)
        session.close()


FAULTS = [
    ("01_naive", "k < K; k++) sum", "k < K - 1; k++) sum", "the last product lost"),
    ("01_naive", "C[i * ldc + j] += alpha", "C[i * ldc + j] = alpha", "C overwritten"),
    ("02_interchanged", "B[k * ldb + j]", "B[k * N + j + (j == N - 1 && k == 0)]", "one entry of B beside"),
    ("03_cache_tiled", "min_of(N, jj + NC)", "min_of(N, jj + 64)", "a block too narrow"),
    (
        "04_register_tiled",
        "  plain(m, N - n,",
        "  if (0) plain(m, N - n,",
        "the edge left out",
    ),
    ("05_vectorised", "  plain(M - m, N,", "  plain(M - m, n,", "the corner left out"),
    ("06_packed", "min_of(n, NR); j++) C", "min_of(n, NR) - 1; j++) C", "the last column of a cut tile"),
]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Compiles a rung with a fault planted in it; the function that runs it on a `gemm_call`."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("planted")

    def build(rung, old, new):
        text = (ROOT / "cpu" / "ladder" / f"{rung}.c").read_text()
        assert text.count(old) == 1, f"{rung} has {text.count(old)} of {old!r}"
        name = f"{rung}_{len(list(folder.iterdir()))}"
        (folder / f"{name}.c").write_text(
            '#define T float\n#include "kernels/vec_portable.h"\n#define ENTRY planted\n'
            f'#define ENTRY_NAME "{rung}"\n#define ENTRY_ISA "portable"\n'
            f'{text.replace(old, new)}\n#include "ladder/entry.h"\n'
        )
        include = ["-I", str(ROOT / "cpu"), "-I", str(ROOT / "cpu" / "include"), "-I",
                   str(ROOT / "cpu" / "ladder")]  # fmt: skip
        target = folder / f"{name}.so"
        flags = ["-O1", "-fPIC", "-shared", "-pthread"]
        sources = [str(folder / f"{name}.c"), str(ROOT / "cpu" / "buffer.c")]
        subprocess.run([compiler, *flags, *include, *sources, "-o", str(target)], check=True)
        return ctypes.CDLL(str(target))

    return build


class PlantedSession(NativeSession):
    """Runs the first field of the planted `ladder_entry`, its function, on the prepared call."""

    def __init__(self, problem, operands, library):
        super().__init__(problem, operands, 1)
        address = ctypes.c_void_p.in_dll(library, "planted").value
        self.function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address)
        self.info = SessionInfo(kernel="planted")
        self.place = int(cffi.FFI().cast("uintptr_t", self._call))

    def run(self):
        assert self.function(self.place) == 0


def outcome(library, beta=0.0):
    problem = Problem(m=67, n=77, k=70, beta=beta)
    session = PlantedSession(problem, allocate(problem), library)
    found = gate.check(session)
    session.close()
    return found


@pytest.mark.parametrize("rung", sorted({rung for rung, *_ in FAULTS}))
def test_the_same_file_without_a_fault_passes(planted, rung):
    library = planted(rung, " * ///\n", " * ///\n *\n")
    assert outcome(library, beta=1.0).ok


@pytest.mark.parametrize(("rung", "old", "new", "what"), FAULTS, ids=[fault[3] for fault in FAULTS])
def test_a_planted_fault_is_caught_by_the_gate(planted, rung, old, new, what):
    found = outcome(planted(rung, old, new), beta=1.0)
    assert not found.ok and found.failed in ("exact", "fingerprint", "bound")


def test_devices_are_those_that_have_a_provider():
    assert "cpu" in ladder.devices()
    for device in ladder.devices():
        assert ladder.provider(device).device == device
