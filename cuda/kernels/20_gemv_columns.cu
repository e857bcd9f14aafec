// y = alpha * A x + beta * y with A stored by columns (the transposed product): neighbouring threads take
// neighbouring entries of y, 16 bytes each, and K is shared out among groups of threads and among blocks.
//
// Entry (row, k) of A lies at k * ld + row, so a group of threads that takes every so many-th k, a multiple of
// VECTOR, meets the same misalignment each time (VECTOR entries times any ld are whole 16-byte pieces): what lies
// before the first boundary and behind the last one is the same few rows all along, and costs a narrow load per k.
//
// The tile decides between two costs. A narrow one (32) leaves enough tiles for every SM from 4096 rows on, and no
// block meets another; with wide ones K is cut as well, which smaller matrices need to fill the GPU, and which
// costs some 2 us for the meeting in L2. A short K (256) wants few blocks with much to read in each row.
//
// /// kernel
// entry = "gemv_columns"
// op = "gemv"
// dtypes = ["float32", "float64", "float16", "bfloat16"]
// math = ["fp32", "fp64", "fp16", "bf16"]
// transposes = ["t"]
// launcher = "split_k"
// min_sm = 50
// teaches = "The layout chooses the parallel direction; who shares a result meets in shared memory, then in L2."
//
// [[variant]]
// threads = [256, 1]
// tile = [128, 1, 64]
// defines = { LOADS = 4, BLOCKS_PER_SM = 3, AHEAD = 0, STREAM = 1 }
//
// [[variant]]
// name = "32"
// threads = [512, 1]
// tile = [32, 1, 256]
// defines = { LOADS = 8, BLOCKS_PER_SM = 1, AHEAD = 0, STREAM = 1 }
//
// [[variant]]
// name = "256"
// threads = [256, 1]
// tile = [256, 1, 32]
// defines = { LOADS = 4, BLOCKS_PER_SM = 3, AHEAD = 0, STREAM = 1 }
// ///
#include "columns.cuh"

// What a thread reads of LOADS values of k, all of it on its way at one time. SINGLE: entries outside whole pieces
// as well, which few threads have, and only in a ragged matrix.
template <bool SINGLE> struct Batch {
  Vector parts[LOADS];
  T singles[SINGLE ? LOADS : 1][SINGLES];
  Acc x[LOADS];

  // The first value at `a` and `x_from`. CHECKED: only `count` of them exist, the others become zeros.
  template <bool CHECKED>
  __device__ __forceinline__ void read(const Share &s, const T *a, index_t step, const T *x_from,
                                       index_t count) {
    const T *wide = a + s.head + s.me * VECTOR;
#pragma unroll
    for (int j = 0; j < LOADS; ++j, a += step, wide += step, x_from += s.groups) {
      const bool here = !CHECKED || j < count;
      parts[j] = here && s.whole() ? load_once(wide) : Vector{};
      if constexpr (SINGLE)
#pragma unroll
        for (int e = 0; e < SINGLES; ++e)
          singles[j][e] = here && s.single(e) < s.width ? __ldg(a + s.single(e)) : T{};
      x[j] = here ? load(x_from) : Acc(0);
    }
  }
  __device__ __forceinline__ void add(Sums &sums) const {
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

// This thread's sums over `count` values of k. A batch is on its way while the one before is added.
template <bool SINGLE>
__device__ __forceinline__ void add_up(const Share &s, const T *a, index_t step, const T *x,
                                       index_t count, Sums &sums) {
  const auto read = [&](Batch<SINGLE> &to) {
    if (count >= LOADS)
      to.template read<false>(s, a, step, x, count);
    else
      to.template read<true>(s, a, step, x, count);
    a += LOADS * step, x += LOADS * s.groups, count -= LOADS;
  };
#if AHEAD
  Batch<SINGLE> now;
  read(now);
  while (count > 0) {
    Batch<SINGLE> next;
    read(next);
    now.add(sums);
    now = next;
  }
  now.add(sums);
#else
  while (count > 0) {
    Batch<SINGLE> now;
    read(now);
    now.add(sums);
  }
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) gemv_columns(const Problem p) {
  __shared__ Acc partial[THREADS * VECTOR];
  const Part part = part_of_block(p, TILE_K);
  const index_t row = index_t(part.tile) * TILE_M, ld = p.a.col_stride;
  Share share(p.m, row);
  const T *a = p.a.data + row + (part.begin + share.group) * ld;
  const T *x = p.b.data + part.begin + share.group;
  share.cut(a);

  Sums sums;
  const index_t count = share.count(part.end - part.begin), step = share.groups * ld;
  if (aligned16(p.a.data + row, ld) && share.width % VECTOR == 0) // the same for all threads
    add_up<false>(share, a, step, x, count, sums);
  else
    add_up<true>(share, a, step, x, count, sums);
  add_and_store(p, part, share, sums, partial);
}
