/* The two inner loops change places: now all three matrices are walked along their rows.
 *
 * /// rung
 * title = "interchanged"
 * idea = "The same three loops in the order i, k, j: memory is read in the order in which it lies."
 * changes = "The order of two loops; not one operation more or less."
 * look_at = """
 * A cache line of B that has been fetched is used to its end, and the processor fetches the next one in time.
 * No addition waits for the one before. The price: C is loaded and stored at every step.
 * /auto is the same file with the compiler's vectoriser on: the interchange is what makes that possible. It
 * falls off once B no longer fits the second-level cache."""
 * builds = ["scalar", "auto"]
 *
 * [flops_per_entry]
 * registers = "2 / 3"
 * block = "2 / 1"
 * ///
 */
#include "rung.h"

static int rung(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, T alpha, const T *A, ptrdiff_t lda,
                const T *B, ptrdiff_t ldb, T *C, ptrdiff_t ldc) {
  for (ptrdiff_t i = 0; i < M; i++)
    for (ptrdiff_t k = 0; k < K; k++) {
      const T a = alpha * A[i * lda + k];
      for (ptrdiff_t j = 0; j < N; j++) C[i * ldc + j] += a * B[k * ldb + j];
    }
  return GEMM_OK;
}
