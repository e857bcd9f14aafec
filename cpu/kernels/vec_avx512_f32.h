/* Sixteen floats, AVX-512F. The vocabulary that every vec_*.h offers, and the bodies are written in:
 *
 * T element, V vector of VL of them, M mask; vmask(n) selects the first n lanes (n >= VL: all);
 * vload_m and vstore_m touch no memory outside the mask, and load zeros there;
 * vload_n and vstore_n are the same for a constant n <= VL; vtranspose works on VL x VL in place;
 * MASKS_ARE_FREE says that a masked load costs what a plain one does.
 */
#ifndef VEC_H
#define VEC_H
#define VECTOR_REGISTERS 32
#define MASKS_ARE_FREE   1
#define HALF_VEC(x)      half_##x
#define LEAST_VEC(x)     least_##x

#include "turn_256.h"

#include <immintrin.h>
#include <stddef.h>

typedef float T;
typedef __m512 V;
typedef __mmask16 M;

enum { VL = 16 };

static inline V vzero(void) { return _mm512_setzero_ps(); }
static inline V vset1(T x) { return _mm512_set1_ps(x); }
static inline V vfma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
static inline V vmul(V a, V b) { return _mm512_mul_ps(a, b); }
static inline V vload(const T *p) { return _mm512_loadu_ps(p); }
static inline void vstore(T *p, V v) { _mm512_storeu_ps(p, v); }
static inline M vmask(ptrdiff_t n) { return n >= VL ? (M)0xffff : (M)((1u << n) - 1); }
static inline V vload_m(const T *p, M mask) { return _mm512_maskz_loadu_ps(mask, p); }
static inline void vstore_m(T *p, V v, M mask) { _mm512_mask_storeu_ps(p, mask, v); }
static inline V vload_n(const T *p, const int n) {
  return n == VL ? vload(p) : vload_m(p, vmask(n));
}
static inline void vstore_n(T *p, V v, const int n) {
  if (n == VL)
    vstore(p, v);
  else
    vstore_m(p, v, vmask(n));
}
static inline T vsum(V v) { return _mm512_reduce_add_ps(v); }

/* Element i of the result is the sum of r[i]: neighbours are added inside the 128-bit lanes, then the lanes. */
static inline V vadd_neighbours(V a, V b) {
  return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}
static inline V vadd_lanes(V a, V b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}
static inline V vsums(const V r[VL]) {
  V fours[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
    fours[i] = vadd_neighbours(vadd_neighbours(r[4 * i], r[4 * i + 1]),
                               vadd_neighbours(r[4 * i + 2], r[4 * i + 3]));
  return vadd_lanes(vadd_lanes(fours[0], fours[1]), vadd_lanes(fours[2], fours[3]));
}

/* Pairs of rows, then of pairs, inside the 128-bit lanes; then the 4 x 4 lanes themselves. */
static inline void vtranspose(V r[16]) {
  V t[16], u[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4) {
    u[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
    u[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 4; i++) {
    V x0 = _mm512_shuffle_f32x4(u[i], u[i + 4], 0x44);
    V x1 = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0x44);
    V x2 = _mm512_shuffle_f32x4(u[i], u[i + 4], 0xee);
    V x3 = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0xee);
    r[i] = _mm512_shuffle_f32x4(x0, x1, 0x88);
    r[i + 4] = _mm512_shuffle_f32x4(x0, x1, 0xdd);
    r[i + 8] = _mm512_shuffle_f32x4(x2, x3, 0x88);
    r[i + 12] = _mm512_shuffle_f32x4(x2, x3, 0xdd);
  }
}

/* The same, as far as small products need it, for 8 and for 4: a vector no longer than a short row does not
 * cross the cache lines that the row does not cross. */
typedef __m256 half_V;
typedef __m128 least_V;
typedef __mmask8 half_M;
typedef __mmask8 least_M;

enum { HALF = 8, LEAST = 4 };

static inline half_V half_vzero(void) { return _mm256_setzero_ps(); }
static inline half_V half_vset1(T x) { return _mm256_set1_ps(x); }
static inline half_V half_vfma(half_V a, half_V b, half_V c) { return _mm256_fmadd_ps(a, b, c); }
static inline half_V half_vmul(half_V a, half_V b) { return _mm256_mul_ps(a, b); }
static inline half_V half_vload(const T *p) { return _mm256_loadu_ps(p); }
static inline void half_vstore(T *p, half_V v) { _mm256_storeu_ps(p, v); }
static inline half_M half_vmask(ptrdiff_t n) { return (half_M)((1u << n) - 1); }
static inline half_V half_vload_m(const T *p, half_M mask) {
  return _mm256_maskz_loadu_ps(mask, p);
}
static inline void half_vstore_m(T *p, half_V v, half_M mask) { _mm256_mask_storeu_ps(p, mask, v); }

static inline void half_vtranspose(half_V r[8]) { turn_8_f32(r); }

static inline least_V least_vzero(void) { return _mm_setzero_ps(); }
static inline least_V least_vset1(T x) { return _mm_set1_ps(x); }
static inline least_V least_vfma(least_V a, least_V b, least_V c) { return _mm_fmadd_ps(a, b, c); }
static inline least_V least_vmul(least_V a, least_V b) { return _mm_mul_ps(a, b); }
static inline least_V least_vload(const T *p) { return _mm_loadu_ps(p); }
static inline void least_vstore(T *p, least_V v) { _mm_storeu_ps(p, v); }
static inline least_M least_vmask(ptrdiff_t n) { return (least_M)((1u << n) - 1); }
static inline least_V least_vload_m(const T *p, least_M mask) {
  return _mm_maskz_loadu_ps(mask, p);
}
static inline void least_vstore_m(T *p, least_V v, least_M mask) { _mm_mask_storeu_ps(p, mask, v); }

#endif
