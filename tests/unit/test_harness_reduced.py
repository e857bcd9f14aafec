"""Two arithmetics in one comparison group: each side has its problem, its operands and its gate."""

import numpy as np
import pytest

from backends.base import Problem
from backends.null import NullBackend
from backends.numpy_blas import load
from suite.clock import FakeClock
from suite.harness import Settings, measure_group
from suite.plan import cpu_problem
from suite.record import group_arithmetic, group_key

MODES = (("resident", 1), ("once", 2))


def narrow(problem, operands):
    """The product of operands rounded as the stated arithmetic rounds them, summed in float32."""
    a, b = (rounded(x, problem.math) for x in operands[:2])
    operands.c[...] = a @ b


def rounded(x, math):
    if math == "fp16":
        return x.astype(np.float16).astype(np.float32)
    lost = {"tf32": 13, "fp32": 0}[math]
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + ((1 << lost) >> 1)) >> lost << lost).astype(np.uint32).view(np.float32)


def pair(clock, gpu=narrow):
    def seconds(value):
        return lambda problem, transfer, reuse, index: value * reuse * (1 + 0.001 * (index % 3))

    return [
        NullBackend("cpu", "cpu", seconds(2e-3), clock=clock),
        NullBackend("gpu", "cuda", seconds(1e-3), clock=clock, compute=gpu),
    ]


def measured(problem, backends, clock, **more):
    return measure_group(
        problem, "pageable", MODES, Settings(group_budget_s=50), backends=backends, clock=clock, clocks=None,
        cpu_problem=cpu_problem(problem), **more,
    )  # fmt: skip


@pytest.mark.parametrize(("dtype", "math"), [("float32", "tf32"), ("float16", "fp16")])
def test_each_side_is_gated_and_timed_in_its_own_arithmetic(dtype, math):
    clock = FakeClock()
    backends = pair(clock)
    asked = Problem(m=24, n=20, k=40, dtype=dtype, math=math)
    cells = measured(asked, backends, clock)
    sides = {c.device: c.problem for c in cells}
    assert sides == {"cpu": Problem(m=24, n=20, k=40), "cuda": asked}
    assert all(c.gate.ok and c.samples_s for c in cells), [c.skip_reason for c in cells]
    assert {c.group for c in cells} == {group_key(asked, "pageable")}
    assert {group_arithmetic(c) for c in cells} == {(dtype, math)}


def test_operands_of_another_type_hold_the_same_values():
    clock = FakeClock()
    backends = pair(clock)
    measured(Problem(m=8, n=8, k=8, dtype="float16"), backends, clock)
    cpu, gpu = (b.sessions[-1].operands for b in backends)
    assert (cpu.a.dtype, gpu.a.dtype) == (np.float32, np.float16)
    assert np.any(cpu.a) and np.array_equal(cpu.a, gpu.a) and np.array_equal(cpu.b, gpu.b)


def test_operands_of_the_same_type_are_the_same_arrays():
    clock = FakeClock()
    backends = pair(clock)
    measured(Problem(m=8, n=8, k=8, math="tf32"), backends, clock)
    cpu, gpu = (b.sessions[-1].operands for b in backends)
    assert cpu.a is gpu.a and cpu.c is gpu.c


def test_a_gpu_below_the_arithmetic_asked_for_has_no_time():
    clock = FakeClock()

    def coarse(problem, operands):
        a, b = (x.astype(np.float32).view(np.uint32) & 0xFFFF0000 for x in operands[:2])
        operands.c[...] = a.view(np.float32) @ b.view(np.float32)

    cells = measured(Problem(m=24, n=20, k=40, math="tf32"), pair(clock, coarse), clock)
    assert {c.gate.ok for c in cells if c.device == "cuda"} == {False}
    assert all(c.samples_s for c in cells if c.device == "cpu")


def test_numpy_stands_for_the_cpu_side_in_real_time():
    numpy = next(b for b in load() if b.name == "numpy")
    asked = Problem(m=16, n=16, k=16, dtype="float16")
    assert numpy.supports(asked) and numpy.supports(cpu_problem(asked)) is None
    settings = Settings(threads=1, group_budget_s=0.1, wake_s=0.001, block_s=1e-4)
    cells = measure_group(
        asked, "pageable", [("resident", 1)], settings, backends=[numpy], clocks=None,
        cpu_problem=cpu_problem(asked),
    )  # fmt: skip
    (cell,) = [c for c in cells if c.role == "candidate" and c.calls_from == "python"]
    assert cell.gate.ok and cell.samples_s and cell.problem.dtype == "float32"


def test_operands_of_both_types_count_as_memory():
    clock = FakeClock()
    asked = Problem(m=30_000, n=30_000, k=30_000, dtype="float16")
    cells = measured(asked, pair(clock), clock, memory_bytes=10**9)
    assert {c.skip_reason for c in cells} == {"host memory: needs 40.50 GB, 1.00 GB are free"}
    assert {c.device: c.problem.dtype for c in cells} == {"cpu": "float32", "cuda": "float16"}
