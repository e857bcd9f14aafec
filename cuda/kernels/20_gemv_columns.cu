// y = alpha * A x + beta * y with A stored by columns (the transposed product): neighbouring threads take
// neighbouring entries of y, 16 bytes each, and K is shared out among groups of threads and among blocks.
//
// Entry (row, k) of A lies at k * ld + row, so a group of threads that takes every GROUPS-th k meets the same
// misalignment each time (GROUPS entries times any ld are whole 16-byte pieces): what lies before the first
// boundary and behind the last one is the same few rows of y all along, and costs one narrow load per k.
//
// /// kernel
// entry = "gemv_columns"
// op = "gemv"
// dtypes = ["float32", "float64", "float16", "bfloat16"]
// math = ["fp32", "fp64", "fp16", "bf16"]
// transposes = ["t"]
// launcher = "split_k"
// min_sm = 50
// teaches = "The layout chooses the parallel direction; those who share a result meet in shared memory, then in L2."
//
// [[variant]]
// threads = [256, 1]
// tile = [128, 1, 64]
// defines = { LOADS = 4, BLOCKS_PER_SM = 3 }
//
// [[variant]]
// name = "8-loads"
// threads = [256, 1]
// tile = [128, 1, 64]
// defines = { LOADS = 8, BLOCKS_PER_SM = 2 }
//
// [[variant]]
// name = "256"
// threads = [256, 1]
// tile = [256, 1, 32]
// defines = { LOADS = 4, BLOCKS_PER_SM = 3 }
//
// [[variant]]
// name = "512"
// threads = [512, 1]
// tile = [512, 1, 32]
// defines = { LOADS = 8, BLOCKS_PER_SM = 1 }
// ///
#include "split.cuh"
#include "pieces.cuh"

constexpr int GROUP = TILE_M / VECTOR;   // threads that read the TILE_M entries of one k
constexpr int GROUPS = THREADS / GROUP;  // values of k that the block reads at once
static_assert(GROUPS * GROUP == THREADS && TILE_K % GROUPS == 0, "groups share the block and K evenly");
static_assert(GROUPS % VECTOR == 0, "a group meets one misalignment only");
static_assert(GROUP >= 2 * VECTOR, "a thread of its own for each entry that is not in a whole piece");

// How the entries of one k fall into 16-byte pieces, the same for every k of a group: `head` entries, `packs`
// whole pieces, and from `rest` on those behind.
struct Pieces {
  int head, packs, rest;
};

__device__ __forceinline__ Pieces pieces(const T *a, int width) {
  const int to = to_boundary(a), head = to < width ? to : width;
  const int packs = (width - head) / VECTOR;
  return {head, packs, head + packs * VECTOR};
}

// Adds the pieces of LOADS values of k: all of them are on their way before the first sum.
// CHECKED: only those before `left` are there.
template <bool CHECKED>
__device__ __forceinline__ void add_pieces(const T *a, const T *x, index_t step, index_t left,
                                           Acc (&sums)[VECTOR]) {
  Vector parts[LOADS];
#pragma unroll
  for (int j = 0; j < LOADS; ++j, a += step)
    if (!CHECKED || j * GROUPS < left) parts[j] = load_vector(a);
#pragma unroll
  for (int j = 0; j < LOADS; ++j) {
    if (CHECKED && j * GROUPS >= left) break;
    const Acc factor = load(x + j * GROUPS);
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) sums[v] += to_acc(parts[j].at[v]) * factor;
  }
}

// The same for an entry outside the whole pieces; few threads have one, and only in a ragged matrix.
__device__ __forceinline__ void add_singles(const T *a, const T *x, index_t step, index_t left,
                                            Acc &sum) {
#pragma unroll
  for (int j = 0; j < LOADS; ++j, a += step)
    if (j * GROUPS < left) sum += load(a) * load(x + j * GROUPS);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) gemv_columns(const Problem p) {
  __shared__ Acc partial[GROUPS][TILE_M];
  const Part part = part_of_block(p, TILE_K);
  const index_t row = index_t(part.tile) * TILE_M;
  const int width = p.m - row < TILE_M ? int(p.m - row) : TILE_M;
  const int me = threadIdx.x % GROUP, group = threadIdx.x / GROUP;

  const index_t ld = p.a.col_stride;
  const T *a = p.a.data + row + (part.begin + group) * ld, *x = p.b.data + part.begin + group;
  const Pieces of = pieces(a, width);
  const bool whole = me < of.packs;
  // Threads 0, 1, ... of the group take the entries before the first piece and behind the last one.
  const int single = me < of.head ? me : of.rest + me - of.head;
  const bool also = single < width;
  const T *wide = a + of.head + me * VECTOR, *narrow = a + single;

  Acc sums[VECTOR] = {}, sum = 0;
  const index_t step = GROUPS * ld;
  index_t left = part.end - part.begin - group; // the next k of this group is there if left > 0
  for (; left > (LOADS - 1) * GROUPS; left -= LOADS * GROUPS) {
    if (whole) add_pieces<false>(wide, x, step, left, sums);
    if (also) add_singles(narrow, x, step, left, sum);
    wide += LOADS * step, narrow += LOADS * step, x += LOADS * GROUPS;
  }
  if (whole) add_pieces<true>(wide, x, step, left, sums);
  if (also) add_singles(narrow, x, step, left, sum);

  if (whole)
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) partial[group][of.head + me * VECTOR + v] = sums[v];
  if (also) partial[group][single] = sum;
  __syncthreads(); // no thread has returned: the barrier needs all of them

  constexpr int EACH = (TILE_M + THREADS - 1) / THREADS, HOLDERS = TILE_M / EACH;
  Acc total[EACH] = {};
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int at = threadIdx.x + e * HOLDERS;
    if (threadIdx.x < HOLDERS && at < width)
      for (int g = 0; g < GROUPS; ++g) total[e] += partial[g][at];
  }
  if (!add_parts<EACH, HOLDERS>(p, part, total) || threadIdx.x >= HOLDERS) return;
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int at = threadIdx.x + e * HOLDERS;
    if (at < width) store_result(p, p.c.data + (row + at) * p.c.row_stride, total[e]);
  }
}
