// c = a + b: two reads and a write for one addition, so only memory bandwidth matters.
//
// /// kernel
// entry = "vector_add"
// op = "vector_add"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// launcher = "linear"
// min_sm = 50
// teaches = "Several independent reads per thread, each of them coalesced across the warp."
//
// [[variant]]
// threads = [256, 1]
// tile = [1, 1024, 1]
// ///
#include "problem.cuh"

constexpr int ITEMS = TILE_N / THREADS;
static_assert(ITEMS * THREADS == TILE_N, "every thread takes the same number of entries");

extern "C" __global__ void __launch_bounds__(THREADS) vector_add(const Problem p) {
  const index_t first = index_t(blockIdx.x) * TILE_N + threadIdx.x;
  Acc sums[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const index_t at = first + i * THREADS;
    if (at < p.n) sums[i] = load(p.a.data + at) + load(p.b.data + at);
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const index_t at = first + i * THREADS;
    if (at < p.n) from_acc(sums[i], p.c.data[at]);
  }
}
