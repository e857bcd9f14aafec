/* The five loops around the micro-kernel (Goto and van de Geijn 2008; Van Zee and van de Geijn 2015):
 *
 *   jc over N by NC, pc over K by KC, ic over M by MC * (threads), then jr by NR and ir by MR.
 *
 * A step is one block of C and one stretch of K. Its panels, then its products, are two worklists: threads take
 * what is next, and wait only for items that others have begun. The panels are double-buffered, so packing a
 * step overlaps with the last products of the step before. */
#include "internal.h"

#include <string.h>

enum { CHUNKS_PER_THREAD = 4 };

typedef struct {
  const product *p;
  blocking blocks;
  int threads;
  char *a_panels[2], *b_panels[2];
  counter *counters;
} job;

/* Where it lies in C and K, the parity of its buffers, and its chunks of `chunk_m` x `chunk_n` panels. */
typedef struct {
  ptrdiff_t i, j, p, m, n, k;
  int parity, b_parity;
  ptrdiff_t columns, chunk_m, chunk_n;
  worklist packing, products;
} step;

static const char *panel(const char *panels, ptrdiff_t index, ptrdiff_t width, ptrdiff_t k,
                         ptrdiff_t size) {
  return panels + index * width * k * size;
}

/* The grid of `parts` chunks over panels m x n with the least work in the largest, then the least to
 * read: (tall + wide) panels of elements per chunk. */
static void split(step *s, ptrdiff_t m, ptrdiff_t n, ptrdiff_t parts, int mr, int nr) {
  double best = -1;
  for (ptrdiff_t rows = 1; rows <= parts; rows++) {
    if (parts % rows) continue;
    ptrdiff_t tall = ceil_div(m, rows), wide = ceil_div(n, parts / rows);
    double cost = (double)(tall * mr) * (double)(wide * nr) * 1e3 + (double)(tall * mr + wide * nr);
    if (best >= 0 && cost >= best) continue;
    best = cost;
    s->chunk_m = tall, s->chunk_n = wide;
  }
  s->columns = ceil_div(n, s->chunk_n);
  s->products.items = ceil_div(m, s->chunk_m) * s->columns;
}

static void chunk_product(const job *w, const step *s, ptrdiff_t chunk) {
  const product *p = w->p;
  const kernel *kn = p->kn;
  ptrdiff_t i0 = chunk / s->columns * s->chunk_m * kn->mr,
            i1 = min_of(s->m, i0 + s->chunk_m * kn->mr);
  ptrdiff_t j0 = chunk % s->columns * s->chunk_n * kn->nr,
            j1 = min_of(s->n, j0 + s->chunk_n * kn->nr);
  tile t = {.k = s->k, .rs_a = 1, .cs_a = kn->mr, .rs_b = kn->nr, .alpha = p->alpha};
  t.beta = s->p == 0 ? p->beta : 1;
  for (ptrdiff_t j = j0; j < j1; j += kn->nr) {
    t.n = min_of(kn->nr, j1 - j);
    t.b = panel(w->b_panels[s->b_parity], j / kn->nr, kn->nr, s->k, kn->size);
    for (ptrdiff_t i = i0; i < i1; i += kn->mr) {
      t.m = min_of(kn->mr, i1 - i);
      t.a = panel(w->a_panels[s->parity], i / kn->mr, kn->mr, s->k, kn->size);
      char *c = p->c + ((s->i + i) * p->rs_c + (s->j + j) * p->cs_c) * kn->size;
      tile_store(kn, &t, c, p->rs_c, p->cs_c);
    }
  }
}

static ptrdiff_t a_panels(const job *w, const step *s) { return ceil_div(s->m, w->p->kn->mr); }

/* B is packed with the first block of rows and stays for the others. */
static ptrdiff_t b_panels(const job *w, const step *s) {
  return s->i == 0 ? ceil_div(s->n, w->p->kn->nr) : 0;
}

static void pack_item(const job *w, const step *s, ptrdiff_t item) {
  const product *p = w->p;
  const kernel *kn = p->kn;
  const ptrdiff_t index = item - a_panels(w, s);
  if (index < 0) {
    const char *a = p->a + (s->i * p->rs_a + s->p * p->cs_a) * kn->size;
    pack_panel(kn, kn->pack_a, kn->mr, s->m, s->k, a, p->rs_a, p->cs_a, w->a_panels[s->parity],
               item);
  } else {
    const char *b = p->b + (s->p * p->rs_b + s->j * p->cs_b) * kn->size;
    pack_panel(kn, kn->pack_b, kn->nr, s->n, s->k, b, p->cs_b, p->rs_b, w->b_panels[s->b_parity],
               index);
  }
}

static void run_step(const job *w, const step *s, const worklist *before, int id) {
  for (ptrdiff_t item; (item = worklist_take(&s->packing, id)) >= 0; worklist_finish(&s->packing))
    pack_item(w, s, item);
  worklist_wait(&s->packing);
  worklist_wait(before); /* the same part of C */
  for (ptrdiff_t item; (item = worklist_take(&s->products, id)) >= 0; worklist_finish(&s->products))
    chunk_product(w, s, item);
}

static void lay_out(const job *w, step *s, ptrdiff_t index) {
  const product *p = w->p;
  const ptrdiff_t each = worklist_counters(w->threads);
  s->m = min_of(w->blocks.mc, p->m - s->i);
  s->n = min_of(w->blocks.nc, p->n - s->j);
  s->k = min_of(w->blocks.kc, p->k - s->p);
  s->packing =
      (worklist){w->counters + 2 * index * each, a_panels(w, s) + b_panels(w, s), w->threads};
  s->products = (worklist){w->counters + (2 * index + 1) * each, 0, w->threads};
  split(s, ceil_div(s->m, p->kn->mr), ceil_div(s->n, p->kn->nr),
        w->threads == 1 ? 1 : (ptrdiff_t)w->threads * CHUNKS_PER_THREAD, p->kn->mr, p->kn->nr);
}

/* Everybody walks through all steps; who comes late finds the first ones done. */
static void work(void *arg, int id, int count) {
  const job *w = arg;
  step s = {0};
  worklist before = {w->counters, 0, count};
  ptrdiff_t index = 0;
  for (s.j = 0; s.j < w->p->n; s.j += w->blocks.nc)
    for (s.p = 0; s.p < w->p->k; s.p += w->blocks.kc, s.b_parity ^= 1)
      for (s.i = 0; s.i < w->p->m; s.i += w->blocks.mc, s.parity ^= 1) {
        lay_out(w, &s, index++);
        run_step(w, &s, &before, id);
        before = s.products;
      }
}

/* Blocks of equal size: a last sliver would pay for packing and the tile of C again. */
static ptrdiff_t even(ptrdiff_t whole, ptrdiff_t block, ptrdiff_t unit) {
  return round_up(ceil_div(whole, ceil_div(whole, block)), unit);
}

static size_t page_up(ptrdiff_t bytes) { return (size_t)round_up(bytes, 4096); }

static ptrdiff_t steps(const product *p, blocking b) {
  return ceil_div(p->n, b.nc) * ceil_div(p->k, b.kc) * ceil_div(p->m, b.mc);
}

int gemm_blocked(const product *p, blocking blocks, int threads) {
  const kernel *kn = p->kn;
  job w = {.p = p, .threads = threads};
  w.blocks.mc = even(p->m, blocks.mc * threads, kn->mr);
  w.blocks.kc = even(p->k, blocks.kc, 4);
  w.blocks.nc = even(p->n, blocks.nc, kn->nr);
  const size_t a = page_up(w.blocks.mc * w.blocks.kc * kn->size);
  const size_t b = page_up(w.blocks.nc * w.blocks.kc * kn->size);
  const size_t lists =
      2 * (size_t)(steps(p, w.blocks) * worklist_counters(threads)) * sizeof(counter);
  const size_t buffers = threads > 1 ? 2 : 1;
  char *memory = buffer_get((a + b) * buffers + lists);
  if (!memory) return GEMM_NO_MEMORY;
  for (size_t i = 0; i < 2; i++) {
    w.a_panels[i] = memory + a * (i % buffers);
    w.b_panels[i] = memory + a * buffers + b * (i % buffers);
  }
  w.counters = (counter *)(memory + (a + b) * buffers);
  memset(w.counters, 0, lists);
  pool_run(work, &w, threads);
  return GEMM_OK;
}
