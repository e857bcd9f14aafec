"""The GPU's ladder before anything is run: the model's intensity, the rungs, the parts and their problems."""

from __future__ import annotations

import msgspec
import pytest

from backends import Problem, _cuda_source, cuda_kernels
from backends._cuda_peaks import Rate
from suite import ladder_cuda, ladder_cuda_plan
from suite.ladder_cuda_plan import CudaRequest


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


def launcher(rung):
    return rung.backend.kernel.header.launcher


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

    def test_kernels_for_odd_shapes_stand_at_those_only(self):
        rungs = {rung.name: rung for rung in ladder_cuda.provider().rungs()}
        long_k, cube = Problem(m=128, n=128, k=65536), Problem(m=512, n=512, k=512)
        special = [r for r in rungs.values() if r.name != "cublas" and launcher(r) in ladder_cuda.SPECIAL]
        assert not any(ladder_cuda.concerns(rung, cube) for rung in special)
        assert ladder_cuda.concerns(rungs["02_shared_tile"], cube)
        assert ladder_cuda.concerns(rungs["13_split_k"], long_k)

    def test_arithmetics_by_dtype_and_math(self):
        of = ladder_cuda_plan.arithmetics
        assert of(("float32",), ()) == (("float32", "fp32"),)
        assert set(of(("float32", "float16"), ("all",))) >= {("float32", "fp32"), ("float16", "fp16")}
        with pytest.raises(ValueError, match="fp64 is no arithmetic of float32"):
            of(("float32",), ("fp64",))

    def test_each_problem_knows_its_part(self):
        asked = CudaRequest()
        parts = [ladder_cuda_plan.part_of(asked, problem) for problem in asked.problems]
        assert list(dict.fromkeys(parts)) == list(ladder_cuda_plan.TITLES)

    def test_three_products_for_one(self):
        provider = ladder_cuda.CudaLadder()
        provider._peaks = type("Peaks", (), {"rate": lambda *_: Rate(3e14, "an instruction")})()
        assert provider.peak("3xtf32", 0.1) == Rate(1e14, "an instruction")
        rung = ladder_cuda.reference_rung()
        p = Problem(m=8, n=8, k=8)
        msgspec.structs.force_setattr(p, "math", "3xtf32")
        assert ladder_cuda.problem_of(rung, p).math == "fp32"
