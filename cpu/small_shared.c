/* One small product on several threads: C is cut into blocks, each a small product of its own that reads A and
 * B in place, so that nothing is packed together and nobody waits for anybody. */
#include "internal.h"

enum { ITEMS_PER_THREAD = 2, MAX_OWNERS = 64, FEWEST_ROWS = 12, FEWEST_COLUMNS = 32 };

typedef struct {
  const product *p;
  ptrdiff_t down, across; /* blocks */
  worklist list;
} job;

/* Where block `index` of `parts` begins. */
static ptrdiff_t begin(ptrdiff_t whole, ptrdiff_t parts, ptrdiff_t index) {
  return whole * index / parts;
}

static void block_product(const job *w, ptrdiff_t item) {
  const ptrdiff_t row = item / w->across, column = item % w->across, size = w->p->kn->size;
  product p = *w->p;
  const ptrdiff_t i = begin(p.m, w->down, row), j = begin(p.n, w->across, column);
  p.m = begin(p.m, w->down, row + 1) - i, p.n = begin(p.n, w->across, column + 1) - j;
  p.a += i * p.rs_a * size;
  p.b += j * p.cs_b * size;
  p.c += (i * p.rs_c + j * p.cs_c) * size;
  small_product(&p);
}

static void work(void *arg, int id, int count) {
  const job *w = arg;
  (void)count;
  for (ptrdiff_t item; (item = worklist_take(&w->list, id)) >= 0;) block_product(w, item);
}

/* Halves the longer side, in steps of a tile, until there are enough blocks. */
static void cut(job *w, ptrdiff_t enough) {
  w->down = w->across = 1;
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

void small_shared(const product *p, int threads) {
  job w = {.p = p};
  const int owners = (int)min_of(threads, MAX_OWNERS);
  if (owners > 1) cut(&w, (ptrdiff_t)owners * ITEMS_PER_THREAD);
  if (w.down * w.across > 1)
    share(&w, owners);
  else
    small_product(p);
}
