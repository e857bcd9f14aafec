/* M = 1, N = 1 and both: every length around the vector widths, every layout, real numbers and exact ones. */
#define _GNU_SOURCE
#include "guard.h"

static void check_real(const matrix *a, const matrix *x, const matrix *y, const matrix *y0,
                       double alpha, double beta) {
  for (ptrdiff_t i = 0; i < y->rows; i++) {
    long double sum = 0, size = 0;
    for (ptrdiff_t p = 0; p < a->columns; p++) {
      const long double term = (long double)at(a, i, p) * at(x, p, 0);
      sum += term, size += fabsl(term);
    }
    const long double old = beta != 0 ? beta * (long double)at(y0, i, 0) : 0;
    const long double want = alpha * sum + old;
    const long double unit = 2 * (long double)(a->columns + 4) * unit_roundoff(y->type);
    CHECK(fabsl(at(y, i, 0) - want) <= unit * (fabs(alpha) * size + fabsl(old)),
          "%s f%d, A %td x %td strides %td %td, y[%td]: %g instead of %Lg", gemm_isa(),
          y->type == GEMM_F32 ? 32 : 64, a->rows, a->columns, a->rs, a->cs, i, at(y, i, 0), want);
  }
}

/* y = alpha A x + beta y, and the same product turned into row vectors. */
static void one(int type, ptrdiff_t m, ptrdiff_t k, const enum layout *layouts, double alpha,
                double beta, bool turned) {
  matrix a = make(type, m, k, layouts[0], k % 4), x = make(type, k, 1, layouts[1], m % 5);
  matrix y = make(type, m, 1, layouts[2], m % 3), y0 = make(type, m, 1, ROWS, 0);
  fill_real(&a);
  fill_real(&x);
  fill_real(&y0);
  for (ptrdiff_t i = 0; beta != 0 && i < m; i++) set(&y, i, 0, at(&y0, i, 0));
  gemm_call call = call_of(&a, &x, &y, alpha, beta);
  if (turned) {
    call.m = 1, call.n = m;
    call.a = x.first, call.rs_a = x.cs, call.cs_a = x.rs;
    call.b = a.first, call.rs_b = a.cs, call.cs_b = a.rs;
    call.rs_c = y.cs, call.cs_c = y.rs;
  }
  CHECK(gemm_run(&call) == GEMM_OK, "%td x %td", m, k);
  check_real(&a, &x, &y, &y0, alpha, beta);
  CHECK(numbers_in(&y) == m, "wrote outside y, %td x %td", m, k);
  free(a.memory);
  free(x.memory);
  free(y.memory);
  free(y0.memory);
}

static void any(int type, ptrdiff_t m, ptrdiff_t k) {
  static const double alphas[] = {1, 1, -0.5}, betas[] = {0, 1, 0.25};
  const enum layout layouts[] = {(enum layout)random_below(LAYOUTS),
                                 (enum layout)random_below(SAME_ROW + 1),
                                 (enum layout)random_below(C_LAYOUTS)};
  one(type, m, k, layouts, alphas[random_below(3)], betas[random_below(3)], random_below(2));
}

static void test_short(int type) {
  for (ptrdiff_t m = 1; m <= 70; m++)
    for (ptrdiff_t k = 1; k <= 140; k += 1 + random_below(2 * one_case_in())) any(type, m, k);
}

/* Row vectors and column vectors against an unmapped page, by rows and by columns. */
static void test_guarded(int type) {
  for (ptrdiff_t m = 1; m <= 40; m++)
    for (ptrdiff_t k = 1; k <= 80; k += 3) {
      if (left_out(m + k / 3)) continue;
      const size_t size = size_of(type), bytes[] = {m * k * size, k * size, m * size};
      void *p[3];
      for (int i = 0; i < 3; i++) memset(p[i] = guarded(bytes[i], true), 0, bytes[i]);
      gemm_call call = {.type = type, .alpha = 1, .m = m, .n = 1, .k = k, .batch = 1};
      call.a = p[0], call.b = p[1], call.c = p[2], call.cs_b = call.cs_c = 1;
      call.rs_b = call.rs_c = 1;
      call.rs_a = m % 2 ? k : 1, call.cs_a = m % 2 ? 1 : m;
      CHECK(gemm_run(&call) == GEMM_OK, "%td x %td", m, k);
      for (int i = 0; i < 3; i++) release(p[i], bytes[i]);
    }
}

static void test_long(int type) {
  static const enum layout rows[] = {ROWS, ROWS, ROWS}, turned[] = {COLUMNS, ROWS, ROWS};
  static const ptrdiff_t shapes[][2] = {{1, 100003}, {3, 50001}, {63, 3001}, {65, 4099},
                                        {700, 701},  {4099, 65}, {50001, 3}, {100003, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    const ptrdiff_t m = shapes[i][0], k = shapes[i][1];
    if (emulated() && i % 3) continue;
    one(type, m, k, rows, 1, 0, false);
    one(type, m, k, turned, -0.5, 1, false);
    one(type, m, k, rows, 2, 1, true);
    one(type, m, k, turned, 1, 0, true);
    any(type, m, k);
  }
}

int main(void) {
  on_every_isa(test_short);
  on_every_isa(test_guarded);
  on_every_isa(test_long);
  return 0;
}
