/* Eight doubles, AVX-512F. See vec_avx512_f32.h for what each name means. */
#ifndef VEC_H
#define VEC_H
#define VECTOR_REGISTERS 32
#define MASKS_ARE_FREE   1
#define HALF_VEC(x)      half_##x
#define LEAST_VEC(x)     least_##x

#include "turn_256.h"

#include <immintrin.h>
#include <stddef.h>

typedef double T;
typedef __m512d V;
typedef __mmask8 M;

enum { VL = 8 };

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

/* Element i of the result is the sum of r[i]: neighbours are added inside the 128-bit lanes, then the lanes. */
static inline V vadd_neighbours(V a, V b) {
  return _mm512_add_pd(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
}
static inline V vadd_lanes(V a, V b) {
  return _mm512_add_pd(_mm512_shuffle_f64x2(a, b, 0x88), _mm512_shuffle_f64x2(a, b, 0xdd));
}
static inline V vsums(const V r[VL]) {
  V twos[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) twos[i] = vadd_neighbours(r[2 * i], r[2 * i + 1]);
  return vadd_lanes(vadd_lanes(twos[0], twos[1]), vadd_lanes(twos[2], twos[3]));
}

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

/* The same, as far as small products need it, for 4 and for 2: a vector no longer than a short row does not
 * cross the cache lines that the row does not cross. */
typedef __m256d half_V;
typedef __m128d least_V;
typedef __mmask8 half_M;
typedef __mmask8 least_M;

enum { HALF = 4, LEAST = 2 };

static inline half_V half_vzero(void) { return _mm256_setzero_pd(); }
static inline half_V half_vset1(T x) { return _mm256_set1_pd(x); }
static inline half_V half_vfma(half_V a, half_V b, half_V c) { return _mm256_fmadd_pd(a, b, c); }
static inline half_V half_vmul(half_V a, half_V b) { return _mm256_mul_pd(a, b); }
static inline half_V half_vload(const T *p) { return _mm256_loadu_pd(p); }
static inline void half_vstore(T *p, half_V v) { _mm256_storeu_pd(p, v); }
static inline half_M half_vmask(ptrdiff_t n) { return (half_M)((1u << n) - 1); }
static inline half_V half_vload_m(const T *p, half_M mask) {
  return _mm256_maskz_loadu_pd(mask, p);
}
static inline void half_vstore_m(T *p, half_V v, half_M mask) { _mm256_mask_storeu_pd(p, mask, v); }

static inline void half_vtranspose(half_V r[4]) { turn_4_f64(r); }

static inline least_V least_vzero(void) { return _mm_setzero_pd(); }
static inline least_V least_vset1(T x) { return _mm_set1_pd(x); }
static inline least_V least_vfma(least_V a, least_V b, least_V c) { return _mm_fmadd_pd(a, b, c); }
static inline least_V least_vmul(least_V a, least_V b) { return _mm_mul_pd(a, b); }
static inline least_V least_vload(const T *p) { return _mm_loadu_pd(p); }
static inline void least_vstore(T *p, least_V v) { _mm_storeu_pd(p, v); }
static inline least_M least_vmask(ptrdiff_t n) { return (least_M)((1u << n) - 1); }
static inline least_V least_vload_m(const T *p, least_M mask) {
  return _mm_maskz_loadu_pd(mask, p);
}
static inline void least_vstore_m(T *p, least_V v, least_M mask) { _mm_mask_storeu_pd(p, mask, v); }

#endif
