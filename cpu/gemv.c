/* y = alpha * A x + beta * y. Rows of A, or columns, are contiguous in the usual layouts; other strides are
 * read element by element. Threads share the rows, or for few long rows the columns. */
#include "internal.h"

#include <string.h>

enum { FEWEST_BYTES_PER_THREAD = 1 << 18, NEAR_BYTES = 1 << 20, ROW_GRAIN = 16 };
enum { ITEMS_FAR = 4, ITEMS_NEAR = 1, COLUMNS_OF_ITEM = 32, MAX_THREADS = 64 };

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
  char *parts; /* of y, one for each item; where columns are shared */
  ptrdiff_t part_rows;
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
  part.y = w->parts + item * w->part_rows * size, part.inc_y = 1;
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

static void share(job *w, int threads) {
  counter counters[MAX_THREADS + 1];
  for (int i = 0; i <= threads; i++) atomic_init(&counters[i].value, 0);
  w->list.counters = counters, w->list.owners = threads;
  pool_run(work, w, threads);
}

/* The sum of all parts is one more product, with a vector of ones. */
static void add_parts(const job *w) {
  static const float ones_f32[MAX_THREADS * ITEMS_FAR] = {[0 ... MAX_THREADS * ITEMS_FAR - 1] = 1};
  static const double ones_f64[MAX_THREADS * ITEMS_FAR] = {[0 ... MAX_THREADS * ITEMS_FAR - 1] = 1};
  const matvec *v = w->whole;
  matvec sum = *v;
  sum.n = w->list.items, sum.far = false;
  sum.a = w->parts, sum.rs_a = 1, sum.cs_a = w->part_rows;
  sum.x = w->kn->type == GEMM_F32 ? (const void *)ones_f32 : (const void *)ones_f64;
  w->kn->add_columns(&sum);
}

static int threads_for(const product *p) {
  const double bytes = (double)p->m * (double)p->k * (double)p->kn->size;
  const double most = bytes / FEWEST_BYTES_PER_THREAD;
  const int threads = (int)min_of(gemm_threads_get(), MAX_THREADS);
  if (most < 2) return 1;
  return most < threads ? (int)most : threads;
}

/* Few long rows; or contiguous columns, so many that reading them outweighs a y for each item: then every
 * thread reads memory from one end to the other. */
static bool columns_are_shared(const matvec *v, int threads, ptrdiff_t items) {
  if (threads == 1) return false;
  if (v->rs_a == 1 && v->cs_a != 1) return v->n >= COLUMNS_OF_ITEM * items;
  return v->m < (ptrdiff_t)ROW_GRAIN * threads && v->n >= items;
}

static void copy_vector(char *to, const char *from, ptrdiff_t n, ptrdiff_t step, ptrdiff_t size) {
  for (ptrdiff_t i = 0; i < n; i++, from += step * size, to += size) memcpy(to, from, (size_t)size);
}

int gemv_product(const product *p) {
  matvec v = {p->m, p->k, p->a, p->rs_a, p->cs_a, p->b, p->c, p->rs_c, p->alpha, p->beta, false};
  const ptrdiff_t size = p->kn->size;
  const int threads = threads_for(p);
  /* What lies in a thread's own cache stays with that thread. */
  const bool far = (double)v.m * (double)v.n * (double)size > (double)NEAR_BYTES * threads;
  v.far = far && p->kn->far_streams;
  const ptrdiff_t items = threads * (far ? ITEMS_FAR : ITEMS_NEAR);
  const bool columns = columns_are_shared(&v, threads, items);
  job w = {p->kn, &v, {NULL, items, 0}, NULL, round_up(v.m, CACHE_LINE)};
  const ptrdiff_t parts = columns ? items * w.part_rows * size : 0;
  const ptrdiff_t copy = p->rs_b != 1 && p->k > 1 ? v.n * size : 0;
  char *memory = parts + copy > 0 ? buffer_get((size_t)(parts + copy)) : NULL;
  if (parts + copy > 0 && !memory) return GEMM_NO_MEMORY;
  if (columns) w.parts = memory;
  if (copy > 0) {
    copy_vector(memory + parts, p->b, v.n, p->rs_b, size);
    v.x = memory + parts;
  }
  if (threads == 1)
    rows_product(p->kn, &v);
  else
    share(&w, threads);
  if (columns) add_parts(&w);
  return GEMM_OK;
}
