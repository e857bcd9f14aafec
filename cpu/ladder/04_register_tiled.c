/* A small tile of C stays in registers while k runs: it is loaded and stored once, not at every step.
 *
 * /// rung
 * title = "register-tiled"
 * idea = "MR x NR sums are kept in registers; MR entries of A and NR of B feed MR * NR multiply-adds."
 * changes = "The innermost loops work on a tile of C: loads and stores per operation fall to a quarter."
 * look_at = """
 * Rung 03 was held up by its loads and stores: three for two FLOP. With 4 x 2 sums there are 6 loads for 16
 * FLOP, and eight independent chains of additions: as many as two FMA units of 4 cycles latency can take. The
 * scalar units are now busy; only vectors get further.
 * /auto shows how little a compiler can be relied on here: it finds no vectors in this tile."""
 * builds = ["scalar", "auto"]
 *
 * [flops_per_entry]
 * registers = "2 * MR * NR / (MR + NR)"
 * block = "2 * KC * NC / (KC + 2 * NC)"
 * ///
 */
#include "rung.h"

#define MR 4
#define NR 2
#define KC 128
#define NC 512

static inline void add_tile(ptrdiff_t K, T alpha, const T *A, ptrdiff_t lda, const T *B,
                            ptrdiff_t ldb, T *C, ptrdiff_t ldc) {
  T sum[MR][NR] = {0};
  for (ptrdiff_t k = 0; k < K; k++)
    for (int i = 0; i < MR; i++)
      for (int j = 0; j < NR; j++) sum[i][j] += A[i * lda + k] * B[k * ldb + j];
  for (int i = 0; i < MR; i++)
    for (int j = 0; j < NR; j++) C[i * ldc + j] += alpha * sum[i][j];
}

static void add_block(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, T alpha, const T *A, ptrdiff_t lda,
                      const T *B, ptrdiff_t ldb, T *C, ptrdiff_t ldc) {
  const ptrdiff_t m = M / MR * MR, n = N / NR * NR; /* whole tiles */
  for (ptrdiff_t i = 0; i < m; i += MR)
    for (ptrdiff_t j = 0; j < n; j += NR)
      add_tile(K, alpha, A + i * lda, lda, B + j, ldb, C + i * ldc + j, ldc);
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
