/* A CBLAS for tests: plain loops. I is its integer type, NAME(x) the name it gives x. WRONG loses the last product
 * of every sum; NO_ASUM leaves cblas_sasum out; CONFIG is what an OpenBLAS tells of itself; FATAL ends the
 * process at the first product, as MKL does where one of its libraries is missing, and DIES_AT at this M. With MARK
 * it calls a function of its own by a name that others have too: another's answer makes its sums wrong. */
#include <stdint.h>
#include <stdlib.h>

#ifndef FATAL
#define FATAL 0
#endif
#ifndef DIES_AT
#define DIES_AT -1
#endif
#ifndef WRONG
#define WRONG 0
#endif

static const int trans = 112;

#ifdef UNLESS_PINNED /* wrong under `--isa avx2` */
#undef WRONG
#define WRONG (getenv("OPENBLAS_CORETYPE") != NULL)
#endif

#ifdef MARK
#undef WRONG
#define WRONG (fake_mark() != MARK)
int fake_mark(void) { return MARK; }
#endif

#define DEFINE(T, gemm, gemv)                                                                      \
  void NAME(gemm)(int order, int ta, int tb, I m, I n, I k, T alpha, const T *a, I lda,            \
                  const T *b, I ldb, T beta, T *c, I ldc) {                                        \
    if (order != 101) abort();                                                                     \
    if (FATAL || m == DIES_AT) exit(2);                                                            \
    for (I i = 0; i < m; i++)                                                                      \
      for (I j = 0; j < n; j++) {                                                                  \
        T sum = 0;                                                                                 \
        for (I p = 0; p < k - WRONG; p++)                                                          \
          sum += (ta == trans ? a[p * lda + i] : a[i * lda + p]) *                                 \
                 (tb == trans ? b[j * ldb + p] : b[p * ldb + j]);                                  \
        c[i * ldc + j] = alpha * sum + (beta != 0 ? beta * c[i * ldc + j] : 0);                    \
      }                                                                                            \
  }                                                                                                \
  void NAME(gemv)(int order, int ta, I m, I n, T alpha, const T *a, I lda, const T *x, I inc_x,    \
                  T beta, T *y, I inc_y) {                                                         \
    if (order != 101) abort();                                                                     \
    for (I i = 0; i < (ta == trans ? n : m); i++) {                                                \
      T sum = 0;                                                                                   \
      for (I p = 0; p < (ta == trans ? m : n); p++)                                                \
        sum += (ta == trans ? a[p * lda + i] : a[i * lda + p]) * x[p * inc_x];                     \
      y[i * inc_y] = alpha * sum + (beta != 0 ? beta * y[i * inc_y] : 0);                          \
    }                                                                                              \
  }

DEFINE(float, cblas_sgemm, cblas_sgemv)
DEFINE(double, cblas_dgemm, cblas_dgemv)

#ifndef NO_ASUM
float NAME(cblas_sasum)(I n, const float *x, I inc) {
  float sum = 0;
  for (I i = 0; i < n; i++) sum += x[i * inc] < 0 ? -x[i * inc] : x[i * inc];
  return sum;
}
#endif

#ifdef CONFIG
static int threads = 2;
const char *NAME(openblas_get_config)(void) { return CONFIG; }
const char *NAME(openblas_get_corename)(void) { return "Toy"; }
int NAME(openblas_get_num_threads)(void) { return threads; }
void NAME(openblas_set_num_threads)(int n) { threads = n; }
#endif

#ifdef MKL
int MKL_Get_Max_Threads(void) { return 1; }
int MKL_Set_Num_Threads_Local(int n) { return (void)n, 0; }
int MKL_Set_Threading_Layer(int layer) {
  if (layer != MKL) exit(2);
  return layer;
}
#endif
