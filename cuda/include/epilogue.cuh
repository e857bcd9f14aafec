// Epilogue of VECTOR neighbours in a row of C: one access where C allows it, entry by entry at edges.
#pragma once
#include "vector.cuh"

// Whether rows of C may be written by vectors; the same for all threads of a block.
__device__ __forceinline__ bool c_takes_vectors(const Problem &p, const T *c) {
  return p.c.col_stride == 1 && aligned16(c, p.c.row_stride);
}

// sums[first ...] into the entries from `c` on, of which `left` lie inside the matrix.
template <int N>
__device__ __forceinline__ void store_vector(const Problem &p, T *c, index_t left, bool vectors,
                                             const Acc (&sums)[N], int first) {
  if (vectors && left >= VECTOR) {
    Vector out;
    if (p.beta != 0) out = *(const Vector *)c;
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) store_result(p, &out.at[e], sums[first + e]);
    *(Vector *)c = out;
    return;
  }
#pragma unroll
  for (int e = 0; e < VECTOR; ++e)
    if (e < left) store_result(p, c + e * p.c.col_stride, sums[first + e]);
}
