/* Four doubles, AVX2 and FMA. See vec_avx512_f32.h for what each name means. */
#ifndef VEC_H
#define VEC_H
#define VECTOR_REGISTERS 16
#define MASKS_ARE_FREE   0
#define HALF_VEC(x)      half_##x
#define LEAST_VEC(x)     half_##x

#include "turn_256.h"

#include <immintrin.h>
#include <stddef.h>

typedef double T;
typedef __m256d V;
typedef __m256i M;

enum { VL = 4 };

static inline V vzero(void) { return _mm256_setzero_pd(); }
static inline V vset1(T x) { return _mm256_set1_pd(x); }
static inline V vfma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
static inline V vmul(V a, V b) { return _mm256_mul_pd(a, b); }
static inline V vload(const T *p) { return _mm256_loadu_pd(p); }
static inline void vstore(T *p, V v) { _mm256_storeu_pd(p, v); }

static inline M vmask(ptrdiff_t n) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}

static inline V vload_m(const T *p, M mask) { return _mm256_maskload_pd(p, mask); }
static inline void vstore_m(T *p, V v, M mask) { _mm256_maskstore_pd(p, mask, v); }

static inline V vload_n(const T *p, const int n) {
  if (n == 2) return _mm256_castpd128_pd256(_mm_loadu_pd(p));
  return n == VL ? vload(p) : vload_m(p, vmask(n));
}

static inline void vstore_n(T *p, V v, const int n) {
  if (n == VL)
    vstore(p, v);
  else if (n == 2)
    _mm_storeu_pd(p, _mm256_castpd256_pd128(v));
  else
    vstore_m(p, v, vmask(n));
}

static inline T vsum(V v) {
  __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}

/* Element i of the result is the sum of r[i]. */
static inline V vsums(const V r[VL]) {
  const V low = _mm256_hadd_pd(r[0], r[1]), high = _mm256_hadd_pd(r[2], r[3]);
  return _mm256_add_pd(_mm256_permute2f128_pd(low, high, 0x20),
                       _mm256_permute2f128_pd(low, high, 0x31));
}

static inline void vtranspose(V r[4]) { turn_4_f64(r); }

/* The same, as far as small products need it, for 2. */
typedef __m128d half_V;
typedef __m128i half_M;

enum { HALF = 2, LEAST = 2 };

static inline half_V half_vzero(void) { return _mm_setzero_pd(); }
static inline half_V half_vset1(T x) { return _mm_set1_pd(x); }
static inline half_V half_vfma(half_V a, half_V b, half_V c) { return _mm_fmadd_pd(a, b, c); }
static inline half_V half_vmul(half_V a, half_V b) { return _mm_mul_pd(a, b); }
static inline half_V half_vload(const T *p) { return _mm_loadu_pd(p); }
static inline void half_vstore(T *p, half_V v) { _mm_storeu_pd(p, v); }
static inline half_M half_vmask(ptrdiff_t n) {
  return _mm_cmpgt_epi64(_mm_set1_epi64x(n), _mm_set_epi64x(1, 0));
}
static inline half_V half_vload_m(const T *p, half_M mask) { return _mm_maskload_pd(p, mask); }
static inline void half_vstore_m(T *p, half_V v, half_M mask) { _mm_maskstore_pd(p, mask, v); }
static inline void half_vtranspose(half_V r[2]) {
  const half_V low = _mm_unpacklo_pd(r[0], r[1]);
  r[1] = _mm_unpackhi_pd(r[0], r[1]);
  r[0] = low;
}

#endif
