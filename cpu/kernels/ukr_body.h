/* The micro-kernel, written once over vec_*.h: a micro-tile of MR rows by NV vectors stays in
 * registers while k runs; each step multiplies a column of A, broadcast, by a row of B.
 *
 * `packed` fixes the strides of micro-panels at compile time. Edges get bodies of their own for
 * every row count and for fewer vectors, so an edge costs what it computes. */
#include "matvec_body.h"
#include "pack_body.h"
#include "roof_body.h"
#include "small_body.h"

enum { NV = NR / VL };

_Static_assert(NR % VL == 0 && MR <= MAX_MR, "NR is a multiple of the vector, MR at most MAX_MR");
_Static_assert(NR <= MAX_NR && NR * sizeof(T) <= MAX_NR_BYTES, "NR does not fit the drivers");

/* C is not needed before the end, and then at once. */
INLINE void prefetch_c(const int mr, const tile *t) {
  const char *c = t->c;
#pragma GCC unroll 16
  for (int i = 0; i < mr; i++) {
#pragma GCC unroll 4
    for (size_t at = 0; at < NR * sizeof(T); at += CACHE_LINE) __builtin_prefetch(c + at, 1);
    __builtin_prefetch(c + (NR * sizeof(T) - 1), 1); /* a row need not begin a cache line */
    c += t->rs_c * (ptrdiff_t)sizeof(T);
  }
}

INLINE void store_row(const int nv, const bool masked, M mask, V acc[NV], const tile *t, int i) {
  T *c = (T *)t->c + i * t->rs_c;
  const V alpha = vset1((T)t->alpha), beta = vset1((T)t->beta);
#pragma GCC unroll 4
  for (int j = 0; j < nv; j++) {
    bool part = masked && j == nv - 1;
    V v = vmul(alpha, acc[j]);
    if (t->beta != 0) v = vfma(beta, part ? vload_m(c + j * VL, mask) : vload(c + j * VL), v);
    if (part)
      vstore_m(c + j * VL, v, mask);
    else
      vstore(c + j * VL, v);
  }
}

INLINE void body(const int mr, const int nv, const bool masked, const bool packed, const tile *t) {
  const ptrdiff_t rs_a = packed ? 1 : t->rs_a, cs_a = packed ? MR : t->cs_a;
  const ptrdiff_t rs_b = packed ? NR : t->rs_b;
  const M mask = vmask(t->n - (nv - 1) * VL);
  const T *a[(MR + 2) / 3], *b = t->b;
  V acc[MR][NV];
#pragma GCC unroll 16
  for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
    for (int j = 0; j < nv; j++) acc[i][j] = vzero();
  /* One pointer for three rows: with one each, 14 rows would not fit the integer registers. */
#pragma GCC unroll 16
  for (int g = 0; g < (mr + 2) / 3; g++) a[g] = (const T *)t->a + 3 * g * rs_a;
  prefetch_c(mr, t);
  for (ptrdiff_t p = 0; p < t->k; p++) {
    V bv[NV];
#pragma GCC unroll 4
    for (int j = 0; j < nv; j++)
      bv[j] = masked && j == nv - 1 ? vload_m(b + j * VL, mask) : vload(b + j * VL);
    b += rs_b;
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++) {
      const V av = vset1(a[i / 3][i % 3 * rs_a]);
#pragma GCC unroll 4
      for (int j = 0; j < nv; j++) acc[i][j] = vfma(av, bv[j], acc[i][j]);
    }
#pragma GCC unroll 16
    for (int g = 0; g < (mr + 2) / 3; g++) a[g] += cs_a;
  }
#pragma GCC unroll 16
  for (int i = 0; i < mr; i++) store_row(nv, masked, mask, acc[i], t, i);
}

INLINE void rows(const int nv, const bool masked, const tile *t) {
  switch (t->m) {
#define CASE(i)                                                                                    \
  case i:                                                                                          \
    if (i <= MR) body(i <= MR ? i : MR, nv, masked, false, t);                                     \
    return
    CASE(1);
    CASE(2);
    CASE(3);
    CASE(4);
    CASE(5);
    CASE(6);
    CASE(7);
    CASE(8);
    CASE(9);
    CASE(10);
    CASE(11);
    CASE(12);
    CASE(13);
    CASE(14);
    CASE(15);
    CASE(16);
#undef CASE
  }
}

INLINE void vectors(const int nv, const tile *t) {
  if (!MASKS_ARE_FREE && t->n == nv * VL)
    rows(nv, false, t);
  else
    rows(nv, true, t);
}

static void multiply(const tile *t) {
  if (t->m == MR && t->n == NR && t->rs_a == 1 && t->cs_a == MR && t->rs_b == NR)
    body(MR, NV, false, true, t);
  else if (NV == 1 || t->n <= VL)
    vectors(1, t);
  else if (NV == 2 || t->n <= 2 * VL)
    vectors(NV < 2 ? NV : 2, t);
  else if (NV == 3 || t->n <= 3 * VL)
    vectors(NV < 3 ? NV : 3, t);
  else
    vectors(NV, t);
}

#define KERNEL(id, set, element)                                                                   \
  const kernel id = {.name = #id,                                                                  \
                     .isa = #set,                                                                  \
                     .type = element,                                                              \
                     .mr = MR,                                                                     \
                     .nr = NR,                                                                     \
                     .size = sizeof(T),                                                            \
                     .multiply = multiply,                                                         \
                     .pack_a = pack_width_mr,                                                      \
                     .pack_b = pack_width_nr,                                                      \
                     .dot_rows = dot_rows,                                                         \
                     .add_columns = add_columns,                                                   \
                     .fma_chains = fma_chains,                                                     \
                     .read_sum = read_sum,                                                         \
                     .multiply_small = multiply_small,                                             \
                     .multiply_batch = multiply_batch}
