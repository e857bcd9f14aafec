/* y = alpha * A x + beta * y. Rows of A, or columns, are contiguous in the usual layouts; other strides are
 * read element by element. Threads share the rows, or for few long rows the columns. */
#include "internal.h"

#include <string.h>

enum { FEWEST_BYTES_PER_THREAD = 1 << 18, ROW_GRAIN = 16, ITEMS_PER_THREAD = 4 };
enum { MAX_THREADS = 64, MAX_PARTS = 64, SPLIT_ROWS = 64 };

#define DEFINE_LOOSE(T, name)                                                                      \
  static void name(const matvec *v) {                                                              \
    const T *x = v->x;                                                                             \
    for (ptrdiff_t i = 0; i < v->m; i++) {                                                         \
      const T *a = (const T *)v->a + i * v->rs_a;                                                  \
      T sum = 0, *y = (T *)v->y + i * v->inc_y;                                                    \
      for (ptrdiff_t j = 0; j < v->n; j++) sum += a[j * v->cs_a] * x[j];                           \
      *y = v->beta != 0 ? (T)v->alpha * sum + (T)v->beta * *y : (T)v->alpha * sum;                 \
    }                                                                                              \
  }

DEFINE_LOOSE(float, loose_f32)
DEFINE_LOOSE(double, loose_f64)

static void rows_product(const kernel *kn, const matvec *v) {
  if (v->cs_a == 1)
    kn->dot_rows(v);
  else if (v->rs_a == 1)
    kn->add_columns(v);
  else if (kn->type == GEMM_F32)
    loose_f32(v);
  else
    loose_f64(v);
}

typedef struct {
  const kernel *kn;
  const matvec *whole;
  worklist list;
  char *parts; /* of y, one column of SPLIT_ROWS for each item; where columns are shared */
} job;

static void rows_item(const job *w, ptrdiff_t item) {
  const ptrdiff_t grains = ceil_div(w->whole->m, ROW_GRAIN), size = w->kn->size;
  const ptrdiff_t first = min_of(w->whole->m, grains * item / w->list.items * ROW_GRAIN);
  const ptrdiff_t last = min_of(w->whole->m, grains * (item + 1) / w->list.items * ROW_GRAIN);
  matvec part = *w->whole;
  part.m = last - first;
  part.a = (const char *)part.a + first * part.rs_a * size;
  part.y = (char *)part.y + first * part.inc_y * size;
  if (part.m > 0) rows_product(w->kn, &part);
}

static void columns_item(const job *w, ptrdiff_t item) {
  const ptrdiff_t n = w->whole->n, first = n * item / w->list.items, size = w->kn->size;
  matvec part = *w->whole;
  part.n = n * (item + 1) / w->list.items - first;
  part.a = (const char *)part.a + first * part.cs_a * size;
  part.x = (const char *)part.x + first * size;
  part.y = w->parts + item * SPLIT_ROWS * size, part.inc_y = 1;
  part.alpha = 1, part.beta = 0;
  rows_product(w->kn, &part);
}

static void work(void *arg, int id, int count) {
  const job *w = arg;
  (void)count;
  for (ptrdiff_t item; (item = worklist_take(&w->list, id)) >= 0;)
    if (w->parts)
      columns_item(w, item);
    else
      rows_item(w, item);
}

static void share(const kernel *kn, const matvec *v, int threads, ptrdiff_t items, char *parts) {
  counter counters[MAX_THREADS + 1];
  threads = (int)min_of(threads, MAX_THREADS);
  for (int i = 0; i <= threads; i++) atomic_init(&counters[i].value, 0);
  job w = {kn, v, {counters, items, threads}, parts};
  pool_run(work, &w, threads);
}

/* Few long rows: partial sums side by side, then their sum as one more product, with a vector of ones. */
static void share_columns(const kernel *kn, const matvec *v, int threads) {
  static const float ones_f32[MAX_PARTS] = {[0 ... MAX_PARTS - 1] = 1};
  static const double ones_f64[MAX_PARTS] = {[0 ... MAX_PARTS - 1] = 1};
  double parts[MAX_PARTS * SPLIT_ROWS];
  const ptrdiff_t items = min_of(MAX_PARTS, (ptrdiff_t)threads * ITEMS_PER_THREAD);
  share(kn, v, threads, items, (char *)parts);
  const void *ones = kn->type == GEMM_F32 ? (const void *)ones_f32 : (const void *)ones_f64;
  const matvec sum = {v->m, items, parts, 1, SPLIT_ROWS, ones, v->y, v->inc_y, v->alpha, v->beta};
  kn->add_columns(&sum);
}

static int threads_for(const product *p) {
  const double bytes = (double)p->m * (double)p->k * (double)p->kn->size;
  const double most = bytes / FEWEST_BYTES_PER_THREAD;
  const int threads = gemm_threads_get();
  if (most < 2) return 1;
  return most < threads ? (int)most : threads;
}

static void copy_vector(char *to, const char *from, ptrdiff_t n, ptrdiff_t step, ptrdiff_t size) {
  for (ptrdiff_t i = 0; i < n; i++, from += step * size, to += size) memcpy(to, from, (size_t)size);
}

int gemv_product(const product *p) {
  matvec v = {p->m, p->k, p->a, p->rs_a, p->cs_a, p->b, p->c, p->rs_c, p->alpha, p->beta};
  if (p->rs_b != 1 && p->k > 1) {
    char *x = buffer_get((size_t)(p->k * p->kn->size));
    if (!x) return GEMM_NO_MEMORY;
    copy_vector(x, p->b, p->k, p->rs_b, p->kn->size);
    v.x = x;
  }
  const int threads = threads_for(p);
  if (threads == 1)
    rows_product(p->kn, &v);
  else if (v.m < (ptrdiff_t)ROW_GRAIN * threads && v.m <= SPLIT_ROWS)
    share_columns(p->kn, &v, threads);
  else
    share(p->kn, &v, threads, (ptrdiff_t)threads * ITEMS_PER_THREAD, NULL);
  return GEMM_OK;
}
