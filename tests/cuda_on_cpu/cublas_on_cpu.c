/* A stand-in for libcublas: column-major, plain loops, arguments checked as cuBLAS checks them. The order and
 * the types of the arguments are those of cublas_api.h, which is what these tests are about. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };
static void *handle_stream;
static int math_mode, last_compute, handles;

int fake_math_mode(void) { return math_mode; }
int fake_compute(void) { return last_compute; }
int fake_handles(void) { return handles; }

int cublasCreate_v2(void **h) { return ++handles, *h = (void *)0xb1a5, 0; }
int cublasGetVersion_v2(void *h, int *v) { return *v = 130100, h != (void *)0xb1a5; }
int cublasSetStream_v2(void *h, void *s) { return handle_stream = s, h != (void *)0xb1a5; }
int cublasSetMathMode(void *h, int mode) { return math_mode = mode, h != (void *)0xb1a5; }

static double get(const void *p, int type, int64_t i) {
  if (type == R_64F) return ((const double *)p)[i];
  if (type == R_32F) return ((const float *)p)[i];
  if (type == R_16F) return ((const _Float16 *)p)[i];
  union {
    uint32_t u;
    float f;
  } x = {(uint32_t)((const uint16_t *)p)[i] << 16};
  return x.f;
}
static void put(void *p, int type, int64_t i, double v) {
  if (type == R_64F)
    ((double *)p)[i] = v;
  else if (type == R_32F)
    ((float *)p)[i] = v;
  else if (type == R_16F)
    ((_Float16 *)p)[i] = v;
  else {
    union {
      float f;
      uint32_t u;
    } x = {v};
    ((uint16_t *)p)[i] = (x.u + 0x7fff + (x.u >> 16 & 1)) >> 16;
  }
}
static double scalar(const void *p, int compute) {
  return compute == 70 ? *(const double *)p : *(const float *)p;
}

int cublasGemmStridedBatchedEx_64(void *h, int ta, int tb, int64_t m, int64_t n, int64_t k,
                                  const void *alpha, const void *a, int at, int64_t lda,
                                  long long sa, const void *b, int bt, int64_t ldb, long long sb,
                                  const void *beta, void *c, int ct, int64_t ldc, long long sc,
                                  int64_t batch, int compute, int algo) {
  if (h != (void *)0xb1a5 || !handle_stream) return 1;
  if (lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m || lda < 1 || ldb < 1 || ldc < 1)
    return 7;
  if (at != bt || at != ct || algo != -1) return 15;
  if (at == R_64F ? compute != 70 : compute != 68 && compute != 77) return 15;
  last_compute = compute;
  const double al = scalar(alpha, compute), be = scalar(beta, compute);
  for (int64_t z = 0; z < batch; ++z)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < m; ++i) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += get(a, at, z * sa + (ta ? i * lda + l : l * lda + i)) *
                 get(b, bt, z * sb + (tb ? l * ldb + j : j * ldb + l));
        const int64_t at_c = z * sc + j * ldc + i;
        put(c, ct, at_c, be == 0 ? al * sum : al * sum + be * get(c, ct, at_c));
      }
  return 0;
}
int cublasGemmStridedBatchedEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha,
                               const void *a, int at, int lda, long long sa, const void *b, int bt,
                               int ldb, long long sb, const void *beta, void *c, int ct, int ldc,
                               long long sc, int batch, int compute, int algo) {
  return cublasGemmStridedBatchedEx_64(h, ta, tb, m, n, k, alpha, a, at, lda, sa, b, bt, ldb, sb,
                                       beta, c, ct, ldc, sc, batch, compute, algo);
}
int cublasGemmEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                 int at, int lda, const void *b, int bt, int ldb, const void *beta, void *c, int ct,
                 int ldc, int compute, int algo) {
  return cublasGemmStridedBatchedEx_64(h, ta, tb, m, n, k, alpha, a, at, lda, 0, b, bt, ldb, 0,
                                       beta, c, ct, ldc, 0, 1, compute, algo);
}
static int gemv(void *h, int type, int t, int m, int n, const void *alpha, const void *a, int lda,
                const void *x, int incx, const void *beta, void *y, int incy) {
  if (incx != 1 || incy != 1) return 7;
  const int rows = t ? n : m, inner = t ? m : n;
  return cublasGemmStridedBatchedEx_64(h, t, 0, rows, 1, inner, alpha, a, type, lda, 0, x, type,
                                       inner ? inner : 1, 0, beta, y, type, rows ? rows : 1, 0, 1,
                                       type == R_64F ? 70 : 68, -1);
}
int cublasSgemv_v2(void *h, int t, int m, int n, const void *alpha, const void *a, int lda,
                   const void *x, int incx, const void *beta, void *y, int incy) {
  return gemv(h, R_32F, t, m, n, alpha, a, lda, x, incx, beta, y, incy);
}
int cublasDgemv_v2(void *h, int t, int m, int n, const void *alpha, const void *a, int lda,
                   const void *x, int incx, const void *beta, void *y, int incy) {
  return gemv(h, R_64F, t, m, n, alpha, a, lda, x, incx, beta, y, incy);
}
int cublasScalEx(void *h, int n, const void *alpha, int alpha_type, void *x, int type, int incx,
                 int compute) {
  if (h != (void *)0xb1a5 || !handle_stream || incx != 1 || alpha_type != compute) return 7;
  const double factor = alpha_type == R_64F ? *(const double *)alpha : *(const float *)alpha;
  for (int i = 0; i < n; ++i) put(x, type, i, factor * get(x, type, i));
  return 0;
}
