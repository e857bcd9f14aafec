/* A large product on several threads: C is cut into blocks, each a product of its own with panels of its own,
 * so that nobody waits for anybody. What two blocks pack twice costs less than packing it together did: two
 * threads met at the end of every step of K. */
#include "internal.h"

/* Packing a row of A or a column of B takes as long as so many multiplications for each of its elements; of
 * one round of blocks, threads of unequal speed waste so much. */
enum { PACKING = 20, UNEVEN_PERCENT = 10, MOST_ROUNDS = 8, MAX_OWNERS = 256 };

typedef struct {
  const product *p;
  blocking blocks;
  ptrdiff_t tall, wide, across; /* elements of a block, blocks in a row of them */
  worklist list;
  atomic_int status;
} job;

static void block_product(job *w, ptrdiff_t item) {
  product p = *w->p;
  const ptrdiff_t i = item / w->across * w->tall, j = item % w->across * w->wide, size = p.kn->size;
  p.m = min_of(w->tall, p.m - i), p.n = min_of(w->wide, p.n - j);
  p.a += i * p.rs_a * size;
  p.b += j * p.cs_b * size;
  p.c += (i * p.rs_c + j * p.cs_c) * size;
  const int status = blocked_alone(&p, w->blocks);
  if (status != GEMM_OK) atomic_store_explicit(&w->status, status, memory_order_relaxed);
}

static void work(void *arg, int id, int count) {
  job *w = arg;
  (void)count;
  for (ptrdiff_t item; (item = worklist_take(&w->list, id)) >= 0;) block_product(w, item);
}

/* Takes the grid of down x across blocks if it is cheaper than the best so far. */
static void try_grid(job *w, int threads, ptrdiff_t down, ptrdiff_t across, double *best) {
  const product *p = w->p;
  const ptrdiff_t tall = round_up(ceil_div(p->m, down), p->kn->mr);
  const ptrdiff_t wide = round_up(ceil_div(p->n, across), p->kn->nr);
  const ptrdiff_t items = ceil_div(p->m, tall) * ceil_div(p->n, wide);
  const double each = (double)tall * (double)wide + PACKING * (double)(tall + wide);
  const double cost = each * ((double)ceil_div(items, threads) + UNEVEN_PERCENT * 0.01);
  if (*best != 0 && cost >= *best) return;
  *best = cost;
  w->tall = tall, w->wide = wide, w->across = ceil_div(p->n, wide), w->list.items = items;
}

/* The grid that is done soonest: one block for each thread, or two, or four, ... */
static void cut(job *w, int threads) {
  double best = 0;
  for (ptrdiff_t parts = threads; parts <= (ptrdiff_t)threads * MOST_ROUNDS; parts *= 2)
    for (ptrdiff_t down = 1; down <= parts; down++)
      if (parts % down == 0) try_grid(w, threads, down, parts / down, &best);
}

int gemm_blocked(const product *p, blocking blocks, int threads) {
  const int owners = (int)min_of(threads, MAX_OWNERS);
  if (owners <= 1) return blocked_alone(p, blocks);
  counter counters[MAX_OWNERS + 1];
  for (int i = 0; i <= owners; i++) atomic_init(&counters[i].value, 0);
  job w = {.p = p, .blocks = blocks};
  cut(&w, owners);
  w.list.counters = counters, w.list.owners = owners;
  pool_run(work, &w, owners);
  return atomic_load(&w.status);
}
