/* The micro-kernel, written once over vec_*.h: a micro-tile of MR rows by NV vectors stays in
 * registers while k runs; each step multiplies a column of A, broadcast, by a row of B.
 *
 * Whole tiles of micro-panels have their strides fixed at compile time. Edges get bodies of their own for
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

INLINE void body(const int mr, const int nv, const bool masked, const tile *t) {
  const ptrdiff_t rs_a = t->rs_a, cs_a = t->cs_a, rs_b = t->rs_b;
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

/* Rows that will be needed soon, `count` of them. */
typedef struct {
  const char *at;
  ptrdiff_t step, count;
} stream;

enum { LINES = (NR * sizeof(T) + CACHE_LINE - 1) / CACHE_LINE };

INLINE void packed_step(const T *a, const T *b, V acc[MR][NV]) {
  V bv[NV];
#pragma GCC unroll 4
  for (int j = 0; j < NV; j++) bv[j] = vload(b + j * VL);
#pragma GCC unroll 16
  for (int i = 0; i < MR; i++) {
    const V av = vset1(a[i]);
#pragma GCC unroll 4
    for (int j = 0; j < NV; j++) acc[i][j] = vfma(av, bv[j], acc[i][j]);
  }
}

/* PREFETCH_STEPS steps with the prefetch of a row among them, into the second level. All at once they wait for
 * each other in the line fill buffers, and the loads behind them too. A row that begins inside a line: its
 * first line came with the row to its left. */
INLINE void packed_steps(const T *a, const T *b, const char *ahead, V acc[MR][NV]) {
#pragma GCC unroll 8
  for (int s = 0; s < PREFETCH_STEPS; s++) {
    packed_step(a + s * MR, b + s * NR, acc);
    if (s % (PREFETCH_STEPS / 4) == 0 && s / (PREFETCH_STEPS / 4) < LINES)
      __builtin_prefetch(ahead + CACHE_LINE - 1 + s / (PREFETCH_STEPS / 4) * CACHE_LINE, 0, 2);
  }
}

INLINE void packed_store(const tile *t, V acc[MR][NV]) {
  const V alpha = vset1((T)t->alpha), beta = vset1((T)t->beta);
  const bool add = t->beta != 0;
  T *c = t->c;
  if (add) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++, c += t->rs_c)
#pragma GCC unroll 4
      for (int j = 0; j < NV; j++)
        vstore(c + j * VL, vfma(beta, vload(c + j * VL), vmul(alpha, acc[i][j])));
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++, c += t->rs_c)
#pragma GCC unroll 4
      for (int j = 0; j < NV; j++) vstore(c + j * VL, vmul(alpha, acc[i][j]));
  }
}

/* A whole tile of packed micro-panels. Meanwhile the tile of C comes near, then what `ahead` says. */
static void multiply_packed(const tile *t) {
  const T *a = t->a, *b = t->b;
  const ptrdiff_t rounds = t->k / PREFETCH_STEPS;
  const ptrdiff_t rows_c = min_of(MR, rounds), rows_ahead = min_of(t->ahead_rows, rounds - rows_c);
  const stream streams[] = {{t->c, t->rs_c * (ptrdiff_t)sizeof(T), rows_c},
                            {rows_ahead ? t->ahead : t->c, t->ahead_step, rows_ahead},
                            {t->c, 0, rounds - rows_c - rows_ahead}};
  V acc[MR][NV];
#pragma GCC unroll 16
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
    for (int j = 0; j < NV; j++) acc[i][j] = vzero();
#pragma GCC unroll 1
  for (int s = 0; s < 3; s++) {
    stream now = streams[s];
#pragma GCC unroll 1
    for (; now.count > 0; now.count--, now.at += now.step) {
      packed_steps(a, b, now.at, acc);
      a += PREFETCH_STEPS * MR, b += PREFETCH_STEPS * NR;
    }
  }
#pragma GCC unroll 1
  for (ptrdiff_t left = t->k % PREFETCH_STEPS; left > 0; left--, a += MR, b += NR)
    packed_step(a, b, acc);
  packed_store(t, acc);
}

INLINE void rows(const int nv, const bool masked, const tile *t) {
  switch (t->m) {
#define CASE(i)                                                                                    \
  case i:                                                                                          \
    if (i <= MR) body(i <= MR ? i : MR, nv, masked, t);                                            \
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
    multiply_packed(t);
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
                     .kc = KC,                                                                     \
                     .parts_in_place = PARTS_IN_PLACE,                                             \
                     .mc_growth = MC_GROWTH,                                                       \
                     .panel_in_l1 = PANEL_IN_L1,                                                   \
                     .far_streams = FAR_STREAMS,                                                   \
                     .multiply = multiply,                                                         \
                     .pack_a = pack_width_mr,                                                      \
                     .pack_b = pack_width_nr,                                                      \
                     .dot_rows = dot_rows,                                                         \
                     .add_columns = add_columns,                                                   \
                     .fma_chains = fma_chains,                                                     \
                     .read_sum = read_sum,                                                         \
                     .multiply_small = multiply_small,                                             \
                     .multiply_batch = multiply_batch}
