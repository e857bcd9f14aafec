// y = alpha * A x + beta * y with A stored by columns (the transposed product): neighbouring threads take
// neighbouring entries of y, so that each step of the block reads whole lines of A.
//
// /// kernel
// entry = "gemv_columns"
// op = "gemv"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// transposes = ["t"]
// launcher = "rows"
// min_sm = 50
// teaches = "The layout chooses the parallel direction; warps that share a result meet in shared memory."
//
// [[variant]]
// threads = [32, 16]
// tile = [32, 1, 1]
// defines = { LOADS = 4 }
// ///
#include "problem.cuh"

static_assert(TILE_M == THREADS_X, "one column of threads for every entry of y");

extern "C" __global__ void __launch_bounds__(THREADS) gemv_columns(const Problem p) {
  __shared__ Acc partial[THREADS_Y][TILE_M];
  const int x = threadIdx.x, y = threadIdx.y;
  const index_t row = index_t(blockIdx.x) * TILE_M + x;

  // No early return for rows outside the matrix: the barrier below needs every thread.
  Acc sums[LOADS] = {};
  if (row < p.m) {
    const T *a = p.a.data + row;
    index_t k = y;
    for (; k + (LOADS - 1) * THREADS_Y < p.k; k += LOADS * THREADS_Y) {
#pragma unroll
      for (int i = 0; i < LOADS; ++i) {
        const index_t at = k + i * THREADS_Y;
        sums[i] += load(a + at * p.a.col_stride) * load(p.b.data + at);
      }
    }
    for (; k < p.k; k += THREADS_Y) sums[0] += load(a + k * p.a.col_stride) * load(p.b.data + k);
  }
#pragma unroll
  for (int i = 1; i < LOADS; ++i) sums[0] += sums[i];
  partial[y][x] = sums[0];
  __syncthreads();

  if (y != 0 || row >= p.m) return;
  Acc sum = 0;
#pragma unroll
  for (int i = 0; i < THREADS_Y; ++i) sum += partial[i][x];
  store_result(p, p.c.data + row * p.c.row_stride, sum);
}
