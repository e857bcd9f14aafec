// A thread's part of C, in registers: M x N sums, which grow by an outer product for every k. M + N entries
// are read from shared memory for M * N multiply-adds.
//
// Rows and columns come in vectors, STEP_M and STEP_N apart: neighbouring threads read neighbouring vectors,
// and no two of them want the same bank. (With all N columns side by side, every second vector would be in
// the way of another.)
#pragma once
#include "epilogue.cuh"

template <int M, int N, int STEP_M, int STEP_N> struct RegisterTile {
  static_assert(M % VECTOR == 0 && N % VECTOR == 0, "threads read whole vectors");
  Acc sums[M][N] = {};

  struct Fragments { // a thread's entries of one k
    Acc a[M], b[N];

    __device__ __forceinline__ void read(const T *a_row, const T *b_row) {
      read_vectors<M, STEP_M>(a, a_row);
      read_vectors<N, STEP_N>(b, b_row);
    }
  };

  // TO_AND_FRO turns the direction in every other row, so that each product shares a factor with the last.
  template <bool TO_AND_FRO = false> __device__ __forceinline__ void multiply(const Fragments &f) {
#pragma unroll
    for (int i = 0; i < M; ++i)
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const int at = TO_AND_FRO && i % 2 ? N - 1 - j : j;
        sums[i][at] += f.a[i] * f.b[at];
      }
  }

  // (row, col) in C is the thread's first entry.
  __device__ __forceinline__ void store(const Problem &p, T *c, index_t row, index_t col) const {
    const bool vectors = c_takes_vectors(p, c);
#pragma unroll
    for (int i = 0; i < M; ++i) {
      const index_t at = row + i / VECTOR * STEP_M + i % VECTOR;
      if (at >= p.m) return;
#pragma unroll
      for (int j = 0; j < N; j += VECTOR) {
        const index_t first = col + j / VECTOR * STEP_N;
        T *to = c + at * p.c.row_stride + first * p.c.col_stride;
        store_vector(p, to, p.n - first, vectors, sums[i], j);
      }
    }
  }
};
