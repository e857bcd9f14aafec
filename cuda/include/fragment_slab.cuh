// From sums in shared memory to C: alpha, beta and edges. A warp has put some rows of its warp tile, a
// slab, into shared memory, because the order in which its lanes hold them would make narrow, scattered
// stores of them; here it goes through them row by row, 16 bytes a lane where C allows it.
#pragma once

#include "epilogue.cuh"

// Where in C an entry of a slab goes: row `row` of it and column `col`; `left` entries of C are there from it on.
struct Goal {
  T *entry;
  index_t left;

  __device__ __forceinline__ Goal(const Problem &p, T *c, index_t row, index_t col)
      : entry(c + row * p.c.row_stride + col * p.c.col_stride), left(row < p.m ? p.n - col : 0) {}
};

// H x W sums, LD apart, where C takes vectors.
template <int H, int W, int LD, class Rows>
__device__ __forceinline__ void store_by_vectors(const Problem &p, T *c, const Acc *slab,
                                                 index_t row, index_t col, Rows row_in_warp) {
  constexpr int IN_ROW = W / VECTOR;
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < H * IN_ROW; i += 32) {
    const int r = i / IN_ROW, s = i % IN_ROW * VECTOR;
    const Goal to(p, c, row + row_in_warp(r), col + s);
    Acc sums[VECTOR];
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) sums[e] = slab[r * LD + s + e];
    store_vector(p, to.entry, to.left, true, sums, 0);
  }
}

// The same one by one, AT_ONCE of a lane together: all are read before one is written, else each of them
// would wait for the one before.
template <int H, int W, int LD, class Rows>
__device__ __forceinline__ void store_one_by_one(const Problem &p, T *c, const Acc *slab,
                                                 index_t row, index_t col, Rows row_in_warp) {
  constexpr int AT_ONCE = 8;
  static_assert(H * W % (32 * AT_ONCE) == 0, "every lane has as many entries");
#pragma unroll 1
  for (int first = threadIdx.x % 32; first < H * W; first += 32 * AT_ONCE) {
    T results[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) {
      const int i = first + 32 * j;
      const Goal to(p, c, row + row_in_warp(i / W), col + i % W);
      if (p.beta != 0 && to.left > 0) results[j] = *to.entry;
      store_result(p, results + j, slab[i / W * LD + i % W]);
    }
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) {
      const int i = first + 32 * j;
      const Goal to(p, c, row + row_in_warp(i / W), col + i % W);
      if (to.left > 0) *to.entry = results[j];
    }
  }
}

// `slab`: H x W sums, LD apart. Its row r, from column 0 on, belongs to row row + row_in_warp(r) of C, from
// column `col` on. Called by a whole warp that has met at __syncwarp() since the sums were written.
template <int H, int W, int LD, class Rows>
__device__ __forceinline__ void store_slab(const Problem &p, const Acc *slab, index_t row,
                                           index_t col, index_t batch, Rows row_in_warp) {
  static_assert(W % VECTOR == 0, "whole vectors");
  T *c = p.c.data + batch * p.c.batch_stride;
  if (c_takes_vectors(p, c))
    store_by_vectors<H, W, LD>(p, c, slab, row, col, row_in_warp);
  else
    store_one_by_one<H, W, LD>(p, c, slab, row, col, row_in_warp);
}
