/* Operands that end, or begin, exactly at an unmapped page: one byte too far is a fault. */
#define _GNU_SOURCE
#include "guard.h"

typedef struct {
  matrix m;
  size_t bytes;
} guarded_matrix;

static guarded_matrix make_guarded(int type, ptrdiff_t rows, ptrdiff_t columns, enum layout layout,
                                   bool at_end) {
  guarded_matrix g = {.m = {.type = type, .rows = rows, .columns = columns}};
  set_strides(&g.m, layout);
  g.bytes = (size_t)(span(rows, g.m.rs) + span(columns, g.m.cs) + 1) * size_of(type);
  g.m.memory = g.m.first = guarded(g.bytes, at_end);
  if (g.m.rs < 0) g.m.first = (char *)g.m.memory + (g.bytes - size_of(type));
  fill(&g.m);
  return g;
}

static void one(int type, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, enum layout la, enum layout lb,
                enum layout lc, bool at_end) {
  guarded_matrix a = make_guarded(type, m, k, la, at_end), b = make_guarded(type, k, n, lb, at_end);
  guarded_matrix c = make_guarded(type, m, n, lc, at_end);
  double *want = expected(&a.m, &b.m, &c.m, 1, 1);
  const gemm_call call = call_of(&a.m, &b.m, &c.m, 1, 1);
  CHECK(gemm_run(&call) == GEMM_OK, "%td x %td x %td", m, n, k);
  check_equal(&c.m, want, "guarded");
  free(want);
  release(a.m.memory, a.bytes);
  release(b.m.memory, b.bytes);
  release(c.m.memory, c.bytes);
}

static void test_guarded(int type) {
  static const ptrdiff_t sizes[] = {1, 2, 3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 17, 31, 33, 65, 97};
  enum { SIZES = sizeof sizes / sizeof sizes[0] };
  for (int i = 0; i < 1500 / one_case_in(); i++) {
    const ptrdiff_t m = sizes[random_below(SIZES)], n = sizes[random_below(SIZES)];
    const ptrdiff_t k = sizes[random_below(SIZES)];
    one(type, m, n, k, (enum layout)random_below(LAYOUTS), (enum layout)random_below(LAYOUTS),
        (enum layout)random_below(C_LAYOUTS), i % 2);
  }
}

int main(void) {
  on_every_isa(test_guarded);
  return 0;
}
