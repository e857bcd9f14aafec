/* The public calls: every layout of every operand, BLAS's rules for alpha and beta, IEEE's for Inf and NaN. */
#include "check.h"

static void one(int type, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, const enum layout *layouts,
                double alpha, double beta) {
  const ptrdiff_t shift = random_below(5);
  matrix a = make(type, m, k, layouts[0], shift), b = make(type, k, n, layouts[1], shift % 3);
  matrix c = make(type, m, n, layouts[2], shift % 4);
  fill(&a);
  fill(&b);
  if (beta != 0) fill(&c);
  double *want = expected(&a, &b, &c, alpha, beta);
  const gemm_call call = call_of(&a, &b, &c, alpha, beta);
  const int status = gemm_run(&call);
  CHECK(status == GEMM_OK, "status %d", status);
  check_equal(&c, want, "product");
  CHECK(numbers_in(&c) == m * n, "wrote outside C, %td x %td x %td", m, n, k);
  free(want);
  free(a.memory);
  free(b.memory);
  free(c.memory);
}

static ptrdiff_t random_size(void) {
  static const ptrdiff_t most[] = {4, 20, 40, 70, 150};
  return 1 + random_below(most[random_below(5)]);
}

static void test_layouts(int type) {
  static const double alphas[] = {1, -2, 1, 0.5}, betas[] = {0, 1, -3, -0.0};
  for (int a = 0; a < LAYOUTS; a++)
    for (int b = 0; b < LAYOUTS; b++)
      for (int c = 0; c < C_LAYOUTS; c++)
        for (int i = 0; i < 4; i++) {
          if (left_out(a + b + c + i)) continue;
          const enum layout layouts[] = {a, b, c};
          one(type, random_size(), random_size(), random_size(), layouts, alphas[i], betas[i]);
        }
}

static void test_edges(int type) {
  static const enum layout rows[] = {ROWS, ROWS, ROWS}, wide[] = {WIDE_ROWS, WIDE_ROWS, WIDE_ROWS};
  for (ptrdiff_t m = 1; m <= 33; m++)
    for (ptrdiff_t n = 1; n <= 67; n++)
      if (!left_out(m + n)) one(type, m, n, 1 + (m + n) % 19, m % 2 ? rows : wide, 1, n % 3);
  for (ptrdiff_t k = 1; k <= 140; k += one_case_in())
    one(type, 75, 70, k, k % 2 ? rows : wide, 1, 0);
  one(type, emulated() ? 60 : 300, 290, 700, rows, 1, 1);
}

static void test_vectors(int type) {
  for (int a = 0; a < LAYOUTS; a++)
    for (int b = 0; b < LAYOUTS; b++)
      for (ptrdiff_t n = 1; n < 60; n += 7)
        for (ptrdiff_t k = 1; k < 80; k += 13) {
          if (left_out(a + b + n / 7 + k / 13)) continue;
          const enum layout layouts[] = {a, b, (enum layout)(n % C_LAYOUTS)};
          one(type, n, 1, k, layouts, 1, k % 2);
          one(type, 1, n, k, layouts, 2, n % 2);
        }
  static const enum layout tall[] = {COLUMNS, ROWS, ROWS}, flat[] = {ROWS, ROWS, ROWS};
  one(type, 5000, 1, 9, tall, 1, 1);
  one(type, 9, 1, emulated() ? 7000 : 70000, flat, 1, 0);
}

/* Nothing to sum: C becomes beta * C, and NaN in A and B is never looked at. */
static void test_nothing_to_add(int type) {
  for (int way = 0; way < 2; way++)
    for (int i = 0; i < 3; i++) {
      const double beta = i - 1.0, alpha = way;
      matrix a = make(type, 20, way ? 0 : 30, ROWS, 0), b = make(type, way ? 0 : 30, 40, ROWS, 0);
      matrix c = make(type, 20, 40, WIDE_ROWS, 1);
      if (beta != 0) fill(&c);
      double *want = expected(&a, &b, &c, alpha, beta);
      const gemm_call call = call_of(&a, &b, &c, alpha, beta);
      CHECK(gemm_run(&call) == GEMM_OK, "alpha %g, beta %g", alpha, beta);
      check_equal(&c, want, "beta * C");
      free(want);
      free(a.memory);
      free(b.memory);
      free(c.memory);
    }
}

/* 1e-60 is 0 in float32: C, all NaN, is not read; and with alpha neither are A and B. */
static void test_scalars_of_the_type(double alpha) {
  matrix a = make(GEMM_F32, 20, 30, ROWS, 0), b = make(GEMM_F32, 30, 40, ROWS, 0);
  matrix c = make(GEMM_F32, 20, 40, ROWS, 0);
  if (alpha == 1) fill(&a), fill(&b);
  double *want = expected(&a, &b, &c, alpha == 1, 0);
  const gemm_call call = call_of(&a, &b, &c, alpha, 1e-60);
  CHECK(gemm_run(&call) == GEMM_OK, "alpha %g, beta 1e-60", alpha);
  check_equal(&c, want, "0 * C");
  free(want);
  free(a.memory);
  free(b.memory);
  free(c.memory);
}

static void test_empty_and_wrong(int type) {
  gemm_call call = {.type = type, .alpha = 1, .m = 0, .n = 5, .k = 5, .batch = 1};
  CHECK(gemm_run(&call) == GEMM_OK, "no rows");
  call.m = 5, call.n = 0;
  CHECK(gemm_run(&call) == GEMM_OK, "no columns");
  call.n = -1;
  CHECK(gemm_run(&call) == GEMM_BAD_ARGUMENT, "n = -1");
  call.n = 5, call.batch = 0;
  CHECK(gemm_run(&call) == GEMM_OK, "no products in the batch");
  call.type = 7;
  CHECK(gemm_run(&call) == GEMM_BAD_ARGUMENT && gemm_run_empty(&call) == GEMM_BAD_ARGUMENT,
        "type 7");
}

/* Inf * 0 is NaN; an Inf or NaN stays in its own row or column; zeros are no reason to skip. */
static void test_special_values(int type) {
  static const ptrdiff_t sizes[] = {1, 7, 15, 33, 70};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
    for (int column_major = 0; column_major < 2; column_major++) {
      const ptrdiff_t n = sizes[s];
      const enum layout layout = column_major ? COLUMNS : ROWS;
      matrix a = make(type, n, n, layout, 0), b = make(type, n, n, layout, 0),
             c = make(type, n, n, ROWS, 0);
      fill(&a);
      fill(&b);
      set(&a, n / 2, n / 3, INFINITY);
      set(&b, n / 3, n - 1, 0);
      set(&b, n - 1, 0, NAN);
      double *want = expected(&a, &b, &c, 1, 0);
      const gemm_call call = call_of(&a, &b, &c, 1, 0);
      gemm_run(&call);
      check_equal(&c, want, "Inf and NaN");
      free(want);
      free(a.memory);
      free(b.memory);
      free(c.memory);
    }
}

static void test_batch(int type) {
  enum { COUNT = 3, N = 23 };
  matrix a = make(type, COUNT * N, N, ROWS, 0), b = make(type, COUNT * N, N, ROWS, 0);
  matrix c = make(type, COUNT * N, N, ROWS, 0);
  fill(&a);
  fill(&b);
  gemm_call call = call_of(&a, &b, &c, 1, 0);
  call.m = N, call.batch = COUNT, call.bs_a = call.bs_c = N * N, call.bs_b = -N * N;
  call.b = (char *)b.first + 2 * N * N * size_of(type);
  CHECK(gemm_run(&call) == GEMM_OK, "batch");
  for (ptrdiff_t i = 0; i < COUNT; i++) {
    matrix part_a = a, part_b = b, part_c = c;
    part_a.rows = part_b.rows = part_c.rows = N;
    part_a.first = (char *)a.first + i * N * N * (ptrdiff_t)size_of(type);
    part_b.first = (char *)b.first + (2 - i) * N * N * (ptrdiff_t)size_of(type);
    part_c.first = (char *)c.first + i * N * N * (ptrdiff_t)size_of(type);
    double *want = expected(&part_a, &part_b, &part_c, 1, 0);
    check_equal(&part_c, want, "one of a batch");
    free(want);
  }
  free(a.memory);
  free(b.memory);
  free(c.memory);
}

static void test_typed_calls(void) {
  const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
  float c[4], y[2] = {1, 1};
  CHECK(gemm_f32(2, 2, 2, 1, a, 2, 1, b, 2, 1, 0, c, 2, 1) == GEMM_OK, "gemm_f32");
  CHECK(c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50, "%g %g %g %g", c[0], c[1], c[2],
        c[3]);
  CHECK(gemv_f32(2, 2, 2, a, 2, 1, b, 2, -1, y, 1) == GEMM_OK, "gemv_f32");
  CHECK(y[0] == 37 && y[1] == 85, "%g %g", y[0], y[1]);
  const double da[] = {1, 2, 3, 4}, db[] = {5, 6, 7, 8};
  double dc[4], dy[2] = {1, 1};
  CHECK(gemm_f64(2, 2, 2, 1, da, 1, 2, db, 2, 1, 0, dc, 2, 1) == GEMM_OK, "gemm_f64");
  CHECK(dc[0] == 26 && dc[1] == 30 && dc[2] == 38 && dc[3] == 44, "%g %g", dc[0], dc[1]);
  CHECK(gemv_f64(2, 2, 2, da, 2, 1, db, 2, -1, dy, 1) == GEMM_OK, "gemv_f64");
  CHECK(dy[0] == 37 && dy[1] == 85, "%g %g", dy[0], dy[1]);
}

static void test_timed(void) {
  double value = 0, seconds = -1;
  const double two = 2;
  const gemm_call call = {.type = GEMM_F64,
                          .alpha = 1,
                          .beta = 1,
                          .m = 1,
                          .n = 1,
                          .k = 1,
                          .batch = 1,
                          .a = &two,
                          .b = &two,
                          .c = &value};
  CHECK(gemm_run_timed(&call, 5, &seconds) == GEMM_OK && value == 20, "5 calls made %g", value);
  CHECK(seconds > 0 && seconds < 60, "%g s", seconds);
}

int main(void) {
  on_every_isa(test_layouts);
  on_every_isa(test_edges);
  on_every_isa(test_vectors);
  on_every_isa(test_nothing_to_add);
  on_every_isa(test_empty_and_wrong);
  on_every_isa(test_special_values);
  on_every_isa(test_batch);
  test_scalars_of_the_type(1e-60);
  test_scalars_of_the_type(1);
  test_typed_calls();
  test_timed();
  return 0;
}
