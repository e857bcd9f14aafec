/* One product on several threads: C is cut into blocks, each a product of its own that reads A and B in place
 * or packs them for itself, so that nobody waits for anybody. A panel that another core has packed comes from
 * that core's cache: at 384^3 on 16 threads panels in common took 1.4 times as long in float32, 1.9 in float64. */
#include "internal.h"

enum {
  ITEMS_PER_THREAD = 2,
  MORE_ITEMS = 8,
  MAX_OWNERS = 64,
  FEWEST_ROWS = 12,
  FEWEST_COLUMNS = 32
};
enum { LARGEST_OWN = 576 * 576 * 576, LARGE_VOLUME = 800 * 800 * 800 };

typedef struct {
  const product *p;
  ptrdiff_t down, across; /* blocks */
  worklist list;
  atomic_int status;
} job;

/* Where block `index` of `parts` begins. */
static ptrdiff_t begin(ptrdiff_t whole, ptrdiff_t parts, ptrdiff_t index) {
  return whole * index / parts;
}

static int alone(const product *p) {
  if (!small_fits(p)) return blocked_alone(p, dispatch_blocks(p->kn));
  small_product(p);
  return GEMM_OK;
}

static void block_product(job *w, ptrdiff_t item) {
  const ptrdiff_t row = item / w->across, column = item % w->across;
  const ptrdiff_t i = begin(w->p->m, w->down, row), m = begin(w->p->m, w->down, row + 1) - i;
  const ptrdiff_t j = begin(w->p->n, w->across, column);
  const product p = block_of(w->p, i, j, m, begin(w->p->n, w->across, column + 1) - j);
  const int status = alone(&p);
  if (status != GEMM_OK) atomic_store(&w->status, status);
}

static void work(void *arg, int id, int count) {
  job *w = arg;
  (void)count;
  for (ptrdiff_t item; (item = worklist_take(&w->list, id)) >= 0;) block_product(w, item);
}

/* Halves the longer side, in steps of a tile, until there are enough blocks. */
static void cut(job *w, ptrdiff_t enough) {
  while (w->down * w->across < enough) {
    const ptrdiff_t rows = w->p->m / w->down, columns = w->p->n / w->across;
    const bool tall = rows >= 2 * FEWEST_ROWS, wide = columns >= 2 * FEWEST_COLUMNS;
    if (!tall && !wide) return;
    if (tall && (rows >= columns || !wide))
      w->down *= 2;
    else
      w->across *= 2;
  }
}

static void share(job *w, int owners) {
  counter counters[MAX_OWNERS + 1];
  for (int i = 0; i <= owners; i++) atomic_init(&counters[i].value, 0);
  w->list = (worklist){counters, w->down * w->across, owners};
  pool_run(work, w, owners);
}

/* The job of `threads` threads, and whether its blocks are read in place, or so small that nothing is gained by
 * a grid that counts what packing costs. */
static bool plan(job *w, const product *p, int threads) {
  const double volume = (double)p->m * (double)p->n * (double)p->k;
  *w = (job){.p = p, .down = 1, .across = 1};
  if (threads > 1)
    cut(w, (ptrdiff_t)threads * (volume > LARGE_VOLUME ? MORE_ITEMS : ITEMS_PER_THREAD));
  product block = *p;
  block.m = ceil_div(p->m, w->down), block.n = ceil_div(p->n, w->across);
  return small_fits(&block) || (threads > 1 && volume <= LARGEST_OWN);
}

bool shared_product(const product *p, int threads, int *status) {
  job w;
  const int owners = (int)min_of(threads, MAX_OWNERS);
  if (!plan(&w, p, owners)) return false;
  if (w.down * w.across > 1)
    share(&w, owners);
  else
    block_product(&w, 0);
  *status = w.status;
  return true;
}
