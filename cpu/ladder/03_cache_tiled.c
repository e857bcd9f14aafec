/* A block of B stays in the cache while every row of A goes over it.
 *
 * /// rung
 * title = "cache-tiled"
 * idea = "Two more loops cut B into blocks that fit the second-level cache; each is used M times once there."
 * changes = "The order in which the same operations are done: block after block."
 * look_at = """
 * Per entry that comes from behind the cache there are a hundred FLOP now in place of two. As long as the
 * arithmetic is scalar the caches nearly kept up without it, so the gain is small; under /auto, eight to sixteen
 * times as fast, the same loops gain several times as soon as B outgrows the cache."""
 * builds = ["scalar", "auto"]
 *
 * [flops_per_entry]
 * registers = "2 / 3"
 * block = "2 * KC * NC / (KC + 2 * NC)"
 * ///
 */
#include "rung.h"

#define KC 128
#define NC 512

static int rung(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, T alpha, const T *A, ptrdiff_t lda,
                const T *B, ptrdiff_t ldb, T *C, ptrdiff_t ldc) {
  for (ptrdiff_t kk = 0; kk < K; kk += KC)
    for (ptrdiff_t jj = 0; jj < N; jj += NC) {
      const ptrdiff_t k_end = min_of(K, kk + KC), j_end = min_of(N, jj + NC);
      for (ptrdiff_t i = 0; i < M; i++)
        for (ptrdiff_t k = kk; k < k_end; k++) {
          const T a = alpha * A[i * lda + k];
          for (ptrdiff_t j = jj; j < j_end; j++) C[i * ldc + j] += a * B[k * ldb + j];
        }
    }
  return GEMM_OK;
}
