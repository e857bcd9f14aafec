/* Many products in one call: every layout of the batch, each result against a product of its own. */
#define _GNU_SOURCE
#include "check.h"

/* BESIDE: element (i, j) of product p+1 is the neighbour of that of product p. */
enum way { AFTER, APART, BACKWARDS, BESIDE, SHARED, WAYS };

static void lay(matrix *one, ptrdiff_t *step, enum way way, ptrdiff_t batch) {
  const ptrdiff_t whole = span(one->rows, one->rs) + span(one->columns, one->cs) + 1;
  *step = whole;
  if (way == APART) *step = whole + 5;
  if (way == BACKWARDS) *step = -whole;
  if (way == SHARED) *step = 0;
  if (way == BESIDE) *step = 1, one->rs *= batch, one->cs *= batch;
}

/* `one` is the first of the batch; `memory` holds them all, NaN wherever no product is. */
static matrix make_batch(int type, ptrdiff_t rows, ptrdiff_t columns, enum layout layout,
                         enum way way, ptrdiff_t batch, ptrdiff_t *step) {
  matrix m = {.type = type, .rows = rows, .columns = columns};
  set_strides(&m, layout);
  lay(&m, step, way, batch);
  const ptrdiff_t margin = 64, body = span(rows, m.rs) + span(columns, m.cs) + span(batch, *step);
  m.elements = body + 1 + 2 * margin;
  m.memory = malloc((size_t)m.elements * size_of(type));
  CHECK(m.memory, "no memory for the test itself");
  for (ptrdiff_t i = 0; i < m.elements; i++) put(type, m.memory, i, NAN);
  ptrdiff_t first = margin;
  if (m.rs < 0) first += span(rows, m.rs) + span(columns, m.cs);
  if (*step < 0) first += span(batch, *step);
  m.first = (char *)m.memory + first * (ptrdiff_t)size_of(type);
  return m;
}

static matrix nth(const matrix *first, ptrdiff_t step, ptrdiff_t index) {
  matrix m = *first;
  m.first = (char *)m.first + index * step * (ptrdiff_t)size_of(m.type);
  return m;
}

static void fill_batch(const matrix *first, ptrdiff_t step, ptrdiff_t batch) {
  for (ptrdiff_t i = 0; i < batch; i++) {
    const matrix m = nth(first, step, i);
    fill(&m);
  }
}

typedef struct {
  enum layout layout[3];
  enum way way[3];
} arrangement;

static void one(int type, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, ptrdiff_t batch, double alpha,
                double beta, const arrangement *r) {
  ptrdiff_t sa, sb, sc;
  matrix a = make_batch(type, m, k, r->layout[0], r->way[0], batch, &sa);
  matrix b = make_batch(type, k, n, r->layout[1], r->way[1], batch, &sb);
  matrix c = make_batch(type, m, n, r->layout[2], r->way[2], batch, &sc);
  if (alpha != 0) fill_batch(&a, sa, batch), fill_batch(&b, sb, batch);
  if (beta != 0) fill_batch(&c, sc, batch);
  double **want = malloc((size_t)batch * sizeof *want);
  for (ptrdiff_t i = 0; i < batch; i++) {
    const matrix ai = nth(&a, sa, i), bi = nth(&b, sb, i), ci = nth(&c, sc, i);
    want[i] = expected(&ai, &bi, &ci, alpha, beta);
  }
  gemm_call call = call_of(&a, &b, &c, alpha, beta);
  call.batch = batch, call.bs_a = sa, call.bs_b = sb, call.bs_c = sc;
  CHECK(gemm_run(&call) == GEMM_OK, "batch of %td", batch);
  for (ptrdiff_t i = 0; i < batch; i++) {
    const matrix ci = nth(&c, sc, i);
    check_equal(&ci, want[i], "one of a batch");
    free(want[i]);
  }
  CHECK(numbers_in(&c) == m * n * batch, "%td products %td x %td x %td: wrote outside C", batch, m,
        n, k);
  free(want);
  free(a.memory);
  free(b.memory);
  free(c.memory);
}

static arrangement random_arrangement(void) {
  arrangement r;
  for (int i = 0; i < 3; i++) {
    r.layout[i] = (enum layout)random_below(i == 2 ? C_LAYOUTS : LAYOUTS);
    r.way[i] = (enum way)random_below(i == 2 ? SHARED : WAYS);
  }
  return r;
}

static void test_random(int type) {
  static const double alphas[] = {1, 1, 1, -2, 0}, betas[] = {0, 0, 1, 3, -0.0};
  for (int i = 0; i < 600 / one_case_in(); i++) {
    const arrangement r = random_arrangement();
    const ptrdiff_t most = i % 10 ? 34 : 70, batch = 1 + random_below(i % 10 ? 20 : 4);
    one(type, 1 + random_below(most), 1 + random_below(most), 1 + random_below(most), batch,
        alphas[random_below(5)], betas[random_below(5)], &r);
  }
}

/* The squares that a batched path is written for, dense, with a whole tail of the batch behind each width. */
static void test_squares(int type) {
  const arrangement dense = {{ROWS, ROWS, ROWS}, {AFTER, AFTER, AFTER}};
  const arrangement shared = {{ROWS, ROWS, ROWS}, {AFTER, SHARED, AFTER}};
  for (ptrdiff_t n = 1; n <= 33; n++) {
    if (left_out(n)) continue;
    one(type, n, n, n, 37, 1, n % 2, &dense);
    one(type, n, n, n, 5, 1, 0, &shared);
  }
  one(type, 8, 8, 8, 3001, 1, 1, &dense);
  one(type, 1, 8, 8, 500, 1, 0, &dense);
  one(type, 8, 1, 8, 500, 1, 0, &dense);
  one(type, 130, 70, 90, 7, 1, 0, &dense);
}

/* Threads over the batch, and products large enough for threads of their own. */
static void test_large(int type) {
  const arrangement dense = {{ROWS, ROWS, ROWS}, {AFTER, AFTER, AFTER}};
  one(type, 160, 150, 170, 3, 1, 1, &dense);
  one(type, 32, 32, 32, 200, 1, 0, &dense);
}

static void test_nothing(int type) {
  const arrangement dense = {{ROWS, ROWS, ROWS}, {AFTER, AFTER, AFTER}};
  one(type, 5, 6, 0, 9, 1, 0, &dense);
  one(type, 5, 6, 0, 9, 1, 2, &dense);
  one(type, 5, 6, 7, 9, 0, 0, &dense);
  gemm_call call = {.type = type, .alpha = 1, .m = 5, .n = 5, .k = 5, .batch = 0};
  CHECK(gemm_run(&call) == GEMM_OK, "an empty batch");
  call.batch = -1;
  CHECK(gemm_run(&call) == GEMM_BAD_ARGUMENT, "batch = -1");
}

int main(void) {
  on_every_isa(test_random);
  on_every_isa(test_squares);
  on_every_isa(test_large);
  on_every_isa(test_nothing);
  return 0;
}
