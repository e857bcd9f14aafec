// y = alpha * A x + beta * y with A stored by rows: a warp a row, 16 bytes a load, several loads in flight.
//
// /// kernel
// entry = "gemv_vector"
// op = "gemv"
// dtypes = ["float32", "float64", "float16", "bfloat16"]
// math = ["fp32", "fp64", "fp16", "bf16"]
// transposes = ["n"]
// launcher = "rows"
// min_sm = 60
// teaches = "Bandwidth is bytes in flight over latency: wide loads, several of them, before the first is used."
//
// [[variant]]
// threads = [256, 1]
// tile = [8, 1, 1]
// defines = { LOADS = 4 }
//
// [[variant]]
// name = "8-loads"
// threads = [256, 1]
// tile = [8, 1, 1]
// defines = { LOADS = 8 }
//
// [[variant]]
// name = "4-warps"
// threads = [128, 1]
// tile = [4, 1, 1]
// defines = { LOADS = 4 }
// ///
#include "warp_dot.cuh"

static_assert(TILE_M * 32 == THREADS, "a warp for every row of the CTA tile");

extern "C" __global__ void __launch_bounds__(THREADS) gemv_vector(const Problem p) {
  const int lane = threadIdx.x % 32;
  const index_t row = index_t(blockIdx.x) * TILE_M + threadIdx.x / 32;
  if (row >= p.m) return; // the whole warp leaves together: the shuffles keep their 32 lanes

  const T *a = p.a.data + row * p.a.row_stride;
  const Acc sum = warp_sum(row_dot<32>(a, p.b.data, p.k, lane));
  if (lane == 0) store_result(p, p.c.data + row * p.c.row_stride, sum);
}
