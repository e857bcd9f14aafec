/* Packing into micro-panels, written once over vec_*.h: copies where the panel's width is contiguous
 * in memory, transposes VL x VL blocks in registers where its length is, and picks single elements
 * for other strides. */
#include "../internal.h"

#define PACK_INLINE static inline __attribute__((always_inline))

/* ws == 1: every step copies `valid` neighbours. */
PACK_INLINE void pack_copy(const int width, ptrdiff_t valid, ptrdiff_t k, const T *src,
                           ptrdiff_t ks, T *dst) {
  if (valid == width) {
    for (ptrdiff_t p = 0; p < k; p++, src += ks, dst += width)
#pragma GCC unroll 8
      for (int w = 0; w < width; w += VL) {
        const int n = width - w < VL ? width - w : VL;
        vstore_n(dst + w, vload_n(src + w, n), n);
      }
    return;
  }
  for (ptrdiff_t p = 0; p < k; p++, src += ks, dst += width)
    for (ptrdiff_t w = 0; w < valid; w++) dst[w] = src[w];
}

/* One VL x `steps` block of `lanes` strips; strips beyond `valid` repeat the last one. */
PACK_INLINE void pack_block(const int width, const int lanes, const bool whole, ptrdiff_t valid,
                            ptrdiff_t steps, const T *src, ptrdiff_t ws, T *dst) {
  V r[VL];
  const M mask = vmask(steps);
#pragma GCC unroll 16
  for (int i = 0; i < VL; i++) {
    const T *row = src + min_of(i, valid - 1) * ws;
    r[i] = whole ? vload(row) : vload_m(row, mask);
  }
  vtranspose(r);
#pragma GCC unroll 16
  for (int i = 0; i < VL; i++)
    if (whole || i < steps) vstore_n(dst + i * width, r[i], lanes);
}

/* ks == 1: every strip is contiguous. */
PACK_INLINE void pack_transposed(const int width, ptrdiff_t valid, ptrdiff_t k, const T *src,
                                 ptrdiff_t ws, T *dst) {
  ptrdiff_t p = 0;
  for (; p < k; p += VL)
#pragma GCC unroll 8
    for (int w = 0; w < width; w += VL) {
      const int lanes = width - w < VL ? width - w : VL;
      if (w >= valid) continue;
      const T *s = src + w * ws + p;
      T *d = dst + p * width + w;
      if (k - p >= VL)
        pack_block(width, lanes, true, valid - w, VL, s, ws, d);
      else
        pack_block(width, lanes, false, valid - w, k - p, s, ws, d);
    }
}

PACK_INLINE void pack_any(const int width, ptrdiff_t valid, ptrdiff_t k, const T *src, ptrdiff_t ws,
                          ptrdiff_t ks, T *dst) {
  for (ptrdiff_t p = 0; p < k; p++)
    for (ptrdiff_t w = 0; w < valid; w++) dst[p * width + w] = src[w * ws + p * ks];
}

PACK_INLINE void pack_width(const int width, ptrdiff_t valid, ptrdiff_t k, const void *src,
                            ptrdiff_t ws, ptrdiff_t ks, void *dst) {
  if (ws == 1)
    pack_copy(width, valid, k, src, ks, dst);
  else if (ks == 1)
    pack_transposed(width, valid, k, src, ws, dst);
  else
    pack_any(width, valid, k, src, ws, ks, dst);
}

static void pack_width_mr(ptrdiff_t valid, ptrdiff_t k, const void *src, ptrdiff_t ws, ptrdiff_t ks,
                          void *dst) {
  pack_width(MR, valid, k, src, ws, ks, dst);
}

static void pack_width_nr(ptrdiff_t valid, ptrdiff_t k, const void *src, ptrdiff_t ws, ptrdiff_t ks,
                          void *dst) {
  pack_width(NR, valid, k, src, ws, ks, dst);
}
