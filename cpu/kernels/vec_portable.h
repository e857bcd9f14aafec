/* Vectors of 16 bytes in the GNU notation: any CPU, any compiler that knows gcc's extensions.
 * The includer defines T; see vec_avx512_f32.h for what each name means. */
#ifndef VEC_PORTABLE_H
#define VEC_PORTABLE_H
#define VECTOR_REGISTERS 16
#define MASKS_ARE_FREE   0
#define LEAST_VEC(x)     x

#include <stddef.h>
#include <string.h>

typedef T V __attribute__((vector_size(16)));
typedef ptrdiff_t M;

enum { VL = 16 / sizeof(T), HALF = VL, LEAST = VL };

static inline V vzero(void) { return (V){0}; }
static inline V vset1(T x) { return vzero() + x; }
static inline V vfma(V a, V b, V c) { return a * b + c; }
static inline V vmul(V a, V b) { return a * b; }

static inline V vload(const T *p) {
  V v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline void vstore(T *p, V v) { memcpy(p, &v, sizeof v); }

static inline M vmask(ptrdiff_t n) { return n; }

static inline V vload_m(const T *p, M n) {
  V v = vzero();
  for (int i = 0; i < VL; i++)
    if (i < n) v[i] = p[i];
  return v;
}

static inline void vstore_m(T *p, V v, M n) {
  for (int i = 0; i < VL; i++)
    if (i < n) p[i] = v[i];
}

static inline V vload_n(const T *p, const int n) { return n == VL ? vload(p) : vload_m(p, n); }

static inline void vstore_n(T *p, V v, const int n) {
  if (n == VL)
    vstore(p, v);
  else
    vstore_m(p, v, n);
}

static inline T vsum(V v) {
  T sum = 0;
  for (int i = 0; i < VL; i++) sum += v[i];
  return sum;
}

/* Element i of the result is the sum of r[i]. */
static inline V vsums(const V r[VL]) {
  V sums;
  for (int i = 0; i < VL; i++) sums[i] = vsum(r[i]);
  return sums;
}

static inline void vtranspose(V r[VL]) {
  for (int i = 0; i < VL; i++)
    for (int j = 0; j < i; j++) {
      T t = r[i][j];
      r[i][j] = r[j][i];
      r[j][i] = t;
    }
}

#endif
