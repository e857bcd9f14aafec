// What gemv kernels share that read a matrix stored by columns: how the entries of one k are divided among the
// threads of a group, whatever the alignment, and how groups add up what they found.
#pragma once
#include "l2_share.cuh"
#include "split.cuh"

#ifndef COLUMNS_TILE
#define COLUMNS_TILE TILE_M // entries of y that a block works on
#endif

__device__ constexpr int log_2(int n) { return n > 1 ? 1 + log_2(n / 2) : 0; }

constexpr int GROUP = COLUMNS_TILE / VECTOR; // threads that read the entries of one k
constexpr int LOG_GROUP = log_2(GROUP);
constexpr int ODD = 2 * VECTOR - 2; // entries of one k that may lie outside whole pieces
constexpr int SINGLES = (ODD + GROUP - 1) / GROUP; // of them, those of a thread
static_assert(1 << LOG_GROUP == GROUP, "a power of two, so that no division is needed");
static_assert(THREADS % GROUP == 0 && TILE_K % (THREADS / GROUP) == 0, "groups share K evenly");
static_assert(THREADS / GROUP % VECTOR == 0, "a group meets one misalignment only");

// How the entries of one k are shared by a group of threads: `head` entries before the first boundary, `packs`
// whole pieces of 16 bytes, and those from `rest` on.
struct Share {
  index_t first; // entry of y
  int size = GROUP, groups = THREADS / GROUP, me, group, head, packs, rest, width;

  // Of the entries of y from `first` on, of `rows` in all. A matrix that is narrower than the tile has smaller
  // groups, and so more values of k at once.
  __device__ __forceinline__ Share(index_t rows, index_t first) : first(first) {
    const int few = int(min(rows, index_t(COLUMNS_TILE)));
    int log = LOG_GROUP;
    for (; log > 0 && few * 2 <= size * VECTOR && min(few, ODD) * 2 <= size * SINGLES; --log)
      size /= 2, groups *= 2;
    me = threadIdx.x & (size - 1), group = int(threadIdx.x) >> log;
    width = int(min(rows - first, index_t(COLUMNS_TILE)));
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

// What a thread reads of LOADS values of k, all of it on its way at one time. SINGLE: entries outside whole pieces
// as well, which few threads have, and only in a ragged matrix.
template <bool SINGLE> struct Batch {
  Vector parts[LOADS];
  T singles[SINGLE ? LOADS : 1][SINGLES];
  Acc x[LOADS];

  // The first value at `a` and `from_x`. CHECKED: only `count` of them exist, the others become zeros.
  template <bool CHECKED, class Reads>
  __device__ __forceinline__ void read(const Share &s, const Reads &reads, const T *a, index_t step,
                                       const T *from_x, index_t count) {
    const T *wide = a + s.head + s.me * VECTOR;
#pragma unroll
    for (int j = 0; j < LOADS; ++j, a += step, wide += step, from_x += s.groups) {
      const bool here = !CHECKED || j < count;
      parts[j] = Vector{};
      if (here && s.whole()) parts[j] = reads.load(wide);
      if constexpr (SINGLE)
#pragma unroll
        for (int e = 0; e < SINGLES; ++e)
          singles[j][e] = here && s.single(e) < s.width ? __ldg(a + s.single(e)) : T{};
      x[j] = here ? load(from_x) : Acc(0);
    }
  }
  __device__ __forceinline__ void add_to(Sums &sums) const {
#pragma unroll
    for (int j = 0; j < LOADS; ++j) {
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) sums.whole[v] += to_acc(parts[j].at[v]) * x[j];
      if constexpr (SINGLE)
#pragma unroll
        for (int e = 0; e < SINGLES; ++e) sums.single[e] += to_acc(singles[j][e]) * x[j];
    }
  }
};

// This thread's sums over `count` values of k, the first at `a` and `x`.
template <bool SINGLE, class Reads>
__device__ __forceinline__ Sums add_up(const Share &s, const Reads &reads, const T *a, index_t step,
                                       const T *x, index_t count) {
  Sums sums;
  Batch<SINGLE> batch;
  for (; count >= LOADS; count -= LOADS) {
    batch.template read<false>(s, reads, a, step, x, LOADS);
    batch.add_to(sums);
    a += LOADS * step, x += LOADS * s.groups;
  }
  if (count <= 0) return sums;
  batch.template read<true>(s, reads, a, step, x, count);
  batch.add_to(sums);
  return sums;
}

template <class Reads>
__device__ __forceinline__ Sums sums_by(const Problem &p, const Part &part, Share &share) {
  const index_t ld = p.a.col_stride, begin = part.begin + share.group;
  const T *a = p.a.data + share.first + begin * ld, *x = p.b.data + begin;
  const index_t count = share.count(part.end - part.begin), step = share.groups * ld;
  share.cut(a);
  if (aligned16(p.a.data + share.first, ld) &&
      share.width % VECTOR == 0) // the same for all threads
    return add_up<false>(share, Reads(p), a, step, x, count);
  return add_up<true>(share, Reads(p), a, step, x, count);
}

__device__ __forceinline__ Sums sums_of_part(const Problem &p, const Part &part, Share &share) {
  return keeps_share(p) ? sums_by<KeepingShare>(p, part, share)
                        : sums_by<Streaming>(p, part, share);
}

// partial[i], i = 0 ... width - 1: the sums of all groups, added in a fixed order, in two steps: first every
// thread adds up some of the groups for one i, then one thread what these have left. partial has room for the
// pieces of all threads. All of them must come here; the barrier behind the last addition is the caller's.
__device__ __forceinline__ void add_groups(Acc *partial, const Share &s, const Sums &sums) {
  Acc *mine = partial + s.group * s.width;
  if (s.whole())
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) mine[s.head + s.me * VECTOR + v] = sums.whole[v];
#pragma unroll
  for (int e = 0; e < SINGLES; ++e)
    if (s.single(e) < s.width) mine[s.single(e)] = sums.single[e];
  __syncthreads(); // partial[g * width + i] is there for every group g
  const int chunks = min(s.groups, max(1, min(16, THREADS / s.width)));
  for (int e = threadIdx.x; e < chunks * s.width; e += THREADS)
    for (int at = e + chunks * s.width; at < s.groups * s.width; at += chunks * s.width)
      partial[e] += partial[at];
  __syncthreads();
  for (int e = threadIdx.x; e < s.width; e += THREADS)
    for (int c = 1; c < chunks; ++c) partial[e] += partial[e + c * s.width];
}

// The first HOLDERS threads take EACH entries of the tile, HOLDERS apart.
constexpr int EACH = (COLUMNS_TILE + THREADS - 1) / THREADS, HOLDERS = COLUMNS_TILE / EACH;

__device__ __forceinline__ void take(const Acc *partial, const Share &s, Acc (&total)[EACH]) {
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int at = threadIdx.x + e * HOLDERS;
    total[e] = threadIdx.x < HOLDERS && at < s.width ? partial[at] : Acc(0);
  }
}

__device__ __forceinline__ void store(const Problem &p, const Share &s, const Acc (&total)[EACH]) {
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int at = threadIdx.x + e * HOLDERS;
    if (threadIdx.x < HOLDERS && at < s.width)
      store_result(p, p.c.data + (s.first + at) * p.c.row_stride, total[e]);
  }
}
