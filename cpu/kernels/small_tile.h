/* One tile of a small product, A, B and C read where they lie. Included once for each vector width: VEC(x) is
 * the vocabulary of vec_*.h at that width, LANES its length, TILE(x) a name of its own.
 *
 * Columns that fill no vector: with EDGE_MASKS the last vector is masked; else it begins at n - LANES and
 * makes some columns twice (n >= LANES): a masked load takes a slot from the multiplications on Intel (5 % of
 * 64 x 64 x 64), a masked store 6 to 12 cycles on AMD. */

INLINE VEC(V) TILE(load)(const bool edge, const T *from, int j, ptrdiff_t last, VEC(M) mask) {
  if (!edge) return VEC(vload)(from + j * LANES);
  return EDGE_MASKS ? VEC(vload_m)(from + j * LANES, mask) : VEC(vload)(from + last);
}

INLINE void TILE(put)(const bool edge, T *to, int j, ptrdiff_t last, VEC(M) mask, VEC(V) v) {
  if (!edge)
    VEC(vstore)(to + j * LANES, v);
  else if (EDGE_MASKS)
    VEC(vstore_m)(to + j * LANES, v, mask);
  else
    VEC(vstore)(to + last, v);
}

/* One step of k: a row of B times a column of A. */
INLINE void TILE(step)(const int mr, const int nv, const rows_at *a, ptrdiff_t at_a, const char *b,
                       ptrdiff_t last, VEC(M) mask, VEC(V) acc[MAX_TALL][MAX_WIDE]) {
  const bool each = EACH(mr, nv);
  VEC(V) bv[MAX_WIDE];
#pragma GCC unroll 4
  for (int j = 0; j < nv; j++) bv[j] = TILE(load)(j == nv - 1, (const T *)b, j, last, mask);
#pragma GCC unroll 16
  for (int i = 0; i < mr; i++) {
    const VEC(V) av = VEC(vset1)(*((const T *)row_of(each, a, i) + at_a));
#pragma GCC unroll 4
    for (int j = 0; j < nv; j++) acc[i][j] = VEC(vfma)(av, bv[j], acc[i][j]);
  }
}

INLINE void TILE(store)(const int mr, const int nv, const gemm_call *g, T *c, ptrdiff_t last,
                        VEC(M) mask, VEC(V) acc[MAX_TALL][MAX_WIDE]) {
  const bool each = EACH(mr, nv);
  const rows_at rows = rows_from(mr, each, c, g->rs_c * (ptrdiff_t)sizeof(T));
  if (!same_bits(g->alpha, 1)) {
    const T alpha = (T)g->alpha;
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
      for (int j = 0; j < nv; j++) acc[i][j] = VEC(vmul)(VEC(vset1)(alpha), acc[i][j]);
  }
  const T beta = same_bits(g->beta, 0) ? 0 : (T)g->beta;
  if (!same_bits(g->beta, 0) && beta != 0)
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
      for (int j = 0; j < nv; j++)
        acc[i][j] = VEC(vfma)(
            VEC(vset1)(beta),
            TILE(load)(j == nv - 1, (const T *)row_of(each, &rows, i), j, last, mask), acc[i][j]);
#pragma GCC unroll 16
  for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
    for (int j = 0; j < nv; j++)
      TILE(put)(j == nv - 1, (T *)row_of(each, &rows, i), j, last, mask, acc[i][j]);
}

INLINE void TILE(rows)(const int mr, const int nv, const bool unit, const gemm_call *g, const T *a0,
                       const T *b0, T *c, ptrdiff_t n) {
  const ptrdiff_t rs_b = g->rs_b * (ptrdiff_t)sizeof(T), last = n - LANES;
  const ptrdiff_t cs_a = unit ? (ptrdiff_t)sizeof(T) : g->cs_a * (ptrdiff_t)sizeof(T);
  const VEC(M) mask = VEC(vmask)(n - (nv - 1) * LANES);
  const bool each = EACH(mr, nv);
  const char *b = (const char *)b0;
  rows_at a = rows_from(mr, each, a0, g->rs_a * (ptrdiff_t)sizeof(T));
  VEC(V) acc[MAX_TALL][MAX_WIDE];
#pragma GCC unroll 16
  for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
    for (int j = 0; j < nv; j++) acc[i][j] = VEC(vzero)();
  ptrdiff_t p = g->k;
  for (; unit && p >= K_STEPS; p -= K_STEPS) {
#pragma GCC unroll 4
    for (int s = 0; s < K_STEPS; s++) {
      TILE(step)(mr, nv, &a, s, b, last, mask, acc);
      b += rs_b;
      AS_IT_IS(b);
    }
    rows_advance(mr, each, &a, K_STEPS * sizeof(T));
  }
  AS_IT_IS(p);
#pragma GCC unroll 1
  for (; p > 0; p--) {
    TILE(step)(mr, nv, &a, 0, b, last, mask, acc);
    b += rs_b;
    rows_advance(mr, each, &a, cs_a);
  }
  TILE(store)(mr, nv, g, c, last, mask, acc);
}

/* A function for every shape that the registers hold, of rows that are contiguous and of others. */
#define SMALL_TILE(mr, nv)                                                                         \
  static void TILE(unit_##mr##x##nv)(const gemm_call *g, const T *a, const T *b, T *c,             \
                                     ptrdiff_t n) {                                                \
    TILE(rows)(mr, nv, true, g, a, b, c, n);                                                       \
  }                                                                                                \
  static void TILE(any_##mr##x##nv)(const gemm_call *g, const T *a, const T *b, T *c,              \
                                    ptrdiff_t n) {                                                 \
    TILE(rows)(mr, nv, false, g, a, b, c, n);                                                      \
  }

#define UNIT(mr, nv) TILE(unit_##mr##x##nv),
#define ANY(mr, nv)  TILE(any_##mr##x##nv),

ONE_WIDE(SMALL_TILE)
#if WIDEST > 1
TWO_WIDE(SMALL_TILE)
#endif
#if WIDEST > 2
THREE_WIDE(SMALL_TILE)
#endif

static const shapes TILE(shapes)[] = {
    {TALL_ONE, {ONE_WIDE(ANY)}, {ONE_WIDE(UNIT)}},
#if WIDEST > 1
    {TALL_TWO, {TWO_WIDE(ANY)}, {TWO_WIDE(UNIT)}},
#endif
#if WIDEST > 2
    {TALL_THREE, {THREE_WIDE(ANY)}, {THREE_WIDE(UNIT)}},
#endif
};

#undef SMALL_TILE
#undef UNIT
#undef ANY
#undef VEC
#undef TILE
#undef LANES
#undef EDGE_MASKS
#undef WIDEST
