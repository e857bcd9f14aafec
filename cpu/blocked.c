/* The five loops around the micro-kernel (Goto and van de Geijn 2008; Van Zee and van de Geijn 2015):
 *
 *   jc over N by NC, pc over K by KC, ic over M by MC * (threads), then jr by NR and ir by MR.
 *
 * All threads pack a share of A's and B's panels, meet at a barrier, and work off the block's chunks.
 * The panels are double-buffered, so that one barrier a step is enough: whoever packs step s + 2 has
 * passed the barrier of s + 1, which everybody enters after the products of step s. */
#include "internal.h"

enum { CHUNKS_PER_THREAD = 4, MAX_QUEUES = 256 };

/* Chunks first come, first served: a thread's own range, then what others have left. */
typedef struct {
  _Alignas(CACHE_LINE) atomic_long next;
} queue;

typedef struct {
  const product *p;
  blocking blocks;
  char *a_panels[2], *b_panels[2];
  barrier meet;
  queue queues[2][MAX_QUEUES];
} job;

/* One step of the outer loops: a block of C, its share of K, and the parity of the buffers. */
typedef struct {
  ptrdiff_t i, j, p, m, n, k;
  int parity, b_parity;
  int threads;
  ptrdiff_t rows, columns; /* chunks of the block, each `chunk_m` x `chunk_n` panels */
  ptrdiff_t chunk_m, chunk_n;
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
  s->rows = ceil_div(m, s->chunk_m), s->columns = ceil_div(n, s->chunk_n);
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

static void pack_share(const job *w, const step *s, int id) {
  const product *p = w->p;
  const kernel *kn = p->kn;
  ptrdiff_t panels = ceil_div(s->m, kn->mr);
  const char *a = p->a + (s->i * p->rs_a + s->p * p->cs_a) * kn->size;
  pack_panels(kn, kn->pack_a, kn->mr, s->m, s->k, a, p->rs_a, p->cs_a, w->a_panels[s->parity],
              panels * id / s->threads, panels * (id + 1) / s->threads);
  if (s->i > 0) return;
  panels = ceil_div(s->n, kn->nr);
  const char *b = p->b + (s->p * p->rs_b + s->j * p->cs_b) * kn->size;
  pack_panels(kn, kn->pack_b, kn->nr, s->n, s->k, b, p->cs_b, p->rs_b, w->b_panels[s->b_parity],
              panels * id / s->threads, panels * (id + 1) / s->threads);
}

static void work_off(job *w, const step *s, int id) {
  const ptrdiff_t chunks = s->rows * s->columns;
  for (int v = 0; v < s->threads; v++) {
    const int owner = (id + v) % s->threads;
    const ptrdiff_t first = chunks * owner / s->threads;
    const ptrdiff_t count = chunks * (owner + 1) / s->threads - first;
    atomic_long *next = &w->queues[s->parity][owner].next;
    while (atomic_load_explicit(next, memory_order_relaxed) < count) {
      long index = atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
      if (index < count) chunk_product(w, s, first + index);
    }
  }
}

/* Before the barrier of its own step each thread rewinds its own queue: nobody uses it then. */
static void run_step(job *w, const step *s, int id) {
  atomic_store_explicit(&w->queues[s->parity][id].next, 0, memory_order_relaxed);
  pack_share(w, s, id);
  if (s->threads > 1) barrier_wait(&w->meet, s->threads);
  work_off(w, s, id);
}

static void work(void *arg, int id, int count) {
  job *w = arg;
  const product *p = w->p;
  const kernel *kn = p->kn;
  step s = {.threads = count};
  for (s.j = 0; s.j < p->n; s.j += w->blocks.nc)
    for (s.p = 0; s.p < p->k; s.p += w->blocks.kc, s.b_parity ^= 1)
      for (s.i = 0; s.i < p->m; s.i += w->blocks.mc, s.parity ^= 1) {
        s.m = min_of(w->blocks.mc, p->m - s.i);
        s.n = min_of(w->blocks.nc, p->n - s.j);
        s.k = min_of(w->blocks.kc, p->k - s.p);
        split(&s, ceil_div(s.m, kn->mr), ceil_div(s.n, kn->nr),
              count == 1 ? 1 : (ptrdiff_t)count * CHUNKS_PER_THREAD, kn->mr, kn->nr);
        run_step(w, &s, id);
      }
}

/* Blocks of equal size: a last sliver would pay for packing and the tile of C again. */
static ptrdiff_t even(ptrdiff_t whole, ptrdiff_t block, ptrdiff_t unit) {
  return round_up(ceil_div(whole, ceil_div(whole, block)), unit);
}

static size_t page_up(ptrdiff_t bytes) { return (size_t)round_up(bytes, 4096); }

int gemm_blocked(const product *p, blocking blocks, int threads) {
  const kernel *kn = p->kn;
  job w; /* the queues are set by their threads: clearing 32 KB here would cost half a microsecond */
  threads = (int)min_of(threads, MAX_QUEUES);
  w.p = p;
  barrier_init(&w.meet);
  w.blocks.mc = even(p->m, blocks.mc * threads, kn->mr);
  w.blocks.kc = even(p->k, blocks.kc, 4);
  w.blocks.nc = even(p->n, blocks.nc, kn->nr);
  const size_t a = page_up(w.blocks.mc * w.blocks.kc * kn->size);
  const size_t b = page_up(w.blocks.nc * w.blocks.kc * kn->size);
  const int buffers = threads > 1 ? 2 : 1;
  char *memory = buffer_get((a + b) * (size_t)buffers);
  if (!memory) return GEMM_NO_MEMORY;
  for (int i = 0; i < 2; i++) {
    w.a_panels[i] = memory + (buffers == 2 ? a * (size_t)i : 0);
    w.b_panels[i] = memory + a * (size_t)buffers + (buffers == 2 ? b * (size_t)i : 0);
  }
  pool_run(work, &w, threads);
  return GEMM_OK;
}
