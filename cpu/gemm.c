/* Entry points and the choice of path. Every public call ends in `gemm_product`. */
#include "internal.h"

#include <time.h>

enum { FEWEST_FLOPS_PER_THREAD = 1 << 21 };

static product exchange(const product *p) {
  product q = *p; /* C^T = B^T A^T */
  q.m = p->n, q.n = p->m;
  q.a = p->b, q.rs_a = p->cs_b, q.cs_a = p->rs_b;
  q.b = p->a, q.rs_b = p->cs_a, q.cs_b = p->rs_a;
  q.rs_c = p->cs_c, q.cs_c = p->rs_c;
  return q;
}

static int threads_for(const product *p) {
  double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k;
  double most = flops / FEWEST_FLOPS_PER_THREAD;
  int threads = gemm_threads_get();
  if (most < 2) return 1;
  return most < threads ? (int)most : threads;
}

int gemm_product(const product *given) {
  if (given->m == 0 || given->n == 0) return GEMM_OK;
  if (given->k == 0 || given->alpha == 0) {
    scale_c(given);
    return GEMM_OK;
  }
  if (given->m == 1 || given->n == 1) {
    product p = given->n == 1 ? *given : exchange(given);
    return gemv_product(&p);
  }
  product p = given->rs_c == 1 && given->cs_c != 1 ? exchange(given) : *given;
  const int threads = threads_for(&p);
  if (threads == 1 && small_fits(&p)) {
    small_product(&p);
    return GEMM_OK;
  }
  if (split_k_fits(&p)) return split_k_product(&p, threads);
  return gemm_blocked(&p, dispatch_blocks(p.kn), threads);
}

/* A scalar as the type has it: what is 0 in float32 is 0 by the rules of BLAS. (volatile: gcc 12 at -O2
 * takes a pair of conversions to float and back for nothing.) */
static double in_type(int type, double x) {
  volatile float single = (float)x;
  return type == GEMM_F32 ? single : x;
}

enum { QUICK = 64 };

/* The quick way: nothing to pack, to share or to scale. Sizes from 1, but n from 2, to QUICK. */
static inline bool quick(const gemm_call *g) {
  if (((size_t)(g->m - 1) | (size_t)(g->n - 2) | (size_t)(g->k - 1)) >= QUICK) return false;
  if (g->cs_b != 1 || g->cs_c != 1 || g->batch != 1) return false;
  return g->alpha > 1e-30 || g->alpha < -1e-30; /* not 0 in float32 either */
}

static __attribute__((noinline)) int run_any(const gemm_call *call) {
  if (call->m < 0 || call->n < 0 || call->k < 0 || call->batch < 0) return GEMM_BAD_ARGUMENT;
  if (call->type != GEMM_F32 && call->type != GEMM_F64) return GEMM_BAD_ARGUMENT;
  threads_used_reset();
  const kernel *kn = dispatch_kernel(call->type);
  const double alpha = in_type(call->type, call->alpha), beta = in_type(call->type, call->beta);
  product p = {kn,         alpha,      beta,       call->m,    call->n,
               call->k,    call->a,    call->rs_a, call->cs_a, call->b,
               call->rs_b, call->cs_b, call->c,    call->rs_c, call->cs_c};
  for (ptrdiff_t i = 0; i < call->batch; i++) {
    int status = gemm_product(&p);
    if (status != GEMM_OK) return status;
    if (i + 1 == call->batch) break;
    p.a += call->bs_a * kn->size;
    p.b += call->bs_b * kn->size;
    p.c += call->bs_c * kn->size;
  }
  return GEMM_OK;
}

int gemm_run(const gemm_call *call) {
  const kernel *kn = (unsigned)call->type < TYPES ? dispatch_ready(call->type) : NULL;
  if (!kn || !quick(call)) return run_any(call);
  threads_used_reset();
  kn->multiply_small(call);
  return GEMM_OK;
}

int gemm_run_empty(const gemm_call *call) {
  return call->type == GEMM_F32 || call->type == GEMM_F64 ? GEMM_OK : GEMM_BAD_ARGUMENT;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int gemm_run_timed(const gemm_call *call, ptrdiff_t calls, double *seconds) {
  int status = GEMM_OK;
  double start = now();
  for (ptrdiff_t i = 0; i < calls && status == GEMM_OK; i++) status = gemm_run(call);
  *seconds = now() - start;
  return status;
}

int gemm_f32(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, float alpha, const float *a, ptrdiff_t rs_a,
             ptrdiff_t cs_a, const float *b, ptrdiff_t rs_b, ptrdiff_t cs_b, float beta, float *c,
             ptrdiff_t rs_c, ptrdiff_t cs_c) {
  const gemm_call call = {GEMM_F32, alpha, beta, m,    n, k, 1,    a,    rs_a, cs_a,
                          0,        b,     rs_b, cs_b, 0, c, rs_c, cs_c, 0};
  return gemm_run(&call);
}

int gemm_f64(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, double alpha, const double *a, ptrdiff_t rs_a,
             ptrdiff_t cs_a, const double *b, ptrdiff_t rs_b, ptrdiff_t cs_b, double beta,
             double *c, ptrdiff_t rs_c, ptrdiff_t cs_c) {
  const gemm_call call = {GEMM_F64, alpha, beta, m,    n, k, 1,    a,    rs_a, cs_a,
                          0,        b,     rs_b, cs_b, 0, c, rs_c, cs_c, 0};
  return gemm_run(&call);
}

int gemv_f32(ptrdiff_t m, ptrdiff_t n, float alpha, const float *a, ptrdiff_t rs_a, ptrdiff_t cs_a,
             const float *x, ptrdiff_t inc_x, float beta, float *y, ptrdiff_t inc_y) {
  return gemm_f32(m, 1, n, alpha, a, rs_a, cs_a, x, inc_x, 1, beta, y, inc_y, 1);
}

int gemv_f64(ptrdiff_t m, ptrdiff_t n, double alpha, const double *a, ptrdiff_t rs_a,
             ptrdiff_t cs_a, const double *x, ptrdiff_t inc_x, double beta, double *y,
             ptrdiff_t inc_y) {
  return gemm_f64(m, 1, n, alpha, a, rs_a, cs_a, x, inc_x, 1, beta, y, inc_y, 1);
}

int gemm_abi(void) { return GEMM_ABI; }
