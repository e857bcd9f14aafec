/* Small C, long K: where K may be cut between threads. Small integers, so that any order of the sum is exact. */
#define _GNU_SOURCE
#include "check.h"

enum { LONGEST = 20000, EXACT = 64 }; /* 20000 * 8 * 8 < 2^24 */

static void one(int type, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, const enum layout *layouts,
                double beta) {
  const double alpha = k % 2 ? 1 : -1;
  matrix a = make(type, m, k, layouts[0], k % 3), b = make(type, k, n, layouts[1], k % 5);
  matrix c = make(type, m, n, layouts[2], 1);
  fill(&a);
  fill(&b);
  if (beta != 0) fill(&c);
  double *want = expected(&a, &b, &c, alpha, beta);
  const gemm_call call = call_of(&a, &b, &c, alpha, beta);
  for (int threads = 1; threads <= gemm_threads_max(); threads += threads) {
    gemm_threads_set(threads);
    if (threads > 1 && beta != 0) break; /* C has changed */
    CHECK(gemm_run(&call) == GEMM_OK, "%td x %td x %td", m, n, k);
    check_equal(&c, want, "long K");
    CHECK(numbers_in(&c) == m * n, "wrote outside C, %td x %td x %td", m, n, k);
  }
  gemm_threads_set(gemm_threads_max());
  free(want);
  free(a.memory);
  free(b.memory);
  free(c.memory);
}

static void test_long(int type) {
  static const ptrdiff_t sides[] = {1, 2, 5, 8, 15, 16, 17, 33, 37, 53, 63, 64};
  static const ptrdiff_t lengths[] = {513, 1000, 2047, 4096, 4099, 9001, LONGEST};
  enum { SIDES = sizeof sides / sizeof sides[0], LENGTHS = sizeof lengths / sizeof lengths[0] };
  for (int i = 0; i < 24 / one_case_in(); i++) {
    const ptrdiff_t m = sides[random_below(SIDES)], n = sides[random_below(SIDES)];
    const enum layout layouts[] = {(enum layout)random_below(STEPPED + 1),
                                   (enum layout)random_below(STEPPED + 1),
                                   (enum layout)random_below(C_LAYOUTS)};
    one(type, m, n, lengths[i % LENGTHS], layouts, i % 3 ? 0 : 2);
  }
  static const enum layout rows[] = {ROWS, ROWS, ROWS}, turned[] = {COLUMNS, COLUMNS, ROWS};
  one(type, 37, 53, emulated() ? 2099 : 4099, rows, 1);
  if (emulated()) return;
  one(type, 64, 64, 5003, rows, 0);
  one(type, 64, 48, 4096, turned, 1);
  one(type, 8, 8, LONGEST, turned, 0);
}

/* Sums kept apart for each part of K must be zeroed, and NaN of one part must reach C. */
static void test_nan(int type) {
  const enum layout layouts[] = {ROWS, ROWS, ROWS};
  one(type, 16, 16, LONGEST, layouts, 0);
  matrix a = make(type, 16, LONGEST, ROWS, 0), b = make(type, LONGEST, 16, ROWS, 0);
  matrix c = make(type, 16, 16, ROWS, 0);
  fill(&a);
  fill(&b);
  set(&a, 3, LONGEST - 1, NAN);
  set(&b, 5000, 7, NAN);
  const gemm_call call = call_of(&a, &b, &c, 1, 0);
  CHECK(gemm_run(&call) == GEMM_OK, "NaN");
  for (ptrdiff_t i = 0; i < 16; i++)
    for (ptrdiff_t j = 0; j < 16; j++)
      CHECK(isnan(at(&c, i, j)) == (i == 3 || j == 7),
            "NaN in A's row 3 and B's column 7: %td, %td", i, j);
  free(a.memory);
  free(b.memory);
  free(c.memory);
}

int main(void) {
  _Static_assert((double)LONGEST * EXACT < 1 << 24, "sums are not exact in float32");
  on_every_isa(test_long);
  on_every_isa(test_nan);
  return 0;
}
