"""What a session promises: the transfer modes, reuse, empty runs, threads, and leaving nothing behind."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from backends.arithmetic import MATHS
from backends.base import APART, Backend, Problem, Session, Unavailable
from backends.operands import Operands, allocate, fill_random

Opened = tuple[Session, Operands]


@pytest.fixture
def opened(usable: Backend, example: Problem):
    operands = allocate(example)
    fill_random(operands, 3)
    session = usable.open(example, operands)
    session.activate()
    yield session, operands
    session.quiesce()
    session.close()


def expected(problem: Problem, operands: Operands, dtype: type = np.float64) -> np.ndarray:
    a = operands.a.astype(dtype)
    a = a.swapaxes(-1, -2) if problem.trans_a else a
    if problem.op == "copy":
        return a
    b = operands.b.astype(dtype)
    return a + b if problem.op == "vector_add" else a @ b


def assert_near(problem: Problem, operands: Operands) -> None:
    arithmetic = MATHS[problem.math]
    bound = 4 * arithmetic.u_in + 2 * (problem.k * problem.n + 3) * arithmetic.u_acc
    error = np.abs(operands.c.astype(np.float64) - expected(problem, operands))
    assert np.all(error <= bound * 100), f"off by {error.max()}"


def move_in(session: Session) -> None:
    session.upload()
    session.synchronize()


def move_out(session: Session) -> None:
    session.download()
    session.synchronize()


def test_every_mode_gives_the_result(usable: Backend, opened: Opened):
    session, operands = opened
    for mode in sorted(usable.transfers - APART):
        for reuse in (1, 3):
            operands.c.fill(np.nan)
            move_in(session)
            session.enqueue(mode, reuse)
            if mode == "resident":
                move_out(session)
            assert_near(session.problem, operands)


def test_a_mode_apart_gives_the_result_in_a_session_of_its_own(usable: Backend, example: Problem):
    for mode in sorted(usable.transfers & APART):
        session = usable.open_for(example, allocate(example), mode)
        fill_random(session.operands, 3)
        session.activate()
        assert session.only == mode
        for reuse in (1, 3):
            session.operands.c.fill(np.nan)
            if mode in session.rearms:
                session.rearm(mode)
            session.enqueue(mode, reuse)
            assert_near(example, session.operands)
        for other in ("resident", "once", "always"):
            with pytest.raises(ValueError, match=other):
                session.enqueue(other)
        session.quiesce()
        session.close()


def test_a_mode_that_is_refused_opens_no_session(usable: Backend, example: Problem):
    for mode in sorted((APART - usable.transfers) | {"resident"}):
        with pytest.raises(Unavailable, match=mode):
            usable.open_for(example, allocate(example), mode)


def test_modes_that_are_rearmed_are_offered(usable: Backend, opened: Opened):
    assert opened[0].only is None
    assert opened[0].rearms <= usable.transfers


def test_resident_needs_no_second_upload(opened: Opened):
    session, operands = opened
    move_in(session)
    for _ in range(3):
        session.enqueue("resident", 2)
    move_out(session)
    assert_near(session.problem, operands)


def test_new_inputs_give_new_results(opened: Opened):
    session, operands = opened
    for seed in (5, 6):
        fill_random(operands, seed)
        session.enqueue("always")
        assert_near(session.problem, operands)


def test_unknown_mode_is_refused(opened: Opened):
    with pytest.raises(ValueError, match="sideways"):
        opened[0].enqueue("sideways")  # type: ignore[arg-type]


def test_inputs_stay_as_they_were(opened: Opened):
    session, operands = opened
    before = [x.tobytes() for x in operands[:2] if x is not None]
    for mode in ("once", "always"):
        session.enqueue(mode, 2)
    assert [x.tobytes() for x in operands[:2] if x is not None] == before


def test_empty_run_computes_nothing(opened: Opened):
    session, operands = opened
    session.enqueue("once")
    right = operands.c.copy()
    operands.a.fill(np.nan)
    move_in(session)
    for _ in range(3):
        session.run_empty()
    session.synchronize()
    move_out(session)
    np.testing.assert_array_equal(operands.c, right)


def test_beta_adds_once_a_run(usable: Backend, example: Problem):
    if example.op not in ("gemm", "gemv"):
        assert usable.supports(example) is None
        return
    added = msgspec.structs.replace(example, beta=1.0)
    if usable.supports(added):
        pytest.fail(f"{usable.name} takes {example.op} without beta only: {usable.supports(added)}")
    for mode in ("once", "always"):
        operands = allocate(added)
        operands.a[...] = np.random.default_rng(1).integers(-3, 4, operands.a.shape)
        operands.b[...] = np.random.default_rng(2).integers(-3, 4, operands.b.shape)
        operands.c.fill(2)
        session = usable.open(added, operands)
        session.enqueue(mode, 3)
        session.close()
        np.testing.assert_array_equal(operands.c.astype(np.float64), 2 + 3 * expected(added, operands))


def test_two_sessions_do_not_disturb_each_other(usable: Backend, example: Problem):
    pairs = []
    for seed in (1, 2):
        operands = allocate(example)
        fill_random(operands, seed)
        pairs.append((usable.open(example, operands), operands))
    for session, _ in pairs:
        move_in(session)
    for _ in range(2):
        for session, _ in pairs:
            session.run()
    for session, operands in pairs:
        move_out(session)
        assert_near(example, operands)
        session.close()


def test_open_and_close_many_times(usable: Backend, example: Problem):
    operands = allocate(example)
    fill_random(operands, 1)
    for _ in range(20):
        session = usable.open(example, operands)
        session.enqueue("always")
        session.close()
    assert_near(example, operands)


def test_activate_and_quiesce_repeat(opened: Opened):
    session, operands = opened
    for _ in range(3):
        session.activate()
        session.activate()
        session.enqueue("once")
        session.quiesce()
        session.quiesce()
    assert_near(session.problem, operands)


def test_split_is_a_diagnostic_in_seconds(opened: Opened):
    parts = opened[0].parts()
    assert parts is None or set(parts) <= {"h2d", "launch", "kernel", "d2h"}
    assert all(0 <= seconds < 10 for seconds in (parts or {}).values())


def test_calls_from_c(opened: Opened):
    session, operands = opened
    move_in(session)
    seconds = session.run_from_c(3)
    if seconds is not None:
        session.synchronize()
        move_out(session)
        assert 0 < seconds < 10
        assert_near(session.problem, operands)


def test_info_can_be_recorded(usable: Backend, opened: Opened):
    info = opened[0].info
    assert info.kernel
    for text in strings([msgspec.to_builtins(info), msgspec.to_builtins(usable.probe().detail)]):
        assert not text.startswith(("/", "~", "C:\\")), f"a path in a record: {text}"
    assert msgspec.json.encode([info, usable.probe()])


def strings(value: object):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings(item)


def test_asked_threads_are_used(usable: Backend, example: Problem):
    if usable.device != "cpu" or example.op != "gemm":
        assert usable.thread_counts(example) == (1,)
        return
    problem = msgspec.structs.replace(example, m=512, n=512, k=512)
    counts = usable.thread_counts(problem)
    assert counts[0] == 1
    assert list(counts) == sorted(set(counts))
    for count in (*counts, *counts[::-1]):
        session = usable.open(problem, allocate(problem), threads=count)
        session.activate()
        assert session.info.threads == count
        for _ in range(50):  # a thread that the system starts too late takes no part
            session.run()
            assert session.observed_threads() <= count
            if session.observed_threads() == count:
                break
        assert session.observed_threads() == count
        session.close()


@pytest.mark.parametrize("threads", [0, -1, 2.5, "two"])
def test_senseless_thread_counts_are_refused(usable: Backend, example: Problem, threads):
    if len(usable.thread_counts(example)) > 1:
        with pytest.raises(ValueError, match="threads"):
            usable.open(example, allocate(example), threads=threads)


def test_what_is_not_supported_does_not_open(usable: Backend):
    for problem in (Problem(m=4, n=4, k=4, math="bf16"), Problem(op="copy", n=4), Problem(m=4, n=4, k=4)):
        reason = usable.supports(problem)
        if reason is not None:
            with pytest.raises(Unavailable):
                usable.open(problem, allocate(problem))
