"""The quick call on whole arrays: what it takes is right, what it must not take it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest

import backends
from backends import _native_arrays, native

NATIVE = backends.get("native")

if not NATIVE.probe().ok:
    pytest.skip(f"native: {NATIVE.probe().reason}. {NATIVE.probe().cure}", allow_module_level=True)

BOUND = native.library()
QUICK = _native_arrays.quick_product(BOUND.ffi, BOUND.lib)
TAKEN, LEFT = 0, native.NOT_PLAIN


def whole(shape, dtype="f4", seed=0):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)


def quick(a, b, c):
    assert QUICK is not None
    return QUICK(id(a), id(b), id(c))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("m", [1, 2, 5, 33])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
@pytest.mark.parametrize("k", [1, 3, 17])
def test_views_of_any_strides_are_taken(dtype, m, n, k):
    lefts = [whole((m, k), dtype), whole((k, m), dtype).T, whole((2 * m, 3 * k), dtype)[::-2, ::3]]
    rights = [whole((k, n), dtype, 1), whole((n, k), dtype, 1).T, whole((k, n), dtype, 1)[::-1, ::-1]]
    for a in lefts:
        for b in rights:
            room = np.full((m, n + 3), np.nan, dtype)
            c = room[:, :n]
            assert quick(a, b, c) == TAKEN
            np.testing.assert_array_equal(c, a @ b)
            assert np.isnan(room[:, n:]).all()


def test_a_broadcast_operand_is_taken():
    a, b, c = np.broadcast_to(whole(5), (4, 5)), whole((5, 6)), np.empty((4, 6), "f4")
    assert quick(a, b, c) == TAKEN
    np.testing.assert_array_equal(c, a @ b)


class Derived(np.ndarray):
    pass


def left_alone():
    """(what is special, A, B, out): each for the long way, or for an error."""
    a, b, c = whole((4, 5)), whole((5, 6), seed=1), np.zeros((4, 6), "f4")
    frozen = c.copy()
    frozen.flags.writeable = False
    shared = np.zeros(100, "f4")
    raw = np.zeros(4 * 20 + 1, np.uint8)[1:].view("f4").reshape(4, 5)
    wide = [("f8 beside f4", a.astype("f8"), b, c), ("f4 into f8", a, b, c.astype("f8"))]
    yield from wide
    for dtype in ("i4", "f2", "c8", ">f4", "O"):
        yield dtype, a.astype(dtype), b.astype(dtype), c.astype(dtype)
    yield from [("no array", a, b, None), ("a list", a.tolist(), b, c), ("a subclass", a.view(Derived), b, c)]
    yield from [("rows", a[:3], b, c), ("columns", a, b[:, :5], c), ("depth", a[:, :4], b, c)]
    yield from [
        ("a vector", a, b[:, 0], c[:, 0]),
        ("a stack", a[None], b, c[None]),
        ("a scalar", a, b, c[0, 0]),
    ]
    yield from [
        ("no rows", a[:0], b, c[:0]),
        ("no depth", a[:, :0], b[:0], c),
        ("no columns", a, b[:, :0], c[:, :0]),
    ]
    yield from [("read-only", a, b, frozen), ("columns of C", a, b, np.zeros((6, 4), "f4").T)]
    yield from [("C backwards", a, b, c[::-1]), ("C in steps", a, b, np.zeros((4, 12), "f4")[:, ::2])]
    yield "out is A", whole((5, 5)), whole((5, 5)), None
    yield "A misaligned", raw, b, c
    yield "C over A", shared[:20].reshape(4, 5), b, shared[19:43].reshape(4, 6)
    yield "C over B", a, shared[23:53].reshape(5, 6), shared[:24].reshape(4, 6)
    yield "C over B backwards", a, shared[:30][::-1].reshape(5, 6), shared[29:53].reshape(4, 6)
    yield "C upon itself", a, b, np.lib.stride_tricks.as_strided(shared, (4, 6), (4, 4))


@pytest.mark.parametrize(("what", "a", "b", "c"), [pytest.param(*case, id=case[0]) for case in left_alone()])
def test_all_else_is_left_alone(what, a, b, c):
    c = a if what == "out is A" else c
    before = None if c is None else np.array(c, copy=True)
    assert quick(a, b, c) == LEFT
    if c is not None:
        np.testing.assert_array_equal(c, before)


def test_neighbours_in_memory_do_not_count_as_shared():
    buffer = whole(74)
    a, b, c = buffer[:20].reshape(4, 5), buffer[44:].reshape(5, 6), buffer[20:44].reshape(4, 6)
    assert quick(a, b, c) == TAKEN
    np.testing.assert_array_equal(c, a @ b)


def test_the_long_way_gives_the_same(monkeypatch):
    a, b = whole((9, 5)), whole((5, 7), seed=1)
    out = np.empty((9, 7), "f4")
    want = NATIVE.gemm(a, b)
    assert NATIVE.gemm(a, b, out=out) is out
    monkeypatch.setattr(NATIVE, "_quick", native._not_plain)
    np.testing.assert_array_equal(NATIVE.gemm(a, b), want)
    np.testing.assert_array_equal(NATIVE.gemm(a, b, out=np.empty((9, 7), "f4")), out)


def test_no_memory_is_said(monkeypatch):
    monkeypatch.setattr(NATIVE, "_quick", lambda *_: native.NO_MEMORY)
    with pytest.raises(MemoryError, match="packed panels"):
        NATIVE.gemm(whole((2, 2)), whole((2, 2)))


@pytest.mark.parametrize("fields", ["iP4xPPPPi", "P4xiPPPPi", "Pi4xPPPP4x4xi"])
def test_another_layout_is_noticed(monkeypatch, fields):
    monkeypatch.setattr(_native_arrays, "FIELDS", fields)
    assert _native_arrays.quick_product(BOUND.ffi, BOUND.lib) is None


def test_addresses_are_asked_of_cpython_only(monkeypatch):
    monkeypatch.setattr(_native_arrays.platform, "python_implementation", lambda: "PyPy")
    assert _native_arrays.quick_product(BOUND.ffi, BOUND.lib) is None
