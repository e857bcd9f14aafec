/* Eight doubles, AVX-512F. See vec_avx512_f32.h for what each name means. */
#ifndef VEC_H
#define VEC_H

#include <immintrin.h>
#include <stddef.h>

typedef double T;
typedef __m512d V;
typedef __mmask8 M;

enum { VL = 8, MASKS_ARE_FREE = 1 };

static inline V vzero(void) { return _mm512_setzero_pd(); }
static inline V vset1(T x) { return _mm512_set1_pd(x); }
static inline V vfma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
static inline V vmul(V a, V b) { return _mm512_mul_pd(a, b); }
static inline V vload(const T *p) { return _mm512_loadu_pd(p); }
static inline void vstore(T *p, V v) { _mm512_storeu_pd(p, v); }
static inline M vmask(ptrdiff_t n) { return n >= VL ? (M)0xff : (M)((1u << n) - 1); }
static inline V vload_m(const T *p, M mask) { return _mm512_maskz_loadu_pd(mask, p); }
static inline void vstore_m(T *p, V v, M mask) { _mm512_mask_storeu_pd(p, mask, v); }
static inline V vload_n(const T *p, const int n) {
  return n == VL ? vload(p) : vload_m(p, vmask(n));
}
static inline void vstore_n(T *p, V v, const int n) {
  if (n == VL)
    vstore(p, v);
  else
    vstore_m(p, v, vmask(n));
}
static inline T vsum(V v) { return _mm512_reduce_add_pd(v); }

static inline void vtranspose(V r[8]) {
  V t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 2; i++) {
    V x0 = _mm512_shuffle_f64x2(t[i], t[i + 2], 0x44);
    V x1 = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0x44);
    V x2 = _mm512_shuffle_f64x2(t[i], t[i + 2], 0xee);
    V x3 = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0xee);
    r[i] = _mm512_shuffle_f64x2(x0, x1, 0x88);
    r[i + 2] = _mm512_shuffle_f64x2(x0, x1, 0xdd);
    r[i + 4] = _mm512_shuffle_f64x2(x2, x3, 0x88);
    r[i + 6] = _mm512_shuffle_f64x2(x2, x3, 0xdd);
  }
}

#endif
