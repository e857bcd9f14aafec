/* The micro-kernel of rungs 05 to 07: the tile of rung 04 with vectors in place of single sums.
 *
 * C += alpha * A B for one tile of MR rows by NR columns. Each step takes a row of B as VECTORS vectors and
 * multiplies it by MR entries of A, one after the other broadcast to a whole vector. Half of the vector registers
 * are sums: 8 of 16 or 16 of 32, no fewer than the two FMA units need in flight. */
#ifndef MICRO_H
#define MICRO_H

#include "rung.h"

enum { VECTORS = 2, ROWS = sizeof(V) == 64 ? 8 : 4 };
#define MR ROWS
#define NR (VECTORS * VL)

static inline __attribute__((always_inline)) void micro(ptrdiff_t K, T alpha, const T *A,
                                                        ptrdiff_t rs_a, ptrdiff_t cs_a, const T *B,
                                                        ptrdiff_t ldb, T *C, ptrdiff_t ldc) {
  V sum[MR][VECTORS];
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
    for (int j = 0; j < VECTORS; j++) sum[i][j] = vzero();
  for (ptrdiff_t k = 0; k < K; k++)
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) {
      const V a = vset1(A[i * rs_a + k * cs_a]);
#pragma GCC unroll 2
      for (int j = 0; j < VECTORS; j++) sum[i][j] = vfma(a, vload(B + k * ldb + j * VL), sum[i][j]);
    }
#pragma GCC unroll 8
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
    for (int j = 0; j < VECTORS; j++) {
      T *c = C + i * ldc + j * VL;
      vstore(c, vfma(vset1(alpha), sum[i][j], vload(c)));
    }
}

#endif
