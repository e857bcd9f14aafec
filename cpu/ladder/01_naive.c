/* The definition, taken literally: every entry of C is the product of a row of A with a column of B.
 *
 * /// rung
 * title = "naive"
 * idea = "Three loops in the order i, j, k, as the formula is written."
 * changes = "Nothing yet: this is where the ladder stands."
 * look_at = """
 * The innermost loop walks down a column of B: every step is in another cache line, of which it uses one entry.
 * Compare 1024 with 1023: at rows of 4096 bytes all those lines fall into the same few places of the cache.
 * Nor can the compiler help: a sum has to be added up in the order written, so there are no vectors, and each
 * addition waits for the one before (4 cycles)."""
 * builds = ["scalar"]
 *
 * [flops_per_entry]
 * registers = "2 / 2"
 * block = "2 / LINE"
 * ///
 */
#include "rung.h"

static int rung(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, T alpha, const T *A, ptrdiff_t lda,
                const T *B, ptrdiff_t ldb, T *C, ptrdiff_t ldc) {
  for (ptrdiff_t i = 0; i < M; i++)
    for (ptrdiff_t j = 0; j < N; j++) {
      T sum = 0;
      for (ptrdiff_t k = 0; k < K; k++) sum += A[i * lda + k] * B[k * ldb + j];
      C[i * ldc + j] += alpha * sum;
    }
  return GEMM_OK;
}
