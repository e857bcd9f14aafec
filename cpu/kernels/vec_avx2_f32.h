/* Eight floats, AVX2 and FMA. See vec_avx512_f32.h for what each name means. */
#ifndef VEC_H
#define VEC_H
#define VECTOR_REGISTERS 16
#define MASKS_ARE_FREE   0
#define HALF_VEC(x)      half_##x
#define LEAST_VEC(x)     half_##x

#include "turn_256.h"

#include <immintrin.h>
#include <stddef.h>

typedef float T;
typedef __m256 V;
typedef __m256i M;

enum { VL = 8 };

static inline V vzero(void) { return _mm256_setzero_ps(); }
static inline V vset1(T x) { return _mm256_set1_ps(x); }
static inline V vfma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
static inline V vmul(V a, V b) { return _mm256_mul_ps(a, b); }
static inline V vload(const T *p) { return _mm256_loadu_ps(p); }
static inline void vstore(T *p, V v) { _mm256_storeu_ps(p, v); }

static inline M vmask(ptrdiff_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n < VL ? n : VL)), lane);
}

static inline V vload_m(const T *p, M mask) { return _mm256_maskload_ps(p, mask); }
static inline void vstore_m(T *p, V v, M mask) { _mm256_maskstore_ps(p, mask, v); }

static inline V vload_n(const T *p, const int n) {
  return n == VL ? vload(p) : vload_m(p, vmask(n));
}

/* No maskstore where two plain stores do: on AMD it takes 6 to 12 cycles. */
static inline void vstore_n(T *p, V v, const int n) {
  if (n == VL) {
    vstore(p, v);
  } else if (n == 6) {
    _mm_storeu_ps(p, _mm256_castps256_ps128(v));
    _mm_storel_pi((__m64 *)(p + 4), _mm256_extractf128_ps(v, 1));
  } else {
    vstore_m(p, v, vmask(n));
  }
}

static inline T vsum(V v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* Element i of the result is the sum of r[i]. */
static inline V vsums(const V r[VL]) {
  const V low = _mm256_hadd_ps(_mm256_hadd_ps(r[0], r[1]), _mm256_hadd_ps(r[2], r[3]));
  const V high = _mm256_hadd_ps(_mm256_hadd_ps(r[4], r[5]), _mm256_hadd_ps(r[6], r[7]));
  return _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20),
                       _mm256_permute2f128_ps(low, high, 0x31));
}

static inline void vtranspose(V r[8]) { turn_8_f32(r); }

/* The same, as far as small products need it, for 4. */
typedef __m128 half_V;
typedef __m128i half_M;

enum { HALF = 4, LEAST = 4 };

static inline half_V half_vzero(void) { return _mm_setzero_ps(); }
static inline half_V half_vset1(T x) { return _mm_set1_ps(x); }
static inline half_V half_vfma(half_V a, half_V b, half_V c) { return _mm_fmadd_ps(a, b, c); }
static inline half_V half_vmul(half_V a, half_V b) { return _mm_mul_ps(a, b); }
static inline half_V half_vload(const T *p) { return _mm_loadu_ps(p); }
static inline void half_vstore(T *p, half_V v) { _mm_storeu_ps(p, v); }
static inline half_M half_vmask(ptrdiff_t n) {
  return _mm_cmpgt_epi32(_mm_set1_epi32((int)n), _mm_setr_epi32(0, 1, 2, 3));
}
static inline half_V half_vload_m(const T *p, half_M mask) { return _mm_maskload_ps(p, mask); }
static inline void half_vstore_m(T *p, half_V v, half_M mask) { _mm_maskstore_ps(p, mask, v); }
static inline void half_vtranspose(half_V r[4]) { _MM_TRANSPOSE4_PS(r[0], r[1], r[2], r[3]); }

#endif
