/* What every rung includes, and what it is held to.
 *
 * `rung` adds alpha * A B to C for any M, N, K >= 1: A is M x K, B is K x N, C is M x N, stored by rows that
 * begin lda, ldb and ldc elements apart. C has been multiplied by beta before (entry.h), and nothing outside the
 * operands is touched. Returns GEMM_OK or GEMM_NO_MEMORY.
 *
 * T is float or double: each rung is compiled for both and for several instruction sets (entries.cmake), those that
 * are written with vectors with cpu/kernels/vec_*.h in front. MR, NR, MC, KC and NC, where a rung defines them, are
 * its tile in registers and its blocks in caches: entry.h hands them to the tables.
 *
 * The header of a rung, between `/// rung` and `///`, is TOML:
 *   title, idea, changes, look_at   what the rung teaches, in plain words
 *   builds      ["scalar"], ["scalar", "auto"] or ["vector"]; see entries.cmake
 *   threaded    true where it uses the thread pool
 *   [flops_per_entry]   the model: FLOP per matrix entry that passes a level of the machine, as a formula of
 *     MR NR MC KC NC LINE (entries of a cache line). `registers`: between the first cache and the registers;
 *     `block`: between the cache that holds the block the rung works in, and what lies behind it. */
#ifndef RUNG_H
#define RUNG_H

#include "../internal.h"

/* Where the edge of C cuts a tile off: the loops of rung 02. */
static inline void plain(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, T alpha, const T *A, ptrdiff_t lda,
                         const T *B, ptrdiff_t ldb, T *C, ptrdiff_t ldc) {
  for (ptrdiff_t i = 0; i < M; i++)
    for (ptrdiff_t k = 0; k < K; k++) {
      const T a = alpha * A[i * lda + k];
      for (ptrdiff_t j = 0; j < N; j++) C[i * ldc + j] += a * B[k * ldb + j];
    }
}

#endif
