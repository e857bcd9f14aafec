// y = alpha * A x + beta * y with A stored by rows: a warp walks along one row of A.
//
// /// kernel
// entry = "gemv_warp_row"
// op = "gemv"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// transposes = ["n"]
// launcher = "rows"
// min_sm = 50
// teaches = "A warp reads a row in whole lines and adds up its 32 partial sums without shared memory."
//
// [[variant]]
// threads = [256, 1]
// tile = [8, 1, 1]
// defines = { LOADS = 8 }
// ///
#include "problem.cuh"

constexpr int WARP = 32;
static_assert(TILE_M * WARP == THREADS, "a warp for every row of the CTA tile");

extern "C" __global__ void __launch_bounds__(THREADS) gemv_warp_row(const Problem p) {
  const int lane = threadIdx.x % WARP;
  const index_t row = index_t(blockIdx.x) * TILE_M + threadIdx.x / WARP;
  if (row >= p.m) return; // the whole warp leaves together: the shuffles below keep their 32 lanes

  const T *a = p.a.data + row * p.a.row_stride;
  const T *x = p.b.data;
  // LOADS independent sums: that many reads are in flight before the first one is needed.
  Acc sums[LOADS] = {};
  index_t k = lane;
  for (; k + (LOADS - 1) * WARP < p.k; k += LOADS * WARP) {
#pragma unroll
    for (int i = 0; i < LOADS; ++i) sums[i] += load(a + k + i * WARP) * load(x + k + i * WARP);
  }
  for (; k < p.k; k += WARP) sums[0] += load(a + k) * load(x + k);

#pragma unroll
  for (int i = 1; i < LOADS; ++i) sums[0] += sums[i];
#pragma unroll
  for (int step = WARP / 2; step > 0; step /= 2)
    sums[0] += __shfl_down_sync(0xffffffffu, sums[0], step);
  if (lane == 0) store_result(p, p.c.data + row * p.c.row_stride, sums[0]);
}
