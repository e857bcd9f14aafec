// y = alpha * A x + beta * y with A stored by columns (the transposed product): neighbouring threads take
// neighbouring entries of y, and K is shared out among groups of threads and among blocks.
//
// The entries of one k lie side by side. If all of them begin at 16 bytes a thread takes VECTOR neighbours by one
// load; else every load of a group takes neighbours, and a thread has more of them in flight.
//
// /// kernel
// entry = "gemv_columns"
// op = "gemv"
// dtypes = ["float32", "float64", "float16", "bfloat16"]
// math = ["fp32", "fp64", "fp16", "bf16"]
// transposes = ["t"]
// launcher = "split_k"
// min_sm = 60
// teaches = "The layout chooses the parallel direction; who shares a result meets by shuffles, in shared memory, in L2."
//
// [[variant]]
// threads = [512, 1]
// tile = [32, 1, 64]
// defines = { LOADS = 8, BLOCKS_PER_SM = 1, AHEAD = 0, STREAM = 1 }
//
// [[variant]]
// name = "ahead"
// threads = [512, 1]
// tile = [32, 1, 64]
// defines = { LOADS = 4, BLOCKS_PER_SM = 1, AHEAD = 1, STREAM = 1 }
//
// [[variant]]
// name = "64"
// threads = [512, 1]
// tile = [64, 1, 64]
// defines = { LOADS = 8, BLOCKS_PER_SM = 1, AHEAD = 0, STREAM = 1 }
//
// [[variant]]
// name = "128"
// threads = [256, 1]
// tile = [128, 1, 64]
// defines = { LOADS = 4, BLOCKS_PER_SM = 3, AHEAD = 0, STREAM = 1 }
//
// [[variant]]
// name = "512"
// threads = [256, 1]
// tile = [512, 1, 16]
// defines = { LOADS = 4, BLOCKS_PER_SM = 3, AHEAD = 0, STREAM = 1 }
// ///
#include "pieces.cuh"
#include "split.cuh"

constexpr int LANES = TILE_M < THREADS ? TILE_M : THREADS; // threads that read entry after entry of one k

// A thread's columns: EACH of them, side by side if VECTORS, else `size` apart; `size` threads read one k.
template <bool VECTORS> struct Columns {
  static constexpr int EACH = VECTORS ? VECTOR : TILE_M / LANES;
  static constexpr int BATCH = VECTORS ? LOADS : LOADS * VECTOR / EACH < 16 ? LOADS * VECTOR / EACH : 16;
  static_assert(THREADS % (TILE_M / EACH) == 0, "groups share the block evenly");

  int size, groups, me, group, width;
  Acc sums[EACH] = {};
  struct Batch {
    Vector vectors[VECTORS ? BATCH : 1];
    T entries[VECTORS ? 1 : BATCH][EACH];
    T x[BATCH];
  };

  __device__ __forceinline__ Columns(index_t rows, index_t first) {
    size = TILE_M / EACH; // fewer for a matrix narrower than the tile: more values of k at once
    while (size > 1 && rows * 2 <= size * EACH) size /= 2;
    groups = THREADS / size, me = threadIdx.x % size, group = threadIdx.x / size;
    width = int(min(rows - first, index_t(TILE_M)));
  }
  __device__ __forceinline__ int column(int e) const { return VECTORS ? me * EACH + e : me + e * size; }

  // Starts loading BATCH values of k, those before `left`; a and x are this group's.
  __device__ __forceinline__ void load_batch(Batch &to, const T *a, const T *x, index_t step, index_t left) const {
    const bool whole = column(EACH - 1) < width;
#pragma unroll
    for (int j = 0; j < BATCH; ++j, a += step, x += groups) {
      if (j * groups >= left) break;
      to.x[j] = __ldg(x);
      if (VECTORS && whole) to.vectors[j] = load_once(a + me * EACH);
      if (VECTORS && whole) continue;
#pragma unroll
      for (int e = 0; e < EACH; ++e) { // beyond the edge the first column, for sums that go nowhere
        T &entry = VECTORS ? to.vectors[j].at[e] : to.entries[j][e];
        entry = __ldg(column(e) < width ? a + column(e) : a);
      }
    }
  }
  __device__ __forceinline__ void add_batch(const Batch &from, index_t left) {
#pragma unroll
    for (int j = 0; j < BATCH; ++j) {
      if (j * groups >= left) break;
      const Acc factor = to_acc(from.x[j]);
#pragma unroll
      for (int e = 0; e < EACH; ++e)
        sums[e] += to_acc(VECTORS ? from.vectors[j].at[e] : from.entries[j][e]) * factor;
    }
  }
  // a: the first entry of the tile for this group's first k; `left` of the k remain from there on.
  __device__ __forceinline__ void add_up(const T *a, const T *x, index_t ld, index_t left) {
    const index_t step = groups * ld, jump = index_t(BATCH) * groups;
    Batch now;
#if AHEAD
    load_batch(now, a, x, step, left);
    for (; left > 0; left -= jump) {
      a += BATCH * step, x += jump;
      Batch next;
      load_batch(next, a, x, step, left - jump);
      add_batch(now, left);
      now = next;
    }
#else
    for (; left > 0; left -= jump, a += BATCH * step, x += jump) {
      load_batch(now, a, x, step, left);
      add_batch(now, left);
    }
#endif
  }

  // Adds the groups of a warp by shuffles, leaves one row of sums for a warp or for a larger group; how many.
  __device__ __forceinline__ int leave(Acc *partial) {
    for (int step = size; step < 32; step *= 2)
#pragma unroll
      for (int e = 0; e < EACH; ++e) sums[e] += __shfl_down_sync(0xffffffffu, sums[e], step);
    const int row = size < 32 ? threadIdx.x / 32 : group;
#pragma unroll
    for (int e = 0; e < EACH; ++e)
      if (threadIdx.x % 32 < size || size >= 32)
        if (column(e) < width) partial[row * TILE_M + column(e)] = sums[e];
    return size < 32 ? THREADS / 32 : groups;
  }
};

template <bool VECTORS>
__device__ __forceinline__ int add_columns(const Problem &p, const Part &part, index_t row, Acc *partial) {
  Columns<VECTORS> columns(p.m, row);
  const index_t first = part.begin + columns.group, ld = p.a.col_stride;
  columns.add_up(p.a.data + row + first * ld, p.b.data + first, ld, part.end - first);
  return columns.leave(partial);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) gemv_columns(const Problem p) {
  __shared__ Acc partial[THREADS * VECTOR];
  const Part part = part_of_block(p, TILE_K);
  const index_t row = index_t(part.tile) * TILE_M;
  const bool vectors = aligned16(p.a.data, p.a.col_stride);
  const int rows = vectors ? add_columns<true>(p, part, row, partial) : add_columns<false>(p, part, row, partial);
  __syncthreads(); // no thread has returned: the barrier needs all of them

  constexpr int EACH = (TILE_M + THREADS - 1) / THREADS, HOLDERS = TILE_M / EACH;
  Acc total[EACH] = {};
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int at = threadIdx.x + e * HOLDERS;
    if (threadIdx.x < HOLDERS && row + at < p.m)
#pragma unroll 8
      for (int r = 0; r < rows; ++r) total[e] += partial[r * TILE_M + at];
  }
  if (!add_parts<EACH, HOLDERS>(p, part, total) || threadIdx.x >= HOLDERS) return;
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const index_t at = row + threadIdx.x + e * HOLDERS;
    if (at < p.m) store_result(p, p.c.data + at * p.c.row_stride, total[e]);
  }
}
