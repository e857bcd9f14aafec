/* Every product of sizes 1 to 40, and a sample up to 72: operands against an unmapped page, C among sentinels, real numbers against
 * a reference in long double. One large A B, summed step by step over k, holds every reference. */
#define _GNU_SOURCE
#include "guard.h"

enum { EVERY = 40, MOST = 72, SAMPLE = 16, ARENA = 45056 };
enum { SENTINEL = 0xff }; /* bytes of ones: NaN in both types */

static long double sums[MOST + 1][MOST][MOST], sizes[MOST + 1][MOST][MOST];
static char *arenas[3], untouched[ARENA];
static ptrdiff_t arena_bytes;

static matrix place(int type, ptrdiff_t rows, ptrdiff_t columns, char *arena) {
  static const enum layout layouts[] = {ROWS, COLUMNS, WIDE_ROWS, REVERSED};
  matrix m = {.type = type, .rows = rows, .columns = columns};
  set_strides(&m, layouts[random_below(4)]);
  const ptrdiff_t size = (ptrdiff_t)size_of(type);
  const ptrdiff_t bytes = (span(rows, m.rs) + span(columns, m.cs) + 1) * size;
  memset(arena, SENTINEL, (size_t)arena_bytes);
  char *first = random_below(4) ? arena + arena_bytes - bytes : arena;
  m.memory = arena;
  m.first = m.rs < 0 ? first + bytes - size : first;
  return m;
}

static void copy_corner(const matrix *to, const matrix *from) {
  for (ptrdiff_t i = 0; i < to->rows; i++)
    for (ptrdiff_t j = 0; j < to->columns; j++) set(to, i, j, at(from, i, j));
}

static void sum_up(const matrix *a, const matrix *b) {
  for (ptrdiff_t p = 0; p < MOST; p++)
    for (ptrdiff_t i = 0; i < MOST; i++)
      for (ptrdiff_t j = 0; j < MOST; j++) {
        const long double term = (long double)at(a, i, p) * at(b, p, j);
        sums[p + 1][i][j] = sums[p][i][j] + term;
        sizes[p + 1][i][j] = sizes[p][i][j] + fabsl(term);
      }
}

/* Takes each element out again, so that only what lies outside C is left to differ. */
static void check_real(const matrix *c, const matrix *c0, ptrdiff_t k, double alpha, double beta) {
  const double unit = 2 * (double)(k + 4) * unit_roundoff(c->type);
  for (ptrdiff_t i = 0; i < c->rows; i++)
    for (ptrdiff_t j = 0; j < c->columns; j++) {
      const long double old = beta != 0 ? beta * (long double)at(c0, i, j) : 0;
      const long double want = alpha * sums[k][i][j] + old, got = at(c, i, j);
      const long double bound = unit * (fabs(alpha) * sizes[k][i][j] + fabsl(old));
      CHECK(fabsl(got - want) <= bound,
            "%s f%d %td x %td x %td, C strides %td %td, alpha %g, beta %g, at (%td, %td): %Lg "
            "instead of %Lg",
            gemm_isa(), c->type == GEMM_F32 ? 32 : 64, c->rows, c->columns, k, c->rs, c->cs, alpha,
            beta, i, j, got, want);
      memset((char *)c->first + (i * c->rs + j * c->cs) * (ptrdiff_t)size_of(c->type), SENTINEL,
             size_of(c->type));
    }
  CHECK(memcmp(c->memory, untouched, (size_t)arena_bytes) == 0,
        "%s f%d %td x %td x %td: wrote outside C", gemm_isa(), c->type == GEMM_F32 ? 32 : 64,
        c->rows, c->columns, k);
}

static void one(const matrix *full, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k) {
  static const double alphas[] = {1, 1, -0.75}, betas[] = {0, 0, 1, 0.5};
  const double alpha = alphas[random_below(3)], beta = betas[random_below(4)];
  const int type = full->type;
  const matrix a = place(type, m, k, arenas[0]), b = place(type, k, n, arenas[1]);
  const matrix c = place(type, m, n, arenas[2]);
  copy_corner(&a, &full[0]);
  copy_corner(&b, &full[1]);
  if (beta != 0) copy_corner(&c, &full[2]);
  const gemm_call call = call_of(&a, &b, &c, alpha, beta);
  CHECK(gemm_run(&call) == GEMM_OK, "%td x %td x %td", m, n, k);
  check_real(&c, &full[2], k, alpha, beta);
}

static void sizes_up_to(const matrix *full, ptrdiff_t most, ptrdiff_t one_in) {
  arena_bytes = round_up(most * (most + 3) * (ptrdiff_t)sizeof(double), 4096);
  for (int i = 0; i < 3; i++) arenas[i] = guarded((size_t)arena_bytes, true);
  for (ptrdiff_t m = 1; m <= most; m++)
    for (ptrdiff_t n = 1; n <= most; n++)
      for (ptrdiff_t k = 1; k <= most; k++)
        if (random_below(one_in * one_case_in()) == 0) one(full, m, n, k);
  for (int i = 0; i < 3; i++) release(arenas[i], (size_t)arena_bytes);
}

static void test_every_size(int type) {
  matrix full[3];
  for (int i = 0; i < 3; i++) {
    full[i] = make(type, MOST, MOST, ROWS, 0);
    fill_real(&full[i]);
  }
  sum_up(&full[0], &full[1]);
  sizes_up_to(full, EVERY, 1);
  sizes_up_to(full, MOST, SAMPLE);
  for (int i = 0; i < 3; i++) free(full[i].memory);
}

int main(void) {
  memset(untouched, SENTINEL, ARENA);
  on_every_isa(test_every_size);
  return 0;
}
