"""The formula: units, monotony, modes, bounds, corrections. What its constants are is fitted elsewhere."""

import inspect

import msgspec
import pytest

from backends.base import Problem
from suite.analysis.model import Link, Model, Roofs, Side, Terms, amounts, far_bytes, flops_in_waves
from suite.analysis.prediction import Predictor

SQUARE = Problem(m=1024, n=1024, k=1024)
GPU = Terms(latency_s=10e-6, per_k_s=1e-8, flop_s=2e-14, byte_s=1e-13, backend="cublas")
LINK = Link(host_memory="pageable", latency_s=12e-6, byte_s=1e-10, small_s=1e-10, small_bytes=1e5)


def side(device, *terms, **more):
    return Side(
        device=device, op="gemm", dtype="float32", math="fp32", host_memory="pageable", terms=terms, **more
    )


ONE = Terms(flop_s=1e-11, backend="native", threads=1)
ALL = Terms(latency_s=5e-6, flop_s=1e-12, backend="native", threads=16)
MODEL = Model(
    sides=(side("cpu", ONE, ALL), side("cuda", GPU, hidden_s=7e-6)),
    links=(LINK,),
    roofs={"cuda": Roofs(flops={"fp32": 60e12}, memory=4e12, link=2e10)},
)


def test_a_run_is_latency_and_work_in_seconds():
    found = MODEL.predict(SQUARE, "cuda", "resident")
    assert found.time_s == pytest.approx(
        10e-6 + 1e-8 * 1024 + 2e-14 * SQUARE.flops + 1e-13 * SQUARE.bytes_min
    )
    assert found.backend == "cublas"


def test_a_side_is_its_quickest_way_and_names_it():
    small, large = Problem(m=16, n=16, k=16), SQUARE
    assert MODEL.predict(small, "cpu", "resident").threads == 1
    assert MODEL.predict(small, "cpu", "resident").time_s == pytest.approx(1e-11 * small.flops)
    assert MODEL.predict(large, "cpu", "resident").threads == 16


def test_once_pays_the_copies_once_and_always_every_time():
    run = MODEL.predict(SQUARE, "cuda", "resident").time_s
    copies = 12e-6 + 1e-10 * (SQUARE.bytes_in + SQUARE.bytes_out) + 1e-10 * 1e5
    queued = run - 7e-6
    predicted = {
        (t, r): MODEL.predict(SQUARE, "cuda", t, r).time_s for t in ("once", "always") for r in (1, 10)
    }
    assert predicted["once", 1] == predicted["always", 1] == pytest.approx(run + copies)
    assert predicted["once", 10] == pytest.approx(run + copies + 9 * queued)
    assert predicted["always", 10] == pytest.approx(10 * (run + copies))


def test_the_cpu_has_no_copies_and_no_queue():
    one = MODEL.predict(SQUARE, "cpu", "resident").time_s
    assert MODEL.predict(SQUARE, "cpu", "once", 10).time_s == pytest.approx(10 * one)


def test_overlap_lies_between_its_longest_part_and_always():
    always, overlap = (MODEL.predict(SQUARE, "cuda", t) for t in ("always", "overlap"))
    assert always.parts["h2d"] < overlap.time_s < always.time_s


def test_the_parts_are_those_of_a_session_and_add_up():
    found = MODEL.predict(SQUARE, "cuda", "always")
    assert set(found.parts) == {"h2d", "launch", "kernel", "d2h"}
    assert sum(found.parts.values()) == pytest.approx(found.time_s)


@pytest.mark.parametrize("transfer", ["resident", "once", "always", "overlap"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_larger_problem_never_takes_less(device, transfer):
    times = [MODEL.predict(Problem(m=n, n=n, k=n), device, transfer, 3).time_s for n in range(1, 5000, 37)]
    assert times == sorted(times)


def test_waves_of_tiles_are_whole_from_the_second_on():
    tile, slots = (128, 128), 132
    problems = [Problem(m=128 * i, n=128, k=8) for i in (1, 132, 133, 264)]
    factor = [flops_in_waves(p, tile, slots) / p.flops for p in problems]
    assert factor == pytest.approx([1, 1, 264 / 133, 1])
    quantised = msgspec.structs.replace(GPU, tile=tile, slots=slots)
    assert quantised.parts(SQUARE) == GPU.parts(SQUARE)
    times = [sum(quantised.parts(Problem(m=n, n=n, k=512))) for n in range(64, 4096, 13)]
    assert times == sorted(times)


def test_a_long_sum_is_cut_and_a_thin_product_pays_for_its_bytes():
    chain = [
        amounts(Problem(m=m, n=m, k=k), 0).chain for m, k in ((64, 64), (64, 16), (64, 4096), (1, 10**6))
    ]
    assert chain == pytest.approx([64, 16, 256, 100])
    assert amounts(Problem(op="gemv", m=16, n=1024), 0).chain == pytest.approx(128)
    thin = Problem(m=1 << 20, n=32, k=32)
    on_floor = msgspec.structs.replace(GPU, byte_s=0.0, floor=(2.5e-13, 1e-13, 1e6))
    work = on_floor.parts(thin)
    assert work.compute + work.memory == pytest.approx(3.5e-13 * thin.bytes_min, rel=0.01)
    assert on_floor.parts(SQUARE) == msgspec.structs.replace(on_floor, floor=None).parts(SQUARE)


def test_bytes_beyond_a_cache_come_in_gradually():
    assert [far_bytes(b, 100.0) for b in (50, 100, 200, 400, 1000)] == pytest.approx(
        [0, 0, 400 / 3, 400, 1000]
    )
    assert far_bytes(1e12, 0) == 0


def test_corrections_hold_between_the_sizes_they_were_found_at_and_beyond():
    one = side("cuda", GPU, corrections=((100.0, 2.0), (10_000.0, 0.5)))
    assert [one.factor(f) for f in (1, 100, 1000, 10_000, 1e9)] == pytest.approx([2, 2, 1, 0.5, 0.5])
    assert side("cuda", GPU).factor(7) == 1


@pytest.mark.parametrize(
    ("problem", "device", "transfer", "bound"),
    [
        (Problem(m=16, n=16, k=16), "cuda", "resident", "launch"),
        (SQUARE, "cuda", "always", "transfer"),
        (Problem(m=8192, n=8192, k=8192), "cuda", "resident", "compute"),
        (SQUARE, "cpu", "resident", "compute"),
    ],
)
def test_the_largest_share_is_the_bound(problem, device, transfer, bound):
    assert MODEL.predict(problem, device, transfer).bound == bound


def test_memory_can_be_the_bound():
    slow = Model(sides=(side("cuda", msgspec.structs.replace(GPU, byte_s=1e-11)),), roofs=MODEL.roofs)
    found = slow.predict(Problem(m=8192, n=8192, k=1), "cuda", "resident")
    assert found.bound == "bandwidth" and found.roof_share == pytest.approx(0.025, rel=0.05)


def test_the_share_of_a_roof_is_that_of_what_the_part_did():
    found = MODEL.predict(SQUARE, "cuda", "always")
    copied = SQUARE.bytes_in + SQUARE.bytes_out
    assert found.roof_share == pytest.approx(copied / (found.parts["h2d"] + found.parts["d2h"]) / 2e10)
    assert MODEL.predict(Problem(m=16, n=16, k=16), "cuda", "resident").roof_share is None
    assert MODEL.predict(SQUARE, "cpu", "resident").roof_share is None


def test_what_has_no_constants_has_no_prediction():
    assert MODEL.predict(Problem(op="gemv", m=8, n=8), "cuda", "resident") is None
    assert MODEL.predict(Problem(m=8, n=8, k=8, dtype="float64"), "cpu", "resident") is None
    assert MODEL.predict(SQUARE, "cuda", "unified") is None
    assert MODEL.predict(SQUARE, "cuda", "once", host_memory="pinned") is None
    assert MODEL.predict(SQUARE, "cpu", "resident", threads=3) is None


def test_a_run_in_place_of_one_host_memory_serves_for_the_other():
    assert MODEL.predict(SQUARE, "cuda", "resident", host_memory="pinned") is not None


def test_it_is_a_predictor():
    mine, asked = (inspect.signature(one.predict, eval_str=False) for one in (Model, Predictor))
    assert mine == asked


def test_a_model_survives_json():
    built = msgspec.json.decode(msgspec.json.encode(MODEL))
    assert msgspec.convert(built, Model) == MODEL
