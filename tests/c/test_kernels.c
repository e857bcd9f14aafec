/* Micro-kernels and packing by themselves: every extent up to the whole tile, packed and in place. */
#include "check.h"

static void multiply_packed(const kernel *kn, const matrix *a, const matrix *b, tile *t) {
  static _Alignas(64) char panel_a[MAX_MR * 64 * sizeof(double)],
      panel_b[MAX_NR * 64 * sizeof(double)];
  kn->pack_a(t->m, t->k, a->first, a->rs, a->cs, panel_a);
  kn->pack_b(t->n, t->k, b->first, b->cs, b->rs, panel_b);
  t->a = panel_a, t->rs_a = 1, t->cs_a = kn->mr, t->b = panel_b, t->rs_b = kn->nr;
  kn->multiply(t);
}

static void one(const kernel *kn, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, bool packed) {
  static const enum layout layouts[] = {ROWS, COLUMNS, STEPPED, WIDE_ROWS};
  const double beta = (double)((m + n) % 3), alpha = k % 2 ? 1 : -2;
  matrix a = make(kn->type, m, k, layouts[(m + k) % 4], 0);
  matrix b = make(kn->type, k, n, packed ? layouts[(n + k) % 4] : WIDE_ROWS, 1);
  matrix c = make(kn->type, m, n, WIDE_ROWS, n % 3);
  fill(&a);
  fill(&b);
  if (beta != 0) fill(&c);
  double *want = expected(&a, &b, &c, alpha, beta);
  tile t = {.m = m,
            .n = n,
            .k = k,
            .a = a.first,
            .rs_a = a.rs,
            .cs_a = a.cs,
            .b = b.first,
            .rs_b = b.rs,
            .c = c.first,
            .rs_c = c.rs,
            .alpha = alpha,
            .beta = beta};
  if (packed)
    multiply_packed(kn, &a, &b, &t);
  else
    kn->multiply(&t);
  check_equal(&c, want, packed ? "packed tile" : "tile in place");
  CHECK(numbers_in(&c) == m * n, "wrote outside a %td x %td tile of %s", m, n, kn->name);
  free(want);
  free(a.memory);
  free(b.memory);
  free(c.memory);
}

static void test_tiles(int type) {
  const kernel *kn = dispatch_kernel(type);
  for (ptrdiff_t m = 1; m <= kn->mr; m++)
    for (ptrdiff_t n = 1; n <= kn->nr; n++)
      for (ptrdiff_t k = 1, i = m + n; k < 64; k += 1 + k / 2, i++) {
        if (left_out(i)) continue;
        one(kn, m, n, k, false);
        one(kn, m, n, k, true);
      }
}

static void check_panel(const kernel *kn, pack_fn *pack, int width, ptrdiff_t valid, ptrdiff_t k,
                        enum layout layout) {
  matrix from = make(kn->type, valid, k, layout, 1);
  const ptrdiff_t elements = width * k;
  void *panel = malloc((size_t)(elements + 1) * size_of(kn->type));
  fill(&from);
  put(kn->type, panel, elements, 12345);
  pack(valid, k, from.first, from.rs, from.cs, panel);
  for (ptrdiff_t p = 0; p < k; p++)
    for (ptrdiff_t w = 0; w < valid; w++)
      CHECK(get(kn->type, panel, p * width + w) == at(&from, w, p),
            "%s, width %d, layout %d, (%td, %td)", kn->name, width, (int)layout, w, p);
  CHECK(get(kn->type, panel, elements) == 12345, "%s wrote past its panel", kn->name);
  free(panel);
  free(from.memory);
}

static void test_packing(int type) {
  const kernel *kn = dispatch_kernel(type);
  for (int layout = 0; layout < LAYOUTS; layout++)
    for (ptrdiff_t k = 1; k < 40; k++) {
      if (left_out(layout + k)) continue;
      for (ptrdiff_t valid = 1; valid <= kn->mr; valid++)
        check_panel(kn, kn->pack_a, kn->mr, valid, k, (enum layout)layout);
      for (ptrdiff_t valid = 1; valid <= kn->nr; valid++)
        check_panel(kn, kn->pack_b, kn->nr, valid, k, (enum layout)layout);
    }
}

static void check_blocked(int type, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, blocking blocks,
                          int threads, int i) {
  const double beta = i % 3;
  matrix a = make(type, m, k, (enum layout)(i % LAYOUTS), 0);
  matrix b = make(type, k, n, (enum layout)(i / 2 % LAYOUTS), 0);
  matrix c = make(type, m, n, (enum layout)(i % C_LAYOUTS), 0);
  fill(&a);
  fill(&b);
  if (beta != 0) fill(&c);
  double *want = expected(&a, &b, &c, 1, beta);
  const product p = product_of(&a, &b, &c, 1, beta);
  CHECK(gemm_blocked(&p, blocks, threads) == GEMM_OK, "blocked");
  check_equal(&c, want, "blocked");
  CHECK(numbers_in(&c) == m * n, "wrote outside C");
  free(want);
  free(a.memory);
  free(b.memory);
  free(c.memory);
}

/* A whole product cut into tiny blocks, so that every loop around the micro-kernel runs several times. */
static void test_blocks(int type) {
  const kernel *kn = dispatch_kernel(type);
  for (int threads = 1; threads <= 3; threads++)
    for (int i = 0; i < 12; i++) {
      const ptrdiff_t m = 1 + random_below(5 * kn->mr), n = 1 + random_below(5 * kn->nr);
      const blocking blocks = {kn->mr * (1 + i % 2), 4 + i % 7, kn->nr * (1 + i % 3)};
      check_blocked(type, m, n, 1 + random_below(50), blocks, threads, i);
    }
}

/* B's next panel comes in pieces while the present one is used: more of them than fit K, fewer, a short last
 * one; kept for further blocks of rows, and not; and fewer tiles than pieces. */
static void test_pieces(int type) {
  const kernel *kn = dispatch_kernel(type);
  for (int i = 0; i < 16; i++) {
    const ptrdiff_t m = 1 + random_below(12 * kn->mr), n = 3 * kn->nr + 1 + random_below(kn->nr);
    const blocking blocks = {kn->mr * (3 + 10 * (i % 2)), 90 + 30 * (i % 5), 100 * kn->nr};
    check_blocked(type, m, n, 100 + random_below(300), blocks, 1 + i % 2, i);
  }
}

/* Grids of every kind: more threads than tiles, counts that divide nothing. */
static void test_grids(int type) {
  const kernel *kn = dispatch_kernel(type);
  const blocking blocks = {4 * kn->mr, 64, 4 * kn->nr};
  static const int counts[] = {2, 5, 7, 16, 300};
  for (int i = 0; i < 5; i++) {
    check_blocked(type, 5 * kn->mr + 3, 5 * kn->nr + 1, 20, blocks, counts[i], i);
    check_blocked(type, 2, 20 * kn->nr, 20, blocks, counts[i], i);
    check_blocked(type, 30 * kn->mr, 3, 20, blocks, counts[i], i);
  }
}

int main(void) {
  on_every_isa(test_tiles);
  on_every_isa(test_packing);
  on_every_isa(test_blocks);
  on_every_isa(test_pieces);
  on_every_isa(test_grids);
  return 0;
}
