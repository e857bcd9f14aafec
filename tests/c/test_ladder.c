/* The teaching rungs: each one, on every instruction set, is a right GEMM for operands stored by rows. */
#define _GNU_SOURCE
#include "guard.h"

static int current; /* the rung under test */

static gemm_rung facts(int type) {
  gemm_rung found;
  CHECK(gemm_ladder_rung(current, type, &found) == GEMM_OK, "rung %d", current);
  return found;
}

static void one(int type, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, enum layout layout, double alpha,
                double beta) {
  matrix a = make(type, m, k, layout, (m + k) % 5), b = make(type, k, n, layout, n % 3);
  matrix c = make(type, m, n, layout, m % 4);
  fill(&a);
  fill(&b);
  if (beta != 0) fill(&c);
  double *want = expected(&a, &b, &c, alpha, beta);
  const gemm_call call = call_of(&a, &b, &c, alpha, beta);
  CHECK(gemm_ladder_run(current, &call) == GEMM_OK, "%td x %td x %td", m, n, k);
  check_equal(&c, want, facts(type).name);
  CHECK(numbers_in(&c) == m * n, "%s wrote outside C, %td x %td x %td", facts(type).name, m, n, k);
  free(want);
  free(a.memory);
  free(b.memory);
  free(c.memory);
}

static void test_small(int type) {
  for (ptrdiff_t s = 1; s <= 40; s++) {
    one(type, s, s, s, ROWS, 1, 0);
    one(type, s, 41 - s, 1 + s * 7 % 40, WIDE_ROWS, 1, 1);
    one(type, 1 + s * 11 % 40, s, 41 - s, WIDE_ROWS, -2, (double)(s % 3));
    one(type, 1 + s % 9, s, 1 + s % 5, ROWS, 0.5, -0.0);
  }
}

/* One more and one less than every tile and block, in each direction. */
static void test_edges(int type) {
  const gemm_rung r = facts(type);
  const ptrdiff_t rows[] = {r.mr, 2 * r.mr, r.mc > 0 ? r.mc : 50};
  const ptrdiff_t columns[] = {r.nr, 2 * r.nr, r.nc > 0 ? r.nc : 70};
  const ptrdiff_t depth = r.kc > 0 ? r.kc : 30;
  for (int i = 0; i < 3; i++)
    for (int off = -1; off <= 1; off++) {
      one(type, max_of(1, rows[i] + off), 2 * r.nr + 1, 9, WIDE_ROWS, 1, 1);
      one(type, 2 * r.mr + 1, max_of(1, columns[i] + off), 9, WIDE_ROWS, 1, 1);
    }
  for (int off = -1; off <= 1; off++) one(type, r.mr + 1, r.nr + 1, depth + off, WIDE_ROWS, 1, 0);
  one(type, rows[2] + 1, columns[2] + 1, depth + 1, ROWS, 1, 1);
}

static void test_nothing_to_add(int type) {
  static const ptrdiff_t sizes[][3] = {{0, 5, 5}, {5, 0, 5}, {5, 7, 0}, {0, 0, 0}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (int beta = 0; beta < 3; beta++)
      one(type, sizes[i][0], sizes[i][1], sizes[i][2], ROWS, 1, beta);
}

/* A and B, all NaN, are not looked at with alpha = 0, nor C with beta = 0: also where only T makes it 0. */
static void test_unread(int type) {
  static const double nothing[] = {0, -0.0, 1e-60};
  for (int i = 0; i < (type == GEMM_F32 ? 3 : 2); i++) {
    matrix a = make(type, 9, 30, ROWS, 0), b = make(type, 30, 40, ROWS, 0);
    matrix c = make(type, 9, 40, WIDE_ROWS, 0);
    gemm_call call = call_of(&a, &b, &c, nothing[i], nothing[i]);
    CHECK(gemm_ladder_run(current, &call) == GEMM_OK, "alpha %g", nothing[i]);
    for (ptrdiff_t j = 0; j < 9 * 40; j++)
      CHECK(at(&c, j / 40, j % 40) == 0, "%s read what it must not", facts(type).name);
    free(a.memory);
    free(b.memory);
    free(c.memory);
  }
}

static void against_a_page(int type, ptrdiff_t elements, bool at_end, matrix *m) {
  m->type = type;
  m->elements = elements;
  m->first = m->memory = guarded((size_t)elements * size_of(type), at_end);
  fill(m);
}

/* Operands that begin or end at an unmapped page: one entry too far is a fault. */
static void test_guarded(int type) {
  const gemm_rung r = facts(type);
  for (int i = 0; i < 24; i++) {
    const ptrdiff_t m = 1 + random_below(3 * r.mr + 3), n = 1 + random_below(3 * r.nr + 3);
    const ptrdiff_t k = 1 + random_below(40);
    matrix a = {.rows = m, .columns = k, .rs = k, .cs = 1};
    matrix b = {.rows = k, .columns = n, .rs = n, .cs = 1};
    matrix c = {.rows = m, .columns = n, .rs = n, .cs = 1};
    against_a_page(type, m * k, i % 2, &a);
    against_a_page(type, k * n, i % 2, &b);
    against_a_page(type, m * n, i % 2, &c);
    double *want = expected(&a, &b, &c, 1, 1);
    const gemm_call call = call_of(&a, &b, &c, 1, 1);
    CHECK(gemm_ladder_run(current, &call) == GEMM_OK, "%td x %td x %td", m, n, k);
    check_equal(&c, want, facts(type).name);
    free(want);
    release(a.memory, (size_t)(m * k) * size_of(type));
    release(b.memory, (size_t)(k * n) * size_of(type));
    release(c.memory, (size_t)(m * n) * size_of(type));
  }
}

static void test_refused(int type) {
  double x[16] = {0}, seconds;
  const gemm_call good = {type, 1, 0, 2, 2, 2, 1, x, 2, 1, 0, x + 4, 2, 1, 0, x + 8, 2, 1, 0};
  gemm_call calls[] = {good, good, good, good, good, good};
  calls[0].cs_a = calls[1].cs_b = calls[2].cs_c = 2;
  calls[3].batch = 2, calls[4].n = -1, calls[5].type = TYPES;
  CHECK(gemm_ladder_run(current, &good) == GEMM_OK, "a good call");
  for (int i = 0; i < 6; i++) {
    CHECK(gemm_ladder_run(current, &calls[i]) == GEMM_BAD_ARGUMENT, "call %d", i);
    CHECK(gemm_ladder_timed(current, &calls[i], 1, &seconds) == GEMM_BAD_ARGUMENT, "call %d", i);
  }
}

static void test_rung(int type) {
  for (current = 0; current < gemm_ladder_count(); current++) {
    CHECK(dispatch_allows(facts(type).isa), "%s for %s", facts(type).name, facts(type).isa);
    test_small(type);
    test_edges(type);
    test_nothing_to_add(type);
    test_unread(type);
    test_guarded(type);
    test_refused(type);
  }
}

static void test_no_such_rung(void) {
  gemm_rung found;
  const gemm_call call = {.type = GEMM_F32, .batch = 1, .cs_a = 1, .cs_b = 1, .cs_c = 1};
  const int outside[] = {-1, gemm_ladder_count()};
  for (int i = 0; i < 2; i++) {
    CHECK(gemm_ladder_rung(outside[i], GEMM_F32, &found) == GEMM_BAD_ARGUMENT, "%d", outside[i]);
    CHECK(gemm_ladder_run(outside[i], &call) == GEMM_BAD_ARGUMENT, "%d", outside[i]);
  }
  CHECK(gemm_ladder_rung(0, TYPES, &found) == GEMM_BAD_ARGUMENT, "type %d", TYPES);
}

/* The count of threads does not change what is computed; each of many gets its rectangle or none. */
static void test_threads(int type) {
  const int before = gemm_threads_get();
  for (int threads = 1; threads <= 3; threads++) {
    gemm_threads_set(threads);
    for (current = 0; current < gemm_ladder_count(); current++) {
      one(type, 67, 129, 20, WIDE_ROWS, 1, 1);
      one(type, 1, 1, 3, ROWS, 1, 0);
    }
  }
  gemm_threads_set(before);
}

int main(void) {
  CHECK(gemm_ladder_count() > 7, "%d rungs", gemm_ladder_count());
  on_every_isa(test_rung);
  on_every_isa(test_threads);
  test_no_such_rung();
  return 0;
}
