/* Planted: a masked load reads the whole vector, and so past the end of an operand. */
#include <immintrin.h>

#ifdef __AVX512F__
static inline __m512 load_too_much(__mmask16 mask, const void *from) {
  __m512 all;
  __asm__ volatile("vmovups %1, %0" : "=v"(all) : "m"(*(const __m512_u *)from));
  return _mm512_maskz_mov_ps(mask, all);
}
#define _mm512_maskz_loadu_ps load_too_much
#endif
