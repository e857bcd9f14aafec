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
// tile = [1, 2048, 1]
// ///
#include "pieces.cuh"

constexpr int PACKS = TILE_N / (THREADS * VECTOR), ITEMS = TILE_N / THREADS;
static_assert(PACKS * THREADS * VECTOR == TILE_N, "every thread takes the same number of packs");

// Pieces of 16 bytes, counted from the first line on, `packs` in all; reads before the first write.
__device__ void copy_packs(const T *a, T *c, index_t packs) {
  const index_t first = index_t(blockIdx.x) * (THREADS * PACKS) + threadIdx.x;
  Vector pieces[PACKS];
#pragma unroll
  for (int i = 0; i < PACKS; ++i) {
    const index_t at = first + i * THREADS;
    if (at < packs) pieces[i] = load_once(a + at * VECTOR);
  }
#pragma unroll
  for (int i = 0; i < PACKS; ++i) {
    const index_t at = first + i * THREADS;
    if (at < packs) write_once(c + at * VECTOR, pieces[i]);
  }
}

// One entry at a time, for operands that do not share their boundaries.
__device__ void copy_entries(const T *a, T *c, index_t n) {
  const index_t first = index_t(blockIdx.x) * TILE_N + threadIdx.x;
  T entries[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const index_t at = first + i * THREADS;
    if (at < n) entries[i] = __ldg(a + at);
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const index_t at = first + i * THREADS;
    if (at < n) c[at] = entries[i];
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) copy(const Problem p) {
  const T *a = p.a.data;
  T *c = p.c.data;
  const int phase = to_boundary(c);
  if (to_boundary(a) != phase) return copy_entries(a, c, p.n);
  index_t head = to_line(c); // a warp's 512 bytes are then four whole lines
  if (head > p.n) head = p.n;
  const index_t packs = (p.n - head) / VECTOR, rest = head + packs * VECTOR;
  copy_packs(a + head, c + head, packs);

  // The first block takes what is no whole piece: the entries before the first line and behind the last piece.
  const index_t single = threadIdx.x < head ? threadIdx.x : rest + threadIdx.x - head;
  if (blockIdx.x == 0 && single < p.n) c[single] = __ldg(a + single);
}
