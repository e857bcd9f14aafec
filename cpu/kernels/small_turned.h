/* Tiles of a tiny product whose B has contiguous columns: LANES x LANES blocks of it are transposed in registers.
 * Included once for each vector width, as small_tile.h. */

/* Rows p to p + LANES of columns 0 to n; zeros beyond n and k. */
INLINE void TILE(turned_rows)(const gemm_call *g, const T *b, ptrdiff_t left, ptrdiff_t n,
                              VEC(V) bv[LANES]) {
  const VEC(M) steps = VEC(vmask)(left < LANES ? left : LANES);
#pragma GCC unroll 16
  for (int j = 0; j < LANES; j++)
    if (j >= n)
      bv[j] = VEC(vzero)();
    else if (left >= LANES)
      bv[j] = VEC(vload)(b + j * g->cs_b);
    else
      bv[j] = VEC(vload_m)(b + j * g->cs_b, steps);
  VEC(vtranspose)(bv);
}

INLINE void TILE(turned_store)(const int mr, const gemm_call *g, T *c, ptrdiff_t n,
                               VEC(V) acc[POINTERS]) {
  const VEC(M) mask = VEC(vmask)(n);
  const T alpha = (T)g->alpha, beta = (T)g->beta;
#pragma GCC unroll 8
  for (int i = 0; i < mr; i++, c += g->rs_c) {
    VEC(V) v = VEC(vmul)(VEC(vset1)(alpha), acc[i]);
    if (beta != 0)
      v = VEC(vfma)(VEC(vset1)(beta), n < LANES ? VEC(vload_m)(c, mask) : VEC(vload)(c), v);
    if (n < LANES)
      VEC(vstore_m)(c, v, mask);
    else
      VEC(vstore)(c, v);
  }
}

INLINE void TILE(turned)(const int mr, const gemm_call *g, const T *a0, const T *b, T *c,
                         ptrdiff_t n) {
  const ptrdiff_t cs_a = g->cs_a * (ptrdiff_t)sizeof(T);
  rows_at a = rows_from(mr, true, a0, g->rs_a * (ptrdiff_t)sizeof(T));
  VEC(V) acc[POINTERS], bv[LANES];
#pragma GCC unroll 8
  for (int i = 0; i < mr; i++) acc[i] = VEC(vzero)();
  for (ptrdiff_t left = g->k; left > 0; left -= LANES, b += LANES) {
    TILE(turned_rows)(g, b, left, n, bv);
#pragma GCC unroll 16
    for (int s = 0; s < LANES; s++) {
      if (s >= left) break;
#pragma GCC unroll 8
      for (int i = 0; i < mr; i++)
        acc[i] = VEC(vfma)(VEC(vset1)(*(const T *)row_of(true, &a, i)), bv[s], acc[i]);
      rows_advance(mr, true, &a, cs_a);
    }
  }
  TILE(turned_store)(mr, g, c, n, acc);
}

#define TURNED(mr, nv)                                                                             \
  static void TILE(turned_##mr)(const gemm_call *g, const T *a, const T *b, T *c, ptrdiff_t n) {   \
    TILE(turned)(mr, g, a, b, c, n);                                                               \
  }
#define TURNED_NAME(mr, nv) TILE(turned_##mr),
UP_TO_8(TURNED, 1)
static rows_fn *const TILE(turned_tiles)[POINTERS] = {UP_TO_8(TURNED_NAME, 1)};

#undef TURNED
#undef TURNED_NAME
#undef VEC
#undef TILE
#undef LANES
