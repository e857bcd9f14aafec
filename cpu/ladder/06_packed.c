/* Blocks of A and B are copied into panels that lie in memory in the very order in which the tile reads them.
 *
 * /// rung
 * title = "packed"
 * idea = "Copy once, read often: a panel of MR rows of A or NR columns of B is one stream without gaps."
 * changes = "The micro-kernel of rung 05 reads packed copies; every edge is filled up with zeros to a whole tile."
 * look_at = """
 * Compare 1024 with 64. Large: no more pages and cache places in conflict, and a ragged size costs no more than
 * its share. Small: the copies are read too few times to pay for themselves (a copy of B serves M rows), which
 * is why the library reads small operands in place. The five loops are those of GotoBLAS and BLIS."""
 * builds = ["vector"]
 *
 * [flops_per_entry]
 * registers = "2 * MR * NR / (MR + NR)"
 * block = "2 * KC * NC / (KC + 2 * NC)"
 * ///
 */
#include "micro.h"

#include <string.h>

#define MC 128
#define KC 256
#define NC 1024

static void pack_a(ptrdiff_t M, ptrdiff_t K, const T *A, ptrdiff_t lda, T *to) {
  for (ptrdiff_t i = 0; i < M; i += MR)
    for (ptrdiff_t k = 0; k < K; k++, to += MR)
      if (M - i >= MR)
        for (int r = 0; r < MR; r++) to[r] = A[(i + r) * lda + k];
      else
        for (int r = 0; r < MR; r++) to[r] = r < M - i ? A[(i + r) * lda + k] : 0;
}

static void pack_b(ptrdiff_t N, ptrdiff_t K, const T *B, ptrdiff_t ldb, T *to) {
  for (ptrdiff_t j = 0; j < N; j += NR)
    for (ptrdiff_t k = 0; k < K; k++, to += NR)
      if (N - j >= NR)
        memcpy(to, B + k * ldb + j, NR * sizeof(T));
      else
        for (int c = 0; c < NR; c++) to[c] = c < N - j ? B[k * ldb + j + c] : 0;
}

/* m x n of a tile: a whole one straight into C, a cut one by way of a tile of its own. */
static void add_tile(ptrdiff_t m, ptrdiff_t n, ptrdiff_t K, T alpha, const T *a, const T *b, T *C,
                     ptrdiff_t ldc) {
  if (m >= MR && n >= NR) {
    micro(K, alpha, a, 1, MR, b, NR, C, ldc);
    return;
  }
  T whole[MR * NR] = {0};
  micro(K, alpha, a, 1, MR, b, NR, whole, NR);
  for (ptrdiff_t i = 0; i < min_of(m, MR); i++)
    for (ptrdiff_t j = 0; j < min_of(n, NR); j++) C[i * ldc + j] += whole[i * NR + j];
}

static void add_block(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, T alpha, const T *a, const T *b, T *C,
                      ptrdiff_t ldc) {
  for (ptrdiff_t j = 0; j < N; j += NR)
    for (ptrdiff_t i = 0; i < M; i += MR)
      add_tile(M - i, N - j, K, alpha, a + i * K, b + j * K, C + i * ldc + j, ldc);
}

static int rung(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, T alpha, const T *A, ptrdiff_t lda,
                const T *B, ptrdiff_t ldb, T *C, ptrdiff_t ldc) {
  T *a = buffer_get((MC + NC) * KC * sizeof(T)), *b = a + MC * KC;
  if (!a) return GEMM_NO_MEMORY;
  for (ptrdiff_t j = 0; j < N; j += NC)
    for (ptrdiff_t k = 0; k < K; k += KC) {
      const ptrdiff_t n = min_of(NC, N - j), depth = min_of(KC, K - k);
      pack_b(n, depth, B + k * ldb + j, ldb, b);
      for (ptrdiff_t i = 0; i < M; i += MC) {
        const ptrdiff_t m = min_of(MC, M - i);
        pack_a(m, depth, A + i * lda + k, lda, a);
        add_block(m, n, depth, alpha, a, b, C + i * ldc + j, ldc);
      }
    }
  return GEMM_OK;
}
