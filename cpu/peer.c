/* Calls another library's CBLAS in a loop of C, as gemm_run_timed does ours: what is left of the time is the
 * library's own. One loop for each element type and integer width, so that nothing is decided between calls. */
#include "internal.h"

#include <stdint.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 }; /* cblas.h; enums are ints at any width */

static int trans(int flag) { return flag ? TRANS : NO_TRANS; }

#define DEFINE_LOOPS(T, I, name)                                                                   \
  static void gemm_##name(const gemm_peer *p, ptrdiff_t calls) {                                   \
    typedef void cblas_gemm(int, int, int, I, I, I, T, const T *, I, const T *, I, T, T *, I);     \
    cblas_gemm *const gemm = (cblas_gemm *)p->function;                                            \
    for (ptrdiff_t i = 0; i < calls; i++)                                                          \
      for (ptrdiff_t j = 0; j < p->batch; j++)                                                     \
        gemm(ROW_MAJOR, trans(p->trans_a), trans(p->trans_b), (I)p->m, (I)p->n, (I)p->k,           \
             (T)p->alpha, (const T *)p->a + j * p->bs_a, (I)p->ld_a,                               \
             (const T *)p->b + j * p->bs_b, (I)p->ld_b, (T)p->beta, (T *)p->c + j * p->bs_c,       \
             (I)p->ld_c);                                                                          \
  }                                                                                                \
  static void gemv_##name(const gemm_peer *p, ptrdiff_t calls) {                                   \
    typedef void cblas_gemv(int, int, I, I, T, const T *, I, const T *, I, T, T *, I);             \
    cblas_gemv *const gemv = (cblas_gemv *)p->function;                                            \
    for (ptrdiff_t i = 0; i < calls; i++)                                                          \
      gemv(ROW_MAJOR, trans(p->trans_a), (I)p->m, (I)p->n, (T)p->alpha, p->a, (I)p->ld_a, p->b,    \
           (I)p->ld_b, (T)p->beta, p->c, (I)p->ld_c);                                              \
  }

DEFINE_LOOPS(float, int32_t, f32_32)
DEFINE_LOOPS(float, int64_t, f32_64)
DEFINE_LOOPS(double, int32_t, f64_32)
DEFINE_LOOPS(double, int64_t, f64_64)

/* oneDNN has a row-major sgemm of its own form. */
static void gemm_onednn(const gemm_peer *p, ptrdiff_t calls) {
  typedef int dnnl_sgemm(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t,
                         const float *, int64_t, float, float *, int64_t);
  dnnl_sgemm *const gemm = (dnnl_sgemm *)p->function;
  for (ptrdiff_t i = 0; i < calls; i++)
    for (ptrdiff_t j = 0; j < p->batch; j++)
      gemm(p->trans_a ? 'T' : 'N', p->trans_b ? 'T' : 'N', p->m, p->n, p->k, (float)p->alpha,
           (const float *)p->a + j * p->bs_a, p->ld_a, (const float *)p->b + j * p->bs_b, p->ld_b,
           (float)p->beta, (float *)p->c + j * p->bs_c, p->ld_c);
}

typedef void loop(const gemm_peer *p, ptrdiff_t calls);

static loop *loop_of(const gemm_peer *p) {
  static loop *const loops[TYPES][2][2] = {
      {{gemm_f32_32, gemv_f32_32}, {gemm_f32_64, gemv_f32_64}},
      {{gemm_f64_32, gemv_f64_32}, {gemm_f64_64, gemv_f64_64}}};
  if (p->type != GEMM_F32 && p->type != GEMM_F64) return NULL;
  if (p->int_bits != 32 && p->int_bits != 64) return NULL;
  if (p->op == GEMM_PEER_GEMM || p->op == GEMM_PEER_GEMV)
    return loops[p->type][p->int_bits == 64][p->op];
  return p->op == GEMM_PEER_ONEDNN && p->type == GEMM_F32 && p->int_bits == 64 ? gemm_onednn : NULL;
}

static bool fits(const gemm_peer *p) {
  const ptrdiff_t values[] = {p->m, p->n, p->k, p->ld_a, p->ld_b, p->ld_c};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
    if (values[i] < 0 || (p->int_bits == 32 && values[i] > INT32_MAX)) return false;
  return p->batch >= 0 && (p->op != GEMM_PEER_GEMV || p->batch == 1);
}

int gemm_peer_timed(const gemm_peer *p, ptrdiff_t calls, double *seconds) {
  loop *const run = loop_of(p);
  if (!run || !p->function || calls < 0 || !fits(p)) return GEMM_BAD_ARGUMENT;
  const double start = clock_seconds();
  run(p, calls);
  *seconds = clock_seconds() - start;
  return GEMM_OK;
}
