/* One small product, or a batch of them, on several threads: the same bits in the same places. */
#include "check.h"

static void one(int type, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, int threads, int way) {
  const double beta = way % 3;
  matrix a = make(type, m, k, (enum layout)(way % LAYOUTS), 1);
  matrix b = make(type, k, n, (enum layout)(way / 2 % LAYOUTS), 2);
  matrix c = make(type, m, n, (enum layout)(way % C_LAYOUTS), 3);
  fill(&a);
  fill(&b);
  if (beta != 0) fill(&c);
  double *want = expected(&a, &b, &c, -2, beta);
  const product p = product_of(&a, &b, &c, -2, beta);
  int status = -1;
  CHECK(shared_product(&p, threads, &status) && status == GEMM_OK,
        "%td x %td x %td, %d threads: not shared", m, n, k, threads);
  check_equal(&c, want, "shared by threads");
  CHECK(numbers_in(&c) == m * n, "wrote outside C");
  free(want);
  free(a.memory);
  free(b.memory);
  free(c.memory);
}

static void test_blocks_of_one(int type) {
  for (int threads = 1; threads <= 70; threads += 1 + threads / 3)
    for (int way = 0; way < 12; way++)
      one(type, 2 + random_below(90), 2 + random_below(130), 1 + random_below(60), threads, way);
  one(type, 200, 250, 40, 16, 0);
}

/* On one thread, the largest A that is read in place, and half of it: what that is depends on the caches. */
static void test_alone(int type) {
  const kernel *kn = dispatch_kernel(type);
  const blocking blocks = dispatch_blocks(kn);
  const ptrdiff_t k = 100, part = 2 * blocks.mc * blocks.kc / k;
  const ptrdiff_t m = part * kn->parts_in_place - 1, most = 768;
  one(type, min_of(m, most), most, k, 1, 0);
  one(type, min_of(m / 2, most), most, k, 1, 0);
}

/* Blocks that read A in place, in one part and in two, with panels of B packed, or by stretches of K; and, A's
 * rows 4096 bytes apart, such as pack it for themselves. For one thread that does, shared_product does nothing. */
static void test_middle(int type) {
  const ptrdiff_t row = 4096 / (ptrdiff_t)size_of(type);
  for (int threads = 2; threads <= 3; threads++) {
    one(type, 290, 300, 300, threads, 0);
    one(type, 600, 60, 640, threads, 0);
    one(type, 300, 512, 150, threads, 0);
  }
  one(type, 270, 270, row, 4, 0);
  one(type, 100, 70, row, 2, 0);
  one(type, 90, 60, 1100, 1, 0);
  matrix a = make(type, 270, row, ROWS, 0), b = make(type, row, 270, ROWS, 0),
         c = make(type, 270, 270, ROWS, 0);
  const product p = product_of(&a, &b, &c, 1, 0);
  int status = -1;
  CHECK(!shared_product(&p, 1, &status) && status == -1, "one thread packs A that collides");
  free(a.memory);
  free(b.memory);
  free(c.memory);
}

enum { N = 23, BATCH = 301, EACH = N * N };

static gemm_call batch_of(const matrix *a, const matrix *b, const matrix *c) {
  gemm_call call = call_of(a, b, c, 1, 0);
  call.m = N, call.batch = BATCH;
  call.bs_a = call.bs_b = call.bs_c = EACH;
  return call;
}

/* Enough work for every thread there is; the products one by one are the reference. */
static void test_batch(int type) {
  matrix a = make(type, BATCH * N, N, ROWS, 0), b = make(type, BATCH * N, N, ROWS, 1);
  matrix c = make(type, BATCH * N, N, ROWS, 0), d = make(type, BATCH * N, N, ROWS, 0);
  fill(&a);
  fill(&b);
  const gemm_call together = batch_of(&a, &b, &c);
  CHECK(threads_worth(BATCH, N, N, N) == gemm_threads_get(), "the batch is too small for a test");
  CHECK(gemm_run(&together) == GEMM_OK, "batch");
  const ptrdiff_t bytes = EACH * (ptrdiff_t)size_of(type);
  for (ptrdiff_t i = 0; i < BATCH; i++) {
    gemm_call alone = batch_of(&a, &b, &d);
    alone.batch = 1;
    alone.a = (const char *)alone.a + i * bytes, alone.b = (const char *)alone.b + i * bytes;
    alone.c = (char *)alone.c + i * bytes;
    CHECK(gemm_run(&alone) == GEMM_OK, "alone");
  }
  CHECK(memcmp(c.memory, d.memory, (size_t)c.elements * size_of(type)) == 0, "another result");
  free(a.memory);
  free(b.memory);
  free(c.memory);
  free(d.memory);
}

int main(void) {
  on_every_isa(test_blocks_of_one);
  on_every_isa(test_alone);
  on_every_isa(test_middle);
  on_every_isa(test_batch);
  return 0;
}
