/* Elements billions apart: offsets beyond 2^31, in sparse memory of which only the elements' own pages exist. */
#define _GNU_SOURCE
#include "check.h"

#include <sys/mman.h>

#define FAR ((ptrdiff_t)1 << 29)

typedef struct {
  matrix m;
  void *memory;
  size_t bytes;
} far_matrix;

/* `rs` or `cs` may be negative: then the first element is the last in memory. */
static far_matrix make_far(int type, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t rs,
                           ptrdiff_t cs) {
  far_matrix f = {.m = {.type = type, .rows = rows, .columns = columns, .rs = rs, .cs = cs}};
  const ptrdiff_t before = (rs < 0 ? span(rows, rs) : 0) + (cs < 0 ? span(columns, cs) : 0);
  f.bytes = (size_t)(span(rows, rs) + span(columns, cs) + 1) * size_of(type);
  f.memory = mmap(NULL, f.bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (f.memory == MAP_FAILED) {
    printf("skipped: the system does not map %zu bytes of sparse memory\n", f.bytes);
    exit(SKIPPED);
  }
  madvise(f.memory, f.bytes, MADV_NOHUGEPAGE); /* a huge page for each element would be memory */
  f.m.first = (char *)f.memory + before * (ptrdiff_t)size_of(type);
  return f;
}

typedef struct {
  ptrdiff_t m, n, k;
  ptrdiff_t rs_a, cs_a, rs_b, cs_b, rs_c, cs_c;
} far_case;

static void one(int type, const far_case *f, double beta) {
  far_matrix a = make_far(type, f->m, f->k, f->rs_a, f->cs_a);
  far_matrix b = make_far(type, f->k, f->n, f->rs_b, f->cs_b);
  far_matrix c = make_far(type, f->m, f->n, f->rs_c, f->cs_c);
  fill(&a.m);
  fill(&b.m);
  fill(&c.m);
  double *want = expected(&a.m, &b.m, &c.m, 1, beta);
  const gemm_call call = call_of(&a.m, &b.m, &c.m, 1, beta);
  CHECK(gemm_run(&call) == GEMM_OK, "%td x %td x %td", f->m, f->n, f->k);
  check_equal(&c.m, want, "far apart");
  free(want);
  munmap(a.memory, a.bytes);
  munmap(b.memory, b.bytes);
  munmap(c.memory, c.bytes);
}

static void test_far(int type) {
  static const far_case cases[] = {
      {9, 7, 5, FAR, 1, 7, 1, 7, 1},           {9, 7, 5, 1, FAR, 7, 1, 7, 1},
      {5, 9, 9, 9, 1, FAR, 1, 9, 1},           {5, 9, 9, 9, 1, 1, FAR, 9, 1},
      {9, 17, 3, 3, 1, 17, 1, FAR, 1},         {17, 9, 3, 3, 1, 9, 1, 1, FAR},
      {9, 9, 9, FAR, 1, FAR, 1, FAR, 1},       {9, 9, 9, -FAR, 1, 1, -FAR, -FAR, -1},
      {9, 1, 40, FAR, 1, 1, 1, 1, 1},          {40, 1, 9, 1, FAR, 1, 1, 1, 1},
      {9, 1, 40, FAR, 1, 1, 1, FAR, 1},        {40, 1, 9, 1, FAR, FAR, 1, 1, 1},
      {1, 40, 9, 1, FAR, FAR, 1, 1, 1},        {1, 9, 40, 1, 1, 1, -FAR, 1, FAR},
      {9, 40, 40, FAR + 3, 1, 40, 1, 40, 1},   {33, 40, 300, 300, 1, FAR / 32, 1, 40, 1},
      {300, 40, 33, FAR / 64, 1, 40, 1, 40, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) one(type, &cases[i], (double)(i % 2));
}

/* Products so large that they are cut, packed and shared between threads, with rows far apart. */
static void test_far_blocked(int type) {
  const ptrdiff_t step = FAR / 16;
  const far_case cases[] = {{300, 200, 210, step, 1, 200, 1, 200, 1},
                            {200, 210, 300, 300, 1, step, 1, 210, 1},
                            {300, 200, 210, 210, 1, 200, 1, step, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) one(type, &cases[i], 1);
}

/* One product after another, 2^31 elements apart. */
static void test_far_batch(int type) {
  enum { COUNT = 4, N = 6 };
  far_matrix a = make_far(type, COUNT, N * N, 4 * FAR, 1);
  far_matrix b = make_far(type, COUNT, N * N, -4 * FAR, 1);
  far_matrix c = make_far(type, COUNT, N * N, 4 * FAR, 1);
  fill(&a.m);
  fill(&b.m);
  const gemm_call call = {.type = type,
                          .alpha = 1,
                          .m = N,
                          .n = N,
                          .k = N,
                          .batch = COUNT,
                          .a = a.m.first,
                          .rs_a = N,
                          .cs_a = 1,
                          .bs_a = 4 * FAR,
                          .b = b.m.first,
                          .rs_b = N,
                          .cs_b = 1,
                          .bs_b = -4 * FAR,
                          .c = c.m.first,
                          .rs_c = N,
                          .cs_c = 1,
                          .bs_c = 4 * FAR};
  CHECK(gemm_run(&call) == GEMM_OK, "a batch far apart");
  for (ptrdiff_t p = 0; p < COUNT; p++)
    for (ptrdiff_t i = 0; i < N; i++)
      for (ptrdiff_t j = 0; j < N; j++) {
        double sum = 0;
        for (ptrdiff_t q = 0; q < N; q++) sum += at(&a.m, p, i * N + q) * at(&b.m, p, q * N + j);
        CHECK(at(&c.m, p, i * N + j) == sum, "product %td at (%td, %td)", p, i, j);
      }
  munmap(a.memory, a.bytes);
  munmap(b.memory, b.bytes);
  munmap(c.memory, c.bytes);
}

int main(void) {
  on_every_isa(test_far);
  on_every_isa(test_far_blocked);
  on_every_isa(test_far_batch);
  return 0;
}
