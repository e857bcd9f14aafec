/* Planted: a masked store writes the whole vector, and so past the edge of C. */
#include <immintrin.h>

#ifdef __AVX512F__
static inline void store_too_much(void *to, __mmask16 mask, __m512 value) {
  (void)mask;
  _mm512_storeu_ps(to, value);
}
#define _mm512_mask_storeu_ps store_too_much
#endif
