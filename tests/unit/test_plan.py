"""Named shapes, problems at a size, and sizes of problems."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.base import Problem
from suite.plan import FAMILIES, clip, cpu_problem, family, problem_at, size_of, words


def dims(op, name, size):
    p = problem_at(op, family(name, op), size)
    return p.m, p.n, p.k


def test_all_nine_gemm_families():
    s = 100
    assert {dims("gemm", name, s) for name in FAMILIES["gemm"]} == {
        (s, s, s), (s, s, 32), (32, 32, s), (s, 32, 32), (32, s, 32),
        (s, s, 16 * s), (16 * s, 16 * s, s), (16 * s, s, s), (s, 16 * s, s),
    }  # fmt: skip


def test_all_five_gemv_families():
    s = 100
    assert {dims("gemv", name, s)[:2] for name in FAMILIES["gemv"]} == {
        (s, s), (s, 32), (32, s), (16 * s, s), (s, 16 * s),
    }  # fmt: skip


@given(st.sampled_from(["gemm", "gemv"]), st.data(), st.integers(1, 4096))
def test_the_size_of_a_problem_is_the_size_it_was_made_with(op, data, size):
    shape = family(data.draw(st.sampled_from(sorted(FAMILIES[op]))), op)
    assert size_of(problem_at(op, shape, size), shape) == size


def test_a_problem_of_another_shape_has_no_size():
    with pytest.raises(ValueError, match="not of the shape"):
        size_of(Problem(m=4, n=4, k=5), family("square"))


def test_patterns_and_dtypes():
    p = problem_at("gemm", family("M=N,K=32"), 64, "f64")
    assert (p.m, p.n, p.k, p.dtype, p.math) == (64, 64, 32, "float64", "fp64")
    assert problem_at("gemm", family("square"), 8, "float32", "tf32", batch=3).batch == 3
    assert problem_at("vector_add", family("square", "vector_add"), 10).n == 10


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: family("cube"), "'cube' is unknown for gemm: use square"),
        (lambda: family("tall16"), "'tall16' is unknown for gemm"),
        (lambda: problem_at("conv", family("square"), 8), "'conv' is unknown"),
        (lambda: problem_at("gemm", family("square"), 8, "float33"), "'float33' is unknown"),
        (lambda: problem_at("gemv", family("square", "gemv"), 8, batch=2), "batch"),
    ],
)
def test_errors_name_the_value_and_what_would_be_right(call, message):
    with pytest.raises(ValueError, match=r"unknown|batch") as raised:
        call()
    assert message in str(raised.value)


def test_clip_bounds_the_longest_dimension():
    assert clip((16, 32, 64, 128), family("M=N,K=16M"), 1024) == (16, 32, 64)


REDUCED = [
    ("float32", "tf32", "float32", "float32, CPU fp32 against GPU tf32"),
    ("float32", "bf16", "float32", "float32, CPU fp32 against GPU bf16"),
    ("float16", "fp16", "float32", "CPU float32 against GPU float16"),
    ("bfloat16", "bf16", "float32", "CPU float32 against GPU bfloat16"),
]


@pytest.mark.parametrize(("dtype", "math", "cpu", "text"), REDUCED)
def test_the_cpu_side_of_a_reduced_precision_is_plain(dtype, math, cpu, text):
    asked = Problem(m=3, n=4, k=5, beta=0.5, trans_b=True, dtype=dtype, math=math)
    assert cpu_problem(asked) == Problem(m=3, n=4, k=5, beta=0.5, trans_b=True, dtype=cpu, math="fp32")
    assert words(dtype, math) == text


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_sides_of_a_full_precision_are_the_same(dtype):
    asked = Problem(m=3, n=4, k=5, dtype=dtype)
    assert cpu_problem(asked) is asked
    assert words(dtype, asked.math) == dtype
