/* Where C has no unit column stride, a micro-tile is made aside and merged element by element. */
#include "internal.h"

#define DEFINE_MERGE(T, name)                                                                      \
  static void name(const tile *t, const T *made, T *c, ptrdiff_t rs_c, ptrdiff_t cs_c, T beta) {   \
    for (ptrdiff_t i = 0; i < t->m; i++)                                                           \
      for (ptrdiff_t j = 0; j < t->n; j++) {                                                       \
        T *to = c + i * rs_c + j * cs_c;                                                           \
        *to = beta != 0 ? made[i * MAX_NR + j] + beta * *to : made[i * MAX_NR + j];                \
      }                                                                                            \
  }

DEFINE_MERGE(float, merge_f32)
DEFINE_MERGE(double, merge_f64)

static void store_aside(const kernel *kn, tile *t, char *c, ptrdiff_t rs_c, ptrdiff_t cs_c) {
  _Alignas(CACHE_LINE) double made[MAX_MR * MAX_NR];
  const double beta = t->beta;
  t->c = made, t->rs_c = MAX_NR, t->beta = 0;
  kn->multiply(t);
  t->beta = beta;
  if (kn->type == GEMM_F32)
    merge_f32(t, (const float *)made, (float *)c, rs_c, cs_c, (float)beta);
  else
    merge_f64(t, made, (double *)c, rs_c, cs_c, beta);
}

void tile_store(const kernel *kn, tile *t, char *c, ptrdiff_t rs_c, ptrdiff_t cs_c) {
  if (cs_c != 1) {
    store_aside(kn, t, c, rs_c, cs_c);
    return;
  }
  t->c = c, t->rs_c = rs_c;
  kn->multiply(t);
}

/* C = beta * C, exactly: beta == 0 writes zeros whatever was there, beta == 1 writes nothing. */
#define DEFINE_SCALE(T, name)                                                                      \
  static void name(const product *p) {                                                             \
    const T beta = (T)p->beta;                                                                     \
    for (ptrdiff_t i = 0; i < p->m; i++)                                                           \
      for (ptrdiff_t j = 0; j < p->n; j++) {                                                       \
        T *c = (T *)p->c + i * p->rs_c + j * p->cs_c;                                              \
        *c = beta != 0 ? beta * *c : 0;                                                            \
      }                                                                                            \
  }

DEFINE_SCALE(float, scale_f32)
DEFINE_SCALE(double, scale_f64)

void scale_c(const product *p) {
  if (p->beta == 1) return;
  if (p->kn->type == GEMM_F32)
    scale_f32(p);
  else
    scale_f64(p);
}
