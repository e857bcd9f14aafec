// From sums in shared memory to C: alpha, beta and edges. A warp has put some rows of its warp tile, a
// slab, into shared memory, because the order in which its lanes hold them would make narrow, scattered
// stores of them; here it goes through them row by row, 16 bytes a lane where C allows it.
#pragma once

#include "epilogue.cuh"

// `slab`: H x W sums, LD apart. Its row r, from column 0 on, belongs to row row + row_in_warp(r) of C, from
// column `col` on. Called by a whole warp that has met at __syncwarp() since the sums were written.
template <int H, int W, int LD, class Rows>
__device__ __forceinline__ void store_slab(const Problem &p, const Acc *slab, index_t row,
                                           index_t col, index_t batch, Rows row_in_warp) {
  T *c = p.c.data + batch * p.c.batch_stride;
  const bool vectors = W % VECTOR == 0 && col + W <= p.n && c_takes_vectors(p, c);
  const int each = vectors ? VECTOR : 1, in_row = W / each;
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < H * in_row; i += 32) {
    const int r = i / in_row, s = i % in_row * each;
    const index_t to = row + row_in_warp(r);
    if (to >= p.m || col + s >= p.n) continue;
    T *entry = c + to * p.c.row_stride + (col + s) * p.c.col_stride;
    const Acc *from = slab + r * LD + s;
    if (!vectors) {
      store_result(p, entry, *from);
      continue;
    }
    Acc sums[VECTOR];
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) sums[e] = from[e];
    store_vector(p, entry, VECTOR, true, sums, 0);
  }
}
