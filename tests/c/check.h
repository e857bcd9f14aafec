/* What the C tests share: a check that says where it failed, operands of any layout inside NaN-filled memory,
 * and a reference product. Small integers make every product exact, so results must match to the bit. */
#ifndef CHECK_H
#define CHECK_H

#include "internal.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition, ...)                                                                      \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                              \
      fprintf(stderr, __VA_ARGS__);                                                                \
      fprintf(stderr, "\n");                                                                       \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

enum { SKIPPED = 77 };

/* Sanitizers are slow, and what they look for does not depend on every size and layout. An emulator is slower
 * yet: TEST_ONE_CASE_IN thins the cases out further. */
#if defined(__SANITIZE_THREAD__)
enum { SANITIZED_ONE_IN = 8 };
#elif defined(__SANITIZE_ADDRESS__)
enum { SANITIZED_ONE_IN = 4 };
#else
enum { SANITIZED_ONE_IN = 1 };
#endif

static inline int one_case_in(void) {
  static _Thread_local int factor;
  const char *text = factor ? NULL : getenv("TEST_ONE_CASE_IN");
  if (!factor) factor = SANITIZED_ONE_IN * (text ? atoi(text) : 1);
  return factor;
}

/* For cases whose size alone makes them slow. */
static inline bool emulated(void) { return getenv("TEST_ONE_CASE_IN") != NULL; }

/* Is the case of this number to be left out? */
static inline bool left_out(ptrdiff_t number) { return number % one_case_in() != 0; }

static _Thread_local uint64_t random_state = 88172645463325252ULL;

static inline uint64_t random_bits(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

static inline ptrdiff_t random_below(ptrdiff_t n) {
  return (ptrdiff_t)((random_bits() >> 11) % (uint64_t)n);
}

static inline double random_small(void) { return (double)(random_below(17) - 8); }

static inline size_t size_of(int type) { return type == GEMM_F32 ? sizeof(float) : sizeof(double); }

static inline double get(int type, const void *p, ptrdiff_t i) {
  return type == GEMM_F32 ? ((const float *)p)[i] : ((const double *)p)[i];
}

static inline void put(int type, void *p, ptrdiff_t i, double value) {
  if (type == GEMM_F32)
    ((float *)p)[i] = (float)value;
  else
    ((double *)p)[i] = value;
}

/* A matrix somewhere inside `memory`, which is NaN wherever the matrix is not. */
typedef struct {
  int type;
  ptrdiff_t rows, columns, rs, cs, elements;
  void *memory, *first;
} matrix;

enum layout { ROWS, COLUMNS, WIDE_ROWS, STEPPED, REVERSED, SAME_ROW, SAME_COLUMN, LAYOUTS };
enum { C_LAYOUTS = REVERSED + 1 }; /* C's elements must be distinct */

static inline void set_strides(matrix *m, enum layout layout) {
  const ptrdiff_t r = m->rows, c = m->columns;
  switch (layout) {
  case COLUMNS:
    m->rs = 1, m->cs = r;
    return;
  case WIDE_ROWS:
    m->rs = c + 3, m->cs = 1;
    return;
  case STEPPED:
    m->rs = 3 * (2 * c + 1), m->cs = 2;
    return;
  case REVERSED:
    m->rs = -(c + 1), m->cs = -1;
    return;
  case SAME_ROW:
    m->rs = 0, m->cs = 1;
    return;
  case SAME_COLUMN:
    m->rs = 1, m->cs = 0;
    return;
  default:
    m->rs = c, m->cs = 1;
  }
}

static inline ptrdiff_t span(ptrdiff_t count, ptrdiff_t stride) {
  return count > 0 ? (count - 1) * (stride < 0 ? -stride : stride) : 0;
}

/* `shift` elements past a cache line, so that every alignment is met. */
static inline matrix make(int type, ptrdiff_t rows, ptrdiff_t columns, enum layout layout,
                          ptrdiff_t shift) {
  enum { MARGIN = 32 };
  matrix m = {.type = type, .rows = rows, .columns = columns};
  set_strides(&m, layout);
  const ptrdiff_t body = span(rows, m.rs) + span(columns, m.cs) + 1;
  m.elements = body + 2 * MARGIN + shift;
  const size_t bytes = (size_t)m.elements * size_of(type);
  m.memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
  CHECK(m.memory, "no memory for the test itself");
  for (ptrdiff_t i = 0; i < m.elements; i++) put(type, m.memory, i, NAN);
  ptrdiff_t first = MARGIN + shift;
  if (m.rs < 0) first += span(rows, m.rs) + span(columns, m.cs);
  m.first = (char *)m.memory + (size_t)first * size_of(type);
  return m;
}

static inline double at(const matrix *m, ptrdiff_t i, ptrdiff_t j) {
  return get(m->type, m->first, i * m->rs + j * m->cs);
}

static inline void set(const matrix *m, ptrdiff_t i, ptrdiff_t j, double value) {
  put(m->type, m->first, i * m->rs + j * m->cs, value);
}

static inline void fill(const matrix *m) {
  for (ptrdiff_t i = 0; i < m->rows; i++)
    for (ptrdiff_t j = 0; j < m->columns; j++) set(m, i, j, random_small());
}

/* How many elements of the memory are not NaN: rows x columns unless somebody wrote outside. */
static inline ptrdiff_t numbers_in(const matrix *m) {
  ptrdiff_t count = 0;
  for (ptrdiff_t i = 0; i < m->elements; i++) count += !isnan(get(m->type, m->memory, i));
  return count;
}

static inline gemm_call call_of(const matrix *a, const matrix *b, const matrix *c, double alpha,
                                double beta) {
  return (gemm_call){.type = c->type,
                     .alpha = alpha,
                     .beta = beta,
                     .m = c->rows,
                     .n = c->columns,
                     .k = a->columns,
                     .batch = 1,
                     .a = a->first,
                     .rs_a = a->rs,
                     .cs_a = a->cs,
                     .b = b->first,
                     .rs_b = b->rs,
                     .cs_b = b->cs,
                     .c = c->first,
                     .rs_c = c->rs,
                     .cs_c = c->cs};
}

static inline product product_of(const matrix *a, const matrix *b, const matrix *c, double alpha,
                                 double beta) {
  return (product){dispatch_kernel(c->type),
                   alpha,
                   beta,
                   c->rows,
                   c->columns,
                   a->columns,
                   a->first,
                   a->rs,
                   a->cs,
                   b->first,
                   b->rs,
                   b->cs,
                   c->first,
                   c->rs,
                   c->cs};
}

/* Read without ThreadSanitizer's bookkeeping: of A and B there is nothing to race for in a reference. */
#define UNWATCHED __attribute__((no_sanitize("thread")))

UNWATCHED static inline double dot(const matrix *a, const matrix *b, ptrdiff_t i, ptrdiff_t j) {
  double sum = 0;
  for (ptrdiff_t p = 0; p < a->columns; p++) {
    const ptrdiff_t x = i * a->rs + p * a->cs, y = p * b->rs + j * b->cs;
    sum += a->type == GEMM_F32 ? (double)((const float *)a->first)[x] * ((const float *)b->first)[y]
                               : ((const double *)a->first)[x] * ((const double *)b->first)[y];
  }
  return sum;
}

/* alpha * A B + beta * C as BLAS has it, dense by rows; to be freed. */
static inline double *expected(const matrix *a, const matrix *b, const matrix *c, double alpha,
                               double beta) {
  double *want = malloc((size_t)(c->rows * c->columns + 1) * sizeof *want);
  CHECK(want, "no memory for the test itself");
  for (ptrdiff_t i = 0; i < c->rows; i++)
    for (ptrdiff_t j = 0; j < c->columns; j++)
      want[i * c->columns + j] =
          (alpha != 0 ? alpha * dot(a, b, i, j) : 0) + (beta != 0 ? beta * at(c, i, j) : 0);
  return want;
}

static inline bool same(double x, double y) { return x == y || (isnan(x) && isnan(y)); }

static inline void check_equal(const matrix *c, const double *want, const char *what) {
  for (ptrdiff_t i = 0; i < c->rows; i++)
    for (ptrdiff_t j = 0; j < c->columns; j++)
      CHECK(same(at(c, i, j), want[i * c->columns + j]),
            "%s, %s, f%d, C %td x %td at (%td, %td): %g instead of %g", what, gemm_isa(),
            c->type == GEMM_F32 ? 32 : 64, c->rows, c->columns, i, j, at(c, i, j),
            want[i * c->columns + j]);
}

/* Real numbers in (-1, 1), all bits of the type used. */
static inline void fill_real(const matrix *m) {
  for (ptrdiff_t i = 0; i < m->rows; i++)
    for (ptrdiff_t j = 0; j < m->columns; j++)
      set(m, i, j, (double)(random_bits() >> 11) * 0x1p-52 - 1);
}

static inline double unit_roundoff(int type) { return type == GEMM_F32 ? 0x1p-24 : 0x1p-53; }

/* Each word of a list that the library gives, and how it ends: NULL. */
static inline const char *next_word(const char **list, char word[16]) {
  *list += strspn(*list, " ");
  const size_t length = strcspn(*list, " ");
  if (length == 0) return NULL;
  snprintf(word, 16, "%.*s", (int)length, *list);
  *list += length;
  return word;
}

/* Runs `test` on every compiled instruction set that can be reached from the one in force at the start; with
 * TEST_ISA on that one alone, which must be there. */
static inline void on_every_isa(void (*test)(int type)) {
  char name[16], best[16];
  const char *list = gemm_isa_compiled();
  const char *only = getenv("TEST_ISA");
  snprintf(best, sizeof best, "%s", gemm_isa());
  CHECK(!only || gemm_isa_set(only) == GEMM_OK, "no %s here", only);
  while (next_word(&list, name)) {
    if (only && strcmp(name, only) != 0) continue;
    if (gemm_isa_set(name) != GEMM_OK) {
      printf("not run on %s: not usable here, or above GEMM_ISA\n", name);
      continue;
    }
    for (int type = 0; type < TYPES; type++) test(type);
  }
  gemm_isa_set(best);
}

#endif
