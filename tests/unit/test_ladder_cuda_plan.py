"""The GPU's ladder before anything is run: the model's intensity, the rungs, the parts and their problems."""

from __future__ import annotations

import msgspec
import pytest

from backends import Problem, _cuda_source, cuda_kernels
from backends._cuda_peaks import Rate
from backends.arithmetic import canonical_dtype
from suite import ladder_cuda, ladder_cuda_plan, verify_gpu
from suite.ladder_cuda_plan import CudaRequest

CUBE, LONG = Problem(m=512, n=512, k=512), Problem(m=128, n=128, k=65536)
SKINNY, WIDER = Problem(m=4096, n=4, k=4096), Problem(m=4096, n=64, k=4096)
MANY = Problem(m=32, n=32, k=32, batch=4096)


def variant(*tile):
    return _cuda_source.Variant(threads=(32, 1), tile=tile)


class TestModel:
    """The arithmetic intensity of docs/ladder-cuda.md."""

    HEADER = msgspec.structs.replace(next(iter(_cuda_source.all_kernels().values())).header, op="gemm")

    @pytest.mark.parametrize(
        ("tile", "size", "flop_per_byte"),
        [
            ((8, 32, 1), 4, 0.25),
            ((8, 32, 1), 8, 0.125),
            ((16, 16, 16), 4, 16 / 4),
            ((32, 32, 32), 4, 32 / 4),
            ((128, 128, 8), 4, 32.0),
            ((128, 256, 64), 2, 2 * 128 * 256 / (384 * 2)),
        ],
    )
    def test_of_a_tile(self, tile, size, flop_per_byte):
        assert ladder_cuda.intensity(self.HEADER, variant(*tile), size) == flop_per_byte

    def test_of_what_only_streams(self):
        for op, want in (("gemv", 0.5), ("vector_add", 1 / 12), ("copy", 0.0)):
            header = msgspec.structs.replace(self.HEADER, op=op)
            assert ladder_cuda.intensity(header, variant(8, 1, 1), 4) == want

    @pytest.mark.parametrize("tile", [1, 32, 128])
    def test_counted_in_a_loop(self, tile):
        """A tile by itself: bytes read for a step of k, against the FLOP of that step."""
        read = sum(4 for _ in range(tile)) + sum(4 for _ in range(tile))
        flops = sum(2 for _ in range(tile) for _ in range(tile))
        deep = 1 if tile == 1 else 8
        assert ladder_cuda.intensity(self.HEADER, variant(tile, tile, deep), 4) == flops / read


class TestPlan:
    def test_every_kernel_file_is_a_rung_and_cublas_the_last(self):
        names = [rung.name for rung in ladder_cuda.provider().rungs()]
        files = [path.stem for path in _cuda_source.files()]
        assert [name for name in names if "/" not in name] == [*files, "cublas"]
        assert all(rung.changes and rung.idea for rung in ladder_cuda.provider().rungs())

    def test_a_new_file_is_a_new_rung(self, tmp_path, monkeypatch):
        old = _cuda_source.files()[0]
        (tmp_path / "99_new.cu").write_text(old.read_text())
        found = [cuda_kernels.CudaKernel(kernel) for kernel in _cuda_source.parse(tmp_path / "99_new.cu")]
        monkeypatch.setattr(cuda_kernels, "load", lambda: found)
        ladder_cuda._rungs.cache_clear()
        try:
            assert next(rung.name for rung in ladder_cuda.provider().rungs()) == "99_new"
        finally:
            ladder_cuda._rungs.cache_clear()

    def test_only_problems_that_a_rung_is_meant_for(self):
        asked = CudaRequest(rungs=("02_shared_tile",))
        assert {p.op for p in asked.problems} == {"gemm"}
        one = CudaRequest(rungs=("31_copy",))
        assert {p.op for p in one.problems} == {"copy"}

    @pytest.mark.parametrize(
        ("problem", "there", "elsewhere"),
        [
            (CUBE, {"02_shared_tile", "03_bank_conflict/unpadded"},
             {"13_split_k", "14_batched", "21_skinny"}),
            (LONG, {"13_split_k", "13_split_k/32", "05_register_tile"},
             {"14_batched", "21_skinny/128", "07_warp_tile", "03_bank_conflict/unpadded"}),
            (SKINNY, {"21_skinny", "21_skinny/128"}, {"13_split_k", "14_batched", "02_shared_tile"}),
            (WIDER, {"21_skinny", "04_thread_tile"},
             {"13_split_k", "05_register_tile", "04_thread_tile/dot"}),
            (MANY, {"14_batched", "14_batched/64", "02_shared_tile"},
             {"13_split_k", "21_skinny", "04_thread_tile"}),
        ],
        ids=["square", "long_k", "skinny", "skinny 64", "batched"],
    )  # fmt: skip
    def test_each_part_has_the_rungs_made_for_it_and_those_that_fit(self, problem, there, elsewhere):
        rungs = ladder_cuda.provider().rungs()
        found = {rung.name for rung in rungs if ladder_cuda.concerns(rung, problem)}
        assert there <= found and not elsewhere & found and "cublas" in found

    def test_what_a_kernel_was_made_for_is_read_from_its_header(self):
        found = {r.name: ladder_cuda.made_for(r) for r in ladder_cuda.provider().rungs() if not r.beside}
        assert {name: part for name, part in found.items() if part} == {
            "13_split_k": "long_k", "14_batched": "batched", "21_skinny": "skinny", "21_skinny_mma": "skinny",
        }  # fmt: skip

    def test_a_part_without_a_kernel_of_its_own_is_left_out(self):
        asked = CudaRequest(arithmetics=(("float32", "tf32"),))
        assert {ladder_cuda_plan.part_of(asked, p) for p in asked.problems} == {"square", "ragged"}

    def test_a_time_limit_cuts_the_largest_size_of_every_arithmetic(self):
        maths = (("float32", "fp32"), ("float16", "fp16"), ("float64", "fp64"))
        problems = CudaRequest(arithmetics=maths, parts=("square",)).problems
        assert [p.m for p in problems[:3]] == [1024] * 3 and [p.m for p in problems[-2:]] == [8192] * 2
        assert {(p.dtype, p.math) for p in problems[:9]} == set(maths)

    def test_a_further_type_has_one_problem_of_the_parts_beside_products(self):
        two = CudaRequest(arithmetics=(("float32", "fp32"), ("float64", "fp64"))).problems
        sizes = {d: [p.m for p in two if p.op == "gemv" and p.dtype == d] for d in ("float32", "float64")}
        assert set(sizes["float32"]) == set(ladder_cuda_plan.GEMV_SIZES) and set(sizes["float64"]) == {4096}
        alone = CudaRequest(arithmetics=(("float64", "fp64"),)).problems
        assert {p.m for p in alone if p.op == "gemv"} == set(ladder_cuda_plan.GEMV_SIZES)

    def test_every_bar_has_its_problem(self):
        """The sizes that issue 4's bars speak of, from the options that `verify` gives."""
        words = dict(zip(verify_gpu.LADDER[::2], verify_gpu.LADDER[1::2], strict=True))
        dtypes = tuple(canonical_dtype(word) for word in words["--dtype"].split(","))
        asked = CudaRequest(
            sizes=tuple(map(int, words["--sizes"].split(","))),
            arithmetics=ladder_cuda_plan.arithmetics(dtypes, words["--math"].split(",")),
        )
        problems = asked.problems
        cubes = {(p.math, p.m) for p in problems if p.op == "gemm" and p.m == p.n == p.k and p.batch == 1}
        for math in ("fp32", "tf32", "3xtf32", "fp64", "fp16", "bf16"):
            assert {(math, n) for n in (1000, 1023, 1024, 2047, 2048, 4096, 4097, 8192)} <= cubes
        gemv = {(p.trans_a, p.m) for p in problems if p.op == "gemv" and p.math == "fp32"}
        assert {(t, n) for t in (False, True) for n in (1024, 4096, 4097, 8192, 16384)} <= gemv

    def test_arithmetics_by_dtype_and_math(self):
        of = ladder_cuda_plan.arithmetics
        assert of(("float32",), ()) == (("float32", "fp32"),)
        assert set(of(("float32", "float16"), ("all",))) >= {("float32", "fp32"), ("float16", "fp16")}
        with pytest.raises(ValueError, match="fp64 is no arithmetic of float32"):
            of(("float32",), ("fp64",))

    def test_each_problem_knows_its_part(self):
        asked = CudaRequest()
        parts = [ladder_cuda_plan.part_of(asked, problem) for problem in asked.problems]
        assert set(parts) == set(ladder_cuda_plan.TITLES)

    def test_three_products_for_one(self):
        provider = ladder_cuda.CudaLadder()
        provider._peaks = type("Peaks", (), {"rate": lambda *_: Rate(3e14, "an instruction")})()
        assert provider.peak("3xtf32", 0.1) == Rate(1e14, "an instruction")
        rung = ladder_cuda.reference_rung()
        p = Problem(m=8, n=8, k=8)
        msgspec.structs.force_setattr(p, "math", "3xtf32")
        assert ladder_cuda.problem_of(rung, p).math == "fp32"
