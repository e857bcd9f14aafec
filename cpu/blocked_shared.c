/* A large product on several threads: C is cut into blocks, each a product of its own with panels of its own,
 * so that nobody waits for anybody. What two blocks pack twice costs less than packing it together did: two
 * threads met at the end of every step of K. */
#include "internal.h"

/* Packing a row of A or a column of B takes as long as so many multiplications for each of its elements. When
 * the first thread finds nothing left to do, the last one is in the middle of something: of the smallest block,
 * that costs so much for each thread, up to a limit. Measured with 16 threads on virtual processors, 30 % against
 * 3 %: 1.1 to 1.3 times the rate at 768 to 3072. */
enum { PACKING = 20, UNEVEN_PERCENT = 2, MOST_UNEVEN = 30, MOST_ROUNDS = 8, MOST_SPLIT = 4 };
enum { MAX_OWNERS = 256 };

/* A grid of blocks, one for each thread in each of some rounds. Those of the last round are cut into `split`
 * pieces, so that little is left to wait for. */
typedef struct {
  ptrdiff_t tall, wide, across; /* elements of a block, blocks in a row of them */
  ptrdiff_t rounds, split;
} grid;

typedef struct {
  const product *p;
  blocking blocks;
  grid g;
  worklist list;
  atomic_int status;
} job;

static ptrdiff_t piece_rows(const product *p, const grid *g) {
  return round_up(ceil_div(g->tall, g->split), p->kn->mr);
}

/* Rows `from` to `to` of a block of C, as far as they are there. */
static void rows_product(job *w, ptrdiff_t block, ptrdiff_t from, ptrdiff_t to) {
  const product *p = w->p;
  const ptrdiff_t j = block % w->g.across * w->g.wide, n = min_of(w->g.wide, p->n - j);
  const ptrdiff_t i = block / w->g.across * w->g.tall + from, m = min_of(to - from, p->m - i);
  if (m <= 0 || n <= 0) return;
  const product part = block_of(p, i, j, m, n);
  const int status = blocked_alone(&part, w->blocks);
  if (status != GEMM_OK) atomic_store_explicit(&w->status, status, memory_order_relaxed);
}

/* The items of one owner: a block of each round, then the pieces of its block of the last one. */
static void item_product(job *w, ptrdiff_t item) {
  const grid *g = &w->g;
  const ptrdiff_t each = g->rounds - 1 + g->split, owner = item / each, turn = item % each;
  const ptrdiff_t block = owner + min_of(turn, g->rounds - 1) * w->list.owners;
  if (turn < g->rounds - 1) {
    rows_product(w, block, 0, g->tall);
    return;
  }
  const ptrdiff_t piece = turn - (g->rounds - 1), rows = piece_rows(w->p, g);
  rows_product(w, block, piece * rows, min_of((piece + 1) * rows, g->tall));
}

static void work(void *arg, int id, int count) {
  job *w = arg;
  (void)count;
  for (ptrdiff_t item; (item = worklist_take(&w->list, id)) >= 0;) item_product(w, item);
}

static double block_cost(ptrdiff_t tall, ptrdiff_t wide) {
  return (double)tall * (double)wide + PACKING * (double)(tall + wide);
}

static double cost(const product *p, const grid *g, int threads) {
  const double piece = block_cost(piece_rows(p, g), g->wide);
  const double uneven = 0.01 * (double)min_of(MOST_UNEVEN, UNEVEN_PERCENT * threads);
  return (double)(g->rounds - 1) * block_cost(g->tall, g->wide) +
         piece * ((double)g->split + uneven);
}

static void try_splits(const product *p, int threads, grid g, grid *best, double *least) {
  for (g.split = 1; g.split <= MOST_SPLIT; g.split *= 2) {
    const double found = cost(p, &g, threads);
    if (best->rounds == 0 || found < *least) *best = g, *least = found;
  }
}

/* The grid that is done soonest. */
static grid cut(const product *p, int threads) {
  grid best = {0};
  double least = 0;
  for (ptrdiff_t rounds = 1; rounds <= MOST_ROUNDS; rounds *= 2)
    for (ptrdiff_t down = 1, parts = rounds * threads; down <= parts; down++) {
      if (parts % down) continue;
      const ptrdiff_t across = parts / down, tall = round_up(ceil_div(p->m, down), p->kn->mr);
      const grid g = {tall, round_up(ceil_div(p->n, across), p->kn->nr), across, rounds, 1};
      try_splits(p, threads, g, &best, &least);
    }
  return best;
}

int gemm_blocked(const product *p, blocking blocks, int threads) {
  const int owners = (int)min_of(threads, MAX_OWNERS);
  if (owners <= 1) return blocked_alone(p, blocks);
  counter counters[MAX_OWNERS + 1];
  for (int i = 0; i <= owners; i++) atomic_init(&counters[i].value, 0);
  job w = {.p = p, .blocks = blocks, .g = cut(p, owners)};
  w.list = (worklist){counters, owners * (w.g.rounds - 1 + w.g.split), owners};
  pool_run(work, &w, owners);
  return atomic_load(&w.status);
}
