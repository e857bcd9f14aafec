/* Ends the file that CMake writes around a rung: makes its entry in the table of ladder.c. */
#include "ladder.h"

#ifndef MR /* no tile: one product after the other */
#define MR 1
#define NR 1
#endif
#ifndef KC /* no blocks: the whole matrices */
#define KC 0
#define NC 0
#endif
#ifndef MC
#define MC 0
#endif

static void scale(ptrdiff_t M, ptrdiff_t N, T beta, T *C, ptrdiff_t ldc) {
  for (ptrdiff_t i = 0; i < M; i++)
    for (ptrdiff_t j = 0; j < N; j++) C[i * ldc + j] = beta == 0 ? 0 : beta * C[i * ldc + j];
}

static int run(const gemm_call *p) {
  const T alpha = (T)p->alpha, beta = (T)p->beta;
  if (p->m == 0 || p->n == 0) return GEMM_OK;
  if (beta != 1) scale(p->m, p->n, beta, p->c, p->rs_c);
  if (p->k == 0 || alpha == 0) return GEMM_OK;
  return rung(p->m, p->n, p->k, alpha, p->a, p->rs_a, p->b, p->rs_b, p->c, p->rs_c);
}

const ladder_entry ENTRY = {run, {ENTRY_NAME, ENTRY_ISA, MR, NR, MC, KC, NC}};
