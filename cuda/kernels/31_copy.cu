// c = a: a read and a write for nothing computed, the roof that every memory-bound kernel is held against.
//
// /// kernel
// entry = "copy"
// op = "copy"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// launcher = "linear"
// min_sm = 50
// teaches = "What device memory can deliver when a kernel does nothing else."
//
// [[variant]]
// threads = [256, 1]
// tile = [1, 1024, 1]
// ///
#include "problem.cuh"

constexpr int ITEMS = TILE_N / THREADS;
static_assert(ITEMS * THREADS == TILE_N, "every thread takes the same number of entries");

extern "C" __global__ void __launch_bounds__(THREADS) copy(const Problem p) {
  const index_t first = index_t(blockIdx.x) * TILE_N + threadIdx.x;
  T entries[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const index_t at = first + i * THREADS;
    if (at < p.n) entries[i] = __ldg(p.a.data + at);
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const index_t at = first + i * THREADS;
    if (at < p.n) p.c.data[at] = entries[i];
  }
}
