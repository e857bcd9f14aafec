/* The loops of rung 04 around a tile of vectors: one instruction works on 4 to 16 entries.
 *
 * /// rung
 * title = "vectorised"
 * idea = "Each sum of the register tile becomes a vector of sums, written down as such (micro.h)."
 * changes = "One FMA instruction does 4 to 16 multiply-adds; the loops around the tile are those of rung 04."
 * look_at = """
 * At 64 everything is in the first-level cache and this is close to the peak. At 1024 the rows of B that a tile
 * reads are 4096 bytes apart: each one is in another page, and all fall into the same places of the cache.
 * Sizes that are no multiple of the tile pay for the scalar edge."""
 * builds = ["vector"]
 *
 * [flops_per_entry]
 * registers = "2 * MR * NR / (MR + NR)"
 * block = "2 * KC * NC / (KC + 2 * NC)"
 * ///
 */
#include "micro.h"

#define KC 128
#define NC 512

static void add_block(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, T alpha, const T *A, ptrdiff_t lda,
                      const T *B, ptrdiff_t ldb, T *C, ptrdiff_t ldc) {
  const ptrdiff_t m = M / MR * MR, n = N / NR * NR; /* whole tiles */
  for (ptrdiff_t i = 0; i < m; i += MR)
    for (ptrdiff_t j = 0; j < n; j += NR)
      micro(K, alpha, A + i * lda, lda, 1, B + j, ldb, C + i * ldc + j, ldc);
  plain(m, N - n, K, alpha, A, lda, B + n, ldb, C + n, ldc);
  plain(M - m, N, K, alpha, A + m * lda, lda, B, ldb, C + m * ldc, ldc);
}

static int rung(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, T alpha, const T *A, ptrdiff_t lda,
                const T *B, ptrdiff_t ldb, T *C, ptrdiff_t ldc) {
  for (ptrdiff_t k = 0; k < K; k += KC)
    for (ptrdiff_t j = 0; j < N; j += NC)
      add_block(M, min_of(NC, N - j), min_of(KC, K - k), alpha, A + k, lda, B + k * ldb + j, ldb,
                C + j, ldc);
  return GEMM_OK;
}
