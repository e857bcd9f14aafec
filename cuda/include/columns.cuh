// What gemv kernels share that read a matrix stored by columns: how the entries of one k are divided among the
// threads of a group, whatever the alignment, and how groups add up what they found.
#pragma once
#include "pieces.cuh"
#include "split.cuh"

constexpr int GROUP = TILE_M / VECTOR; // threads that read the TILE_M entries of one k
constexpr int ODD = 2 * VECTOR - 2;    // entries of one k that may lie outside whole pieces
constexpr int SINGLES = (ODD + GROUP - 1) / GROUP; // of them, those of a thread
__device__ constexpr int log_2(int n) { return n > 1 ? 1 + log_2(n / 2) : 0; }
constexpr int LOG_GROUP = log_2(GROUP);
static_assert(1 << LOG_GROUP == GROUP, "a power of two, so that no division is needed");
static_assert(THREADS % GROUP == 0 && TILE_K % (THREADS / GROUP) == 0, "groups share K evenly");
static_assert(THREADS / GROUP % VECTOR == 0, "a group meets one misalignment only");

// How the entries of one k are shared by a group of threads: `head` entries before the first boundary, `packs`
// whole pieces of 16 bytes, and those from `rest` on.
struct Share {
  int size = GROUP, groups = THREADS / GROUP, me, group, head, packs, rest, width;

  // Of the entries from row `first` on, of `rows` in all. A matrix that is narrower than the tile has smaller
  // groups, and so more values of k at once.
  __device__ __forceinline__ Share(index_t rows, index_t first) {
    const int few = int(min(rows, index_t(TILE_M)));
    int log = LOG_GROUP;
    for (; log > 0 && few * 2 <= size * VECTOR && min(few, ODD) * 2 <= size * SINGLES; --log)
      size /= 2, groups *= 2;
    me = threadIdx.x & (size - 1), group = int(threadIdx.x) >> log;
    width = int(min(rows - first, index_t(TILE_M)));
  }
  // `a`: the first entry that this group reads.
  __device__ __forceinline__ void cut(const T *a) {
    head = min(to_boundary(a), width);
    packs = (width - head) / VECTOR, rest = head + packs * VECTOR;
  }
  __device__ __forceinline__ bool whole() const { return me < packs; }
  // Threads 0, 1, ... of the group take the entries before the first piece and behind the last one.
  __device__ __forceinline__ int single(int e) const {
    const int at = me + e * size;
    return at < head ? at : rest + at - head;
  }
  // How many of `depth` values of k are this group's.
  __device__ __forceinline__ index_t count(index_t depth) const {
    return depth > group ? (depth - group + groups - 1) / unsigned(groups) : 0;
  }
};

// A thread's sums: of the entries of its pieces, and of its entries outside them.
struct Sums {
  Acc whole[VECTOR] = {}, single[SINGLES] = {};
};

// partial[g * width + i], g = 0 ... groups - 1, added up over g in a fixed order, in two steps: first every
// thread adds up some of the groups for one i, then one thread what these have left.
__device__ __forceinline__ void add_groups(Acc *partial, int groups, int width) {
  const int chunks = min(groups, max(1, min(16, THREADS / width)));
  for (int e = threadIdx.x; e < chunks * width; e += THREADS)
    for (int at = e + chunks * width; at < groups * width; at += chunks * width)
      partial[e] += partial[at];
  __syncthreads();
  for (int e = threadIdx.x; e < width; e += THREADS)
    for (int c = 1; c < chunks; ++c) partial[e] += partial[e + c * width];
}

// The groups of a block meet in `partial`, which has room for every thread's pieces, and blocks that share a tile in
// the workspace; then y is written. All threads must come here.
__device__ __forceinline__ void add_and_store(const Problem &p, const Part &part, const Share &s,
                                              const Sums &sums, Acc *partial) {
  Acc *mine = partial + s.group * s.width;
  if (s.whole())
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) mine[s.head + s.me * VECTOR + v] = sums.whole[v];
#pragma unroll
  for (int e = 0; e < SINGLES; ++e)
    if (s.single(e) < s.width) mine[s.single(e)] = sums.single[e];
  __syncthreads();
  add_groups(partial, s.groups, s.width);
  __syncthreads();

  constexpr int EACH = (TILE_M + THREADS - 1) / THREADS, HOLDERS = TILE_M / EACH;
  const bool holds = threadIdx.x < HOLDERS;
  Acc total[EACH];
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int at = threadIdx.x + e * HOLDERS;
    total[e] = holds && at < s.width ? partial[at] : Acc(0);
  }
  if (!add_parts<EACH, HOLDERS>(p, part, total) || !holds) return;
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const index_t at = threadIdx.x + e * HOLDERS;
    T *y = p.c.data + (index_t(part.tile) * TILE_M + at) * p.c.row_stride;
    if (at < s.width) store_result(p, y, total[e]);
  }
}
