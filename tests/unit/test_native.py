"""The C library through its Python backend: environment, threads, fork, callers, instruction sets, builds."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl

import backends
from backends import _native_library, native
from backends.base import Problem
from backends.operands import Operands, allocate

ROOT = Path(__file__).resolve().parents[2]
NATIVE = backends.get("native")

if not NATIVE.probe().ok:
    pytest.skip(f"native: {NATIVE.probe().reason}. {NATIVE.probe().cure}", allow_module_level=True)

THREADS_MAX = NATIVE.probe().detail["threads_max"]


def integers(shape, dtype="float32", seed=0):
    """Integers small enough for every product of them to be exact."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)


def exact(A, B):
    return np.einsum("ij,jk->ik", A.astype(np.float64), B.astype(np.float64))


def python(code, **environment):
    """What `code` prints in a fresh interpreter with these environment variables."""
    clean = {
        k: v for k, v in os.environ.items() if k not in ("GEMM_ISA", "GEMM_NUM_THREADS", "OMP_NUM_THREADS")
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={**clean, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@pytest.fixture
def threads():
    """Sets the thread count for one test, and puts the former one back."""
    before = native.library().lib.gemm_threads_get()
    yield native.threads_set
    native.threads_set(before)


def test_probe_tells_what_runs():
    detail = NATIVE.probe().detail
    assert detail["isa"] in detail["isa_usable"]
    assert set(detail["isa_usable"]) <= set(detail["isa_compiled"])
    assert detail["isa"] in detail["kernels"][0]
    assert detail["blocks_float32"]["kc"] > 0


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"op": "vector_add", "n": 8}, "vector_add"),
        ({"dtype": "float16", "m": 8, "n": 8, "k": 8}, "float16"),
        ({"math": "tf32", "m": 8, "n": 8, "k": 8}, "tf32"),
    ],
)
def test_what_is_not_supported_is_named(changes, word):
    assert word in NATIVE.supports(Problem(**changes))


def test_float32_and_float64_gemm_and_gemv_are_supported():
    for dtype in ("float32", "float64"):
        assert NATIVE.supports(Problem(m=8, n=8, k=8, dtype=dtype)) is None
        assert NATIVE.supports(Problem(op="gemv", m=8, n=8, dtype=dtype)) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_session_computes_every_orientation(dtype, trans_a, trans_b, batch):
    problem = Problem(
        m=37, n=53, k=29, batch=batch, dtype=dtype, trans_a=trans_a, trans_b=trans_b, alpha=2.0, beta=-1.0
    )
    operands = allocate(problem)
    for seed, array in enumerate(operands):
        array[...] = integers(array.shape, dtype, seed)
    a, b, c = (array.reshape(batch, *array.shape[-2:]).copy() for array in operands)
    session = NATIVE.open(problem, operands)
    session.enqueue("resident")
    session.close()
    result = operands.c.reshape(c.shape)
    for i in range(batch):
        product = exact(a[i].T if trans_a else a[i], b[i].T if trans_b else b[i])
        assert np.array_equal(result[i], 2 * product - c[i])


@pytest.mark.parametrize("transposed", [False, True])
def test_gemv_session(transposed):
    problem = Problem(op="gemv", m=70, n=41, dtype="float64", beta=1.0, trans_a=transposed)
    operands = allocate(problem)
    for seed, array in enumerate(operands):
        array[...] = integers(array.shape, "float64", seed)
    a, x, y = (array.copy() for array in operands)
    session = NATIVE.open(problem, operands)
    session.run()
    session.close()
    assert np.array_equal(operands.c, (a.T if transposed else a) @ x + y)


def test_strided_views_are_taken_as_they_lie():
    parent_a, parent_b = integers((90, 160), seed=1), integers((160, 170), seed=2)
    A, B = parent_a[::-2, ::3], parent_b[:54, 169::-4]
    out = np.full((45, 86), np.nan, np.float32)[:, ::2]
    problem = Problem(m=45, n=43, k=54)
    NATIVE.compute(problem, Operands(A, B, out))
    assert np.array_equal(out, exact(A, B))


def test_runs_timed_inside_c_take_about_as_long_as_from_python():
    problem = Problem(m=96, n=96, k=96)
    session = NATIVE.open(problem, allocate(problem), threads=1)
    session.activate()
    session.run()
    seconds = [session.run_from_c(20) / 20 for _ in range(5)]
    session.close()
    assert 96**3 * 2 / 1e12 < min(seconds) < 0.1


def test_an_empty_run_computes_nothing():
    problem = Problem(m=8, n=8, k=8)
    operands = allocate(problem)
    operands.a.fill(1), operands.b.fill(1), operands.c.fill(7)
    session = NATIVE.open(problem, operands)
    session.run_empty()
    assert (operands.c == 7).all()
    session.run()
    assert (operands.c == 8).all()
    session.close()


@pytest.mark.parametrize("count", [0, -1, 2.5, "two", True, None])
def test_wrong_thread_counts_are_refused(count):
    with pytest.raises(ValueError, match="threads must be"):
        native.threads_set(count)


@pytest.mark.parametrize("count", [0, -1, 2.5])
def test_open_refuses_wrong_thread_counts(count):
    problem = Problem(m=8, n=8, k=8)
    with pytest.raises(ValueError, match="threads must be"):
        NATIVE.open(problem, allocate(problem), threads=count)


@pytest.mark.parametrize("count", [65, 257, 10**12])
def test_more_threads_than_allowed_are_capped(threads, count):
    assert threads(count) == THREADS_MAX
    A, B = integers((300, 300), seed=1), integers((300, 300), seed=2)
    assert np.array_equal(NATIVE.gemm(A, B), exact(A, B))
    assert 1 <= native.threads_used() <= THREADS_MAX


def test_session_puts_its_thread_count_in_force_and_the_old_one_back(threads):
    threads(THREADS_MAX)
    problem = Problem(m=300, n=300, k=300)
    session = NATIVE.open(problem, allocate(problem), threads=1)
    session.activate()
    session.run()
    assert session.observed_threads() == 1
    assert native.library().lib.gemm_threads_get() == 1
    session.quiesce()
    assert native.library().lib.gemm_threads_get() == THREADS_MAX
    session.close()
    assert session.info.threads == 1


def test_sessions_info_shows_the_capped_count():
    problem = Problem(m=8, n=8, k=8)
    session = NATIVE.open(problem, allocate(problem), threads=4 * THREADS_MAX)
    assert session.info.threads == THREADS_MAX
    session.close()


def test_thread_counts_worth_trying():
    counts = NATIVE.thread_counts(Problem(m=512, n=512, k=512))
    assert counts[0] == 1
    assert counts[-1] == THREADS_MAX
    assert list(counts) == sorted(set(counts))


def test_threadpoolctl_sees_and_limits_the_pool(threads):
    threads(THREADS_MAX)
    pools = [p for p in threadpoolctl.threadpool_info() if p["internal_api"] == "gemm_cpu"]
    assert [p["num_threads"] for p in pools] == [THREADS_MAX]
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        assert native.library().lib.gemm_threads_get() == 1
    assert native.library().lib.gemm_threads_get() == THREADS_MAX


ASK = (
    "import backends; d = backends.get('native').probe().detail;"
    "print(d['threads'], d['threads_max'], d['isa'])"
)


@pytest.mark.parametrize("name", ["GEMM_NUM_THREADS", "OMP_NUM_THREADS"])
@pytest.mark.parametrize(
    ("value", "count"),
    [("1", 1), ("1,2", 1), ("1000000", THREADS_MAX), ("", THREADS_MAX)]
    + [(wrong, THREADS_MAX) for wrong in ("0", "-1", "abc", "2.5")],
)
def test_thread_count_from_the_environment(name, value, count):
    printed, errors = python(ASK, **{name: value})
    assert int(printed.split()[0]) == count
    assert (f"{name}={value}" in errors) == (value in ("0", "-1", "abc", "2.5"))


def test_own_variable_goes_before_openmps():
    printed, _ = python(ASK, GEMM_NUM_THREADS="1", OMP_NUM_THREADS=str(THREADS_MAX))
    assert printed.split()[0] == "1"


@pytest.mark.parametrize("isa", ["portable", "avx2", "avx512"])
def test_of_two_micro_kernels_the_first_by_name_runs(isa):
    if isa not in NATIVE.probe().detail["isa_usable"]:
        pytest.skip(f"this CPU has no {isa}")
    folder = ROOT / "cpu" / "kernels"
    first = [min(path.stem for path in folder.glob(f"ukr_{isa}_{kind}_*.c")) for kind in ("f32", "f64")]
    code = "import backends; print(*backends.get('native').probe().detail['kernels'])"
    assert python(code, GEMM_ISA=isa) == (" ".join(first), "")


@pytest.mark.parametrize("isa", ["portable", "avx2", "avx512"])
def test_instruction_set_can_be_lowered(isa):
    if isa not in NATIVE.probe().detail["isa_usable"]:
        pytest.skip(f"this CPU has no {isa}")
    code = (
        "import numpy as np, backends; n = backends.get('native');"
        "A = np.arange(77 * 70, dtype='f4').reshape(77, 70) % 13; B = A.T.copy();"
        "assert np.array_equal(n.gemm(A, B), A.astype('f8') @ B); print(n.probe().detail['isa'])"
    )
    assert python(code, GEMM_ISA=isa) == (isa, "")


def test_unknown_instruction_set_is_ignored_and_said():
    printed, errors = python(ASK, GEMM_ISA="mmx")
    best = python(ASK)[0].split()[2]
    assert printed.split()[2] == best
    assert "GEMM_ISA=mmx is unknown" in errors
    assert best in errors


def test_affinity_caps_the_threads():
    cpu = min(os.sched_getaffinity(0))
    assert python(f"import os; os.sched_setaffinity(0, {{{cpu}}}); {ASK}")[0].split()[:2] == ["1", "1"]


def test_child_after_fork_computes_on():
    A, B = integers((300, 300), seed=1), integers((300, 300), seed=2)
    want = exact(A, B)
    NATIVE.gemm(A, B)
    child = os.fork()
    if child == 0:
        os._exit(0 if all(np.array_equal(NATIVE.gemm(A, B), want) for _ in range(3)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(NATIVE.gemm(A, B), want)


def test_eight_python_threads_at_once():
    jobs = []
    for i in range(8):
        A = integers((64 + 37 * i, 100 + 13 * i), seed=i)
        B = integers((100 + 13 * i, 300 - 31 * i), seed=i + 8)
        jobs.append((A, B, exact(A, B)))
    start, wrong = threading.Barrier(len(jobs)), []

    def work(A, B, want):
        start.wait()
        wrong.extend(1 for _ in range(40) if not np.array_equal(NATIVE.gemm(A, B), want))

    callers = [threading.Thread(target=work, args=job) for job in jobs]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_plain_library_without_the_extension():
    """The way of a machine without Python headers: same answers, through cffi's ABI mode."""
    code = (
        "import sys; sys.modules['_gemm_cpu'] = None\n"
        "import numpy as np, backends; n = backends.get('native'); d = n.probe()\n"
        "A = np.eye(40, 30, dtype='f8') * 3; B = np.ones((30, 20)); assert (n.gemm(A, B)[:30] == 3).all()\n"
        "with n.plan(A, B, out := np.empty((40, 20))) as p: p()\n"
        "assert (out[:30] == 3).all(); print(d.ok, d.detail['binding'])"
    )
    assert python(code)[0] == "True abi"


@pytest.mark.skipif(THREADS_MAX < 2, reason="needs two processors")
def test_library_closed_while_its_threads_run():
    code = (
        "import _ctypes, ctypes, importlib.util, time\n"
        "path = importlib.util.find_spec('_gemm_cpu_plain').origin\n"
        "n = 300; size, one, zero, alpha = *map(ctypes.c_ssize_t, (n, 1)), *map(ctypes.c_double, (0, 1))\n"
        "a, b, c = ((ctypes.c_double * n ** 2)(*[2] * n ** 2) for _ in range(3))\n"
        "for _ in range(40):\n"
        "    lib = ctypes.CDLL(path)\n"
        "    lib.gemm_f64(size, size, size, alpha, a, size, one, b, size, one, zero, c, size, one)\n"
        "    _ctypes.dlclose(lib._handle); time.sleep(0.002)\n"
        "print(c[7])"
    )
    assert python(code, GEMM_NUM_THREADS="2")[0] == "1200.0"


def test_absent_library_gives_reason_and_cure(monkeypatch):
    monkeypatch.setattr(_native_library, "_extension", lambda: None)
    monkeypatch.setattr(_native_library, "_plain", lambda: None)
    state = _probe_afresh(monkeypatch)
    assert not state.ok
    assert "not built" in state.reason
    assert "pip install" in state.cure


def test_library_of_another_abi_is_refused(monkeypatch):
    monkeypatch.setattr(_native_library, "ABI", _native_library.ABI + 1)
    state = _probe_afresh(monkeypatch)
    assert not state.ok
    assert "ABI version" in state.reason
    assert "rebuild" in state.cure


def test_library_of_other_sources_is_refused(monkeypatch, tmp_path):
    tools = tmp_path / "cpu" / "tools"
    tools.mkdir(parents=True)
    (tools / "cffi_source.py").write_text("def source_hash():\n    return 'edited'\n")
    monkeypatch.setattr(_native_library, "CHECKOUT", tmp_path)
    state = _probe_afresh(monkeypatch)
    assert not state.ok
    assert "other sources" in state.reason
    assert "pip install" in state.cure


def _probe_afresh(monkeypatch):
    """`probe` without what earlier calls have found."""
    monkeypatch.setattr(native, "library", _native_library.library.__wrapped__)
    return NATIVE.probe()


def test_out_of_memory_becomes_memory_error():
    with pytest.raises(MemoryError):
        native._check(native.NO_MEMORY)
