/* Small C, long K: stretches of K are small products in place, each added to the one before. Threads share K:
 * every item sums a range of it into a C of its own, and then the rows of these are added up. Which range goes
 * into which sum depends on the thread count in force alone, not on who takes part: the same bits every time. */
#include "internal.h"

enum { MAX_ITEMS = 64, LARGEST_C = 128 * 128, SHORTEST_K = 512, FEWEST_K = 128, LINE = 16 };

typedef struct {
  const product *p;
  worklist products, sums;
  char *parts; /* m x n for each item */
} job;

/* As long as small_product allows. With 256 it was 1 to 2 % slower; rows of A a multiple of 4096 bytes apart,
 * which compete for one place of the first-level cache, were 14 % faster in place than copied. */
enum { STRETCH = 512, SHORTEST_STRETCH = 128 };

/* With AVX2, where B's rows are not whole cache lines, neighbouring panels of B share lines: then as long as all of
 * a stretch of B stays in the first-level cache. f32 37x53x4099 1.25 times as fast, 100x50x2500 1.15, f64
 * 40x27x3000 1.17; with rows of whole lines, or stretches shorter than 128, nothing to 30 % slower. */
static ptrdiff_t stretch_of(const product *p) {
  const ptrdiff_t size = p->kn->size, apart = p->rs_b * size;
  if (!p->kn->panel_in_l1 || p->cs_b != 1 || p->m <= p->kn->mr || apart % CACHE_LINE == 0)
    return STRETCH;
  const ptrdiff_t row = min_of(max_of(apart, 1), p->n * size + CACHE_LINE);
  const ptrdiff_t fits = cache_bytes(1) * 7 / 8 / row / LINE * LINE;
  return fits < SHORTEST_STRETCH ? STRETCH : min_of(fits, STRETCH);
}

bool split_k_fits(const product *p) {
  if (p->k <= SHORTEST_K || p->k / 4 < max_of(p->m, p->n)) return false;
  if ((double)p->m * (double)p->n > LARGEST_C) return false;
  return p->cs_b != 1 || !rows_collide(p->k, 2 * p->rs_b, p->kn->size);
}

/* C = alpha * A[:, first:last] B[first:last, :] + beta * C */
static void stretches(product q, ptrdiff_t first, ptrdiff_t last) {
  const ptrdiff_t size = q.kn->size, stretch = stretch_of(&q);
  const char *a = q.a, *b = q.b;
  for (ptrdiff_t at = first; at < last; at += stretch, q.beta = 1) {
    q.k = min_of(stretch, last - at);
    q.a = a + at * q.cs_a * size;
    q.b = b + at * q.rs_b * size;
    small_product(&q);
  }
}

static ptrdiff_t from(const job *w, ptrdiff_t item) { /* whole cache lines of rows of A */
  const ptrdiff_t lines = ceil_div(w->p->k, LINE);
  return min_of(w->p->k, lines * item / w->products.items * LINE);
}

static void product_item(const job *w, ptrdiff_t item) {
  product q = *w->p;
  q.alpha = 1, q.beta = 0;
  q.c = w->parts + item * q.m * q.n * q.kn->size, q.rs_c = q.n, q.cs_c = 1;
  stretches(q, from(w, item), from(w, item + 1));
}

/* One row of C: all parts of it times a vector of ones. */
static void sum_item(const job *w, ptrdiff_t i) {
  static const float ones_f32[MAX_ITEMS] = {[0 ... MAX_ITEMS - 1] = 1};
  static const double ones_f64[MAX_ITEMS] = {[0 ... MAX_ITEMS - 1] = 1};
  const product *p = w->p;
  const ptrdiff_t size = p->kn->size;
  const void *ones = p->kn->type == GEMM_F32 ? (const void *)ones_f32 : (const void *)ones_f64;
  const matvec sum = {p->n,
                      w->products.items,
                      w->parts + i * p->n * size,
                      1,
                      p->m * p->n,
                      ones,
                      p->c + i * p->rs_c * size,
                      p->cs_c,
                      p->alpha,
                      p->beta,
                      false};
  p->kn->add_columns(&sum);
}

static void work(void *arg, int id, int count) {
  const job *w = arg;
  (void)count;
  for (ptrdiff_t item; (item = worklist_take(&w->products, id)) >= 0; worklist_finish(&w->products))
    product_item(w, item);
  worklist_wait(&w->products);
  for (ptrdiff_t item; (item = worklist_take(&w->sums, id)) >= 0;) sum_item(w, item);
}

static int share(const product *p, int threads) {
  const int items = (int)min_of(threads, min_of(MAX_ITEMS, ceil_div(p->k, FEWEST_K)));
  char *parts = buffer_get((size_t)(items * p->m * p->n * p->kn->size));
  if (!parts) return GEMM_NO_MEMORY;
  counter counters[2 * (MAX_ITEMS + 1)];
  const ptrdiff_t each = worklist_counters(items);
  for (ptrdiff_t i = 0; i < 2 * each; i++) atomic_init(&counters[i].value, 0);
  job w = {p, {counters, items, items}, {counters + each, p->m, items}, parts};
  pool_run(work, &w, items);
  return GEMM_OK;
}

int split_k_product(const product *p, int threads) {
  if (threads > 1) return share(p, threads);
  stretches(*p, 0, p->k);
  return GEMM_OK;
}
