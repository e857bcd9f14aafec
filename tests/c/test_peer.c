/* Timing somebody else's CBLAS: each type and integer width gets its arguments as cblas.h has them; and the
 * roofs: positive, by threads that took part, refusing what makes no sense. */
#include "check.h"

static int calls_seen;
static double sum_seen; /* of the numbers passed, so that one in the wrong place or width is seen */

#define DEFINE_CBLAS(T, I, name)                                                                   \
  static void gemm_##name(int order, int ta, int tb, I m, I n, I k, T alpha, const T *a, I lda,    \
                          const T *b, I ldb, T beta, T *c, I ldc) {                                \
    calls_seen++;                                                                                  \
    CHECK(order == 101 && ta == 112 && tb == 111, "%d %d %d", order, ta, tb);                      \
    CHECK(m == 2 && n == 3 && k == 4 && lda == 5 && ldb == 6 && ldc == 7, "sizes");                \
    CHECK(alpha == 1.5 && beta == 0.25, "scalars");                                                \
    sum_seen += (double)a[0] + 10 * (double)b[0] + 100 * (double)c[0];                             \
  }                                                                                                \
  static void gemv_##name(int order, int ta, I m, I n, T alpha, const T *a, I lda, const T *x,     \
                          I inc_x, T beta, T *y, I inc_y) {                                        \
    calls_seen++;                                                                                  \
    CHECK(order == 101 && ta == 112, "%d %d", order, ta);                                          \
    CHECK(m == 2 && n == 3 && lda == 5 && inc_x == 6 && inc_y == 7, "sizes");                      \
    CHECK(alpha == 1.5 && beta == 0.25, "scalars");                                                \
    sum_seen += (double)a[0] + 10 * (double)x[0] + 100 * (double)y[0];                             \
  }

DEFINE_CBLAS(float, int32_t, f32_32)
DEFINE_CBLAS(float, int64_t, f32_64)
DEFINE_CBLAS(double, int32_t, f64_32)
DEFINE_CBLAS(double, int64_t, f64_64)

static int gemm_dnnl(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                     int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  calls_seen++;
  CHECK(ta == 'T' && tb == 'N' && m == 2 && n == 3 && k == 4, "%c %c", ta, tb);
  CHECK(lda == 5 && ldb == 6 && ldc == 7 && alpha == 1.5 && beta == 0.25, "sizes and scalars");
  sum_seen += (double)a[0] + 10 * (double)b[0] + 100 * (double)c[0];
  return 0;
}

static gemm_peer peer_of(int op, int type, int int_bits, void *function, void *data) {
  return (gemm_peer){.function = function,
                     .op = op,
                     .type = type,
                     .int_bits = int_bits,
                     .trans_a = 1,
                     .alpha = 1.5,
                     .beta = 0.25,
                     .m = 2,
                     .n = 3,
                     .k = 4,
                     .batch = op == GEMM_PEER_GEMV ? 1 : 2,
                     .a = data,
                     .ld_a = 5,
                     .bs_a = 1,
                     .b = data,
                     .ld_b = 6,
                     .bs_b = 1,
                     .c = data,
                     .ld_c = 7,
                     .bs_c = 1};
}

static void test_arguments(int op, int type, int int_bits, void *function) {
  double memory[2];
  double seconds = -1;
  put(type, memory, 0, 1);
  put(type, memory, 1, 2);
  const gemm_peer p = peer_of(op, type, int_bits, function, memory);
  calls_seen = 0, sum_seen = 0;
  CHECK(gemm_peer_timed(&p, 3, &seconds) == GEMM_OK && seconds >= 0, "%g s", seconds);
  const int batch = (int)p.batch, of_one_round = batch == 2 ? 111 + 222 : 111;
  CHECK(calls_seen == 3 * batch && sum_seen == 3 * of_one_round, "%d, %g", calls_seen, sum_seen);
  CHECK(gemm_peer_timed(&p, 0, &seconds) == GEMM_OK && calls_seen == 3 * batch, "no calls");
}

static void test_refusals(void) {
  double memory[2] = {0}, seconds;
  const gemm_peer good = peer_of(GEMM_PEER_GEMM, GEMM_F32, 32, (void *)gemm_f32_32, memory);
  gemm_peer bad[] = {good, good, good, good, good, good, good, good, good};
  bad[0].function = NULL;
  bad[1].op = 3;
  bad[2].type = 2;
  bad[3].int_bits = 16;
  bad[4].m = -1;
  bad[5].ld_c = (ptrdiff_t)INT32_MAX + 1;
  bad[6].batch = -1;
  bad[7].op = GEMM_PEER_GEMV;
  bad[8].op = GEMM_PEER_ONEDNN; /* has 64-bit sizes only */
  calls_seen = 0;
  for (int i = 0; i < 9; i++)
    CHECK(gemm_peer_timed(&bad[i], 1, &seconds) == GEMM_BAD_ARGUMENT, "fault %d", i);
  CHECK(gemm_peer_timed(&good, -1, &seconds) == GEMM_BAD_ARGUMENT, "calls");
  CHECK(calls_seen == 0, "called all the same");
}

static void test_roofs(void) {
  enum { BYTES = 1 << 20 };
  static char data[BYTES];
  double rate = 0;
  for (int threads = 1; threads <= gemm_threads_max(); threads += gemm_threads_max() - 1 ?: 1) {
    for (int type = 0; type < TYPES; type++)
      CHECK(gemm_roof_flops(type, threads, 0.01, &rate) == GEMM_OK && rate > 1e6, "%g", rate);
    CHECK(gemm_roof_read(data, BYTES - 64, threads, 0.01, &rate) == GEMM_OK && rate > 1e6, "%g",
          rate);
    CHECK(gemm_threads_used() <= threads, "%d", gemm_threads_used());
  }
  CHECK(gemm_roof_read(data, 64, 2, 0.001, &rate) == GEMM_OK && rate > 1e6, "one line");
  CHECK(gemm_roof_flops(9, 1, 0.01, &rate) == GEMM_BAD_ARGUMENT, "type");
  CHECK(gemm_roof_flops(0, 0, 0.01, &rate) == GEMM_BAD_ARGUMENT, "threads");
  CHECK(gemm_roof_flops(0, 1, 0, &rate) == GEMM_BAD_ARGUMENT, "seconds");
  CHECK(gemm_roof_read(NULL, 64, 1, 0.01, &rate) == GEMM_BAD_ARGUMENT, "data");
  CHECK(gemm_roof_read(data, 63, 1, 0.01, &rate) == GEMM_BAD_ARGUMENT, "bytes");
}

/* Exactly these bytes, all of them: ones sum to their count. */
static void test_read_sum(void) {
  enum { WORDS = 128 };
  long long ones[3 * WORDS];
  for (int i = 0; i < 3 * WORDS; i++) ones[i] = i / WORDS == 1 ? 1 : 1 << 20;
  for (int type = 0; type < TYPES; type++)
    for (ptrdiff_t bytes = 0; bytes <= 8 * WORDS; bytes += CACHE_LINE) {
      const double sum = dispatch_kernel(type)->read_sum(ones + WORDS, bytes);
      CHECK(sum == (double)(bytes / 8), "%td bytes: %g", bytes, sum);
    }
}

int main(void) {
  void *const functions[TYPES][2][2] = {
      {{(void *)gemm_f32_32, (void *)gemm_f32_64}, {(void *)gemv_f32_32, (void *)gemv_f32_64}},
      {{(void *)gemm_f64_32, (void *)gemm_f64_64}, {(void *)gemv_f64_32, (void *)gemv_f64_64}}};
  for (int type = 0; type < TYPES; type++)
    for (int op = 0; op < 2; op++)
      for (int wide = 0; wide < 2; wide++)
        test_arguments(op, type, wide ? 64 : 32, functions[type][op][wide]);
  test_arguments(GEMM_PEER_ONEDNN, GEMM_F32, 64, (void *)gemm_dnnl);
  test_refusals();
  test_roofs();
  test_read_sum();
  return 0;
}
