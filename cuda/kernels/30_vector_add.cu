// c = a + b: two reads and a write for one addition, so only memory bandwidth matters.
//
// /// kernel
// entry = "vector_add"
// op = "vector_add"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// launcher = "linear"
// min_sm = 50
// teaches = "16 bytes a load, several independent loads in each thread, each of them coalesced across the warp."
//
// [[variant]]
// threads = [256, 1]
// tile = [1, 2048, 1]
// ///
#include "pieces.cuh"

constexpr int PACKS = TILE_N / (THREADS * VECTOR), ITEMS = TILE_N / THREADS;
static_assert(PACKS * THREADS * VECTOR == TILE_N, "every thread takes the same number of packs");

// Pieces of 16 bytes, counted from the first line on, `packs` in all; reads before the first write.
__device__ void add_packs(const T *a, const T *b, T *c, index_t packs) {
  const index_t first = index_t(blockIdx.x) * (THREADS * PACKS) + threadIdx.x;
  Vector left[PACKS], right[PACKS];
#pragma unroll
  for (int i = 0; i < PACKS; ++i) {
    const index_t at = first + i * THREADS;
    if (at < packs) left[i] = load_once(a + at * VECTOR), right[i] = load_once(b + at * VECTOR);
  }
#pragma unroll
  for (int i = 0; i < PACKS; ++i) {
    const index_t at = first + i * THREADS;
    if (at >= packs) break;
#pragma unroll
    for (int v = 0; v < VECTOR; ++v)
      from_acc(to_acc(left[i].at[v]) + to_acc(right[i].at[v]), left[i].at[v]);
    write_once(c + at * VECTOR, left[i]);
  }
}

// One entry at a time, for operands that do not share their boundaries.
__device__ void add_entries(const T *a, const T *b, T *c, index_t n) {
  const index_t first = index_t(blockIdx.x) * TILE_N + threadIdx.x;
  Acc sums[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const index_t at = first + i * THREADS;
    if (at < n) sums[i] = load(a + at) + load(b + at);
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const index_t at = first + i * THREADS;
    if (at < n) from_acc(sums[i], c[at]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) vector_add(const Problem p) {
  const T *a = p.a.data, *b = p.b.data;
  T *c = p.c.data;
  const int phase = to_boundary(c);
  if (to_boundary(a) != phase || to_boundary(b) != phase) return add_entries(a, b, c, p.n);
  index_t head = to_line(c); // a warp's 512 bytes are then four whole lines
  if (head > p.n) head = p.n;
  const index_t packs = (p.n - head) / VECTOR, rest = head + packs * VECTOR;
  add_packs(a + head, b + head, c + head, packs);

  // The first block takes what is no whole piece: the entries before the first line and behind the last piece.
  const index_t single = threadIdx.x < head ? threadIdx.x : rest + threadIdx.x - head;
  if (blockIdx.x == 0 && single < p.n) from_acc(load(a + single) + load(b + single), c[single]);
}
