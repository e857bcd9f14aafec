/* Entry points and the choice of path. Every public call ends in `gemm_product`. */
#include "internal.h"

#include <time.h>

enum { FEWEST_FLOPS_PER_THREAD = 1 << 18, FLOPS_OF_A_CALL = 1 << 10 };

static product exchange(const product *p) {
  product q = *p; /* C^T = B^T A^T */
  q.m = p->n, q.n = p->m;
  q.a = p->b, q.rs_a = p->cs_b, q.cs_a = p->rs_b;
  q.b = p->a, q.rs_b = p->cs_a, q.cs_b = p->rs_a;
  q.rs_c = p->cs_c, q.cs_c = p->rs_c;
  return q;
}

int threads_worth(ptrdiff_t batch, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k) {
  const double flops = (double)batch * (2.0 * (double)m * (double)n * (double)k + FLOPS_OF_A_CALL);
  const double most = flops / FEWEST_FLOPS_PER_THREAD;
  if (most < 2) return 1;
  const int threads = gemm_threads_get();
  return most < threads ? (int)most : threads;
}

int gemm_product(const product *given, int threads) {
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
  if (split_k_fits(&p)) return split_k_product(&p, threads);
  int status;
  if (shared_product(&p, threads, &status)) return status;
  return gemm_blocked(&p, dispatch_blocks(p.kn), threads);
}

/* A scalar as the type has it: what is 0 in float32 is 0 by the rules of BLAS. (volatile: gcc 12 at -O2
 * takes a pair of conversions to float and back for nothing.) */
static double in_type(int type, double x) {
  volatile float single = (float)x;
  return type == GEMM_F32 ? single : x;
}

product product_from(const kernel *kn, const gemm_call *g) {
  return (product){kn,
                   in_type(g->type, g->alpha),
                   in_type(g->type, g->beta),
                   g->m,
                   g->n,
                   g->k,
                   g->a,
                   g->rs_a,
                   g->cs_a,
                   g->b,
                   g->rs_b,
                   g->cs_b,
                   g->c,
                   g->rs_c,
                   g->cs_c};
}

static __attribute__((noinline)) int run_any(const gemm_call *call) {
  if (call->m < 0 || call->n < 0 || call->k < 0 || call->batch < 0) return GEMM_BAD_ARGUMENT;
  if (call->type != GEMM_F32 && call->type != GEMM_F64) return GEMM_BAD_ARGUMENT;
  const kernel *kn = dispatch_kernel(call->type);
  threads_used_reset();
  if (call->batch != 1) return gemm_batch(kn, call);
  const product p = product_from(kn, call);
  return gemm_product(&p, threads_worth(1, p.m, p.n, p.k));
}

int gemm_run(const gemm_call *call) {
  const kernel *kn = (unsigned)call->type < TYPES ? dispatch_ready(call->type) : NULL;
  if (!kn || !quick_fits(call)) return run_any(call);
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
