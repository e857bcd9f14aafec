/* The five loops around the micro-kernel (Goto and van de Geijn 2008; Van Zee and van de Geijn 2015), on one
 * thread: jc over N by NC, pc over K by KC, ic over M by MC, then jr by NR and ir by MR.
 *
 * Nothing is packed in a phase of its own. A panel of A is packed right before the first product that reads it,
 * from the first-level cache then. The next panel of B is packed in pieces between the products of the
 * present one, each of which has fetched its piece meanwhile: rows of B lie too far apart for the
 * processor's own prefetching, and copied at one go they cost 6 to 15 % of the time at 512 to 2048. */
#include "internal.h"

enum { PIECES = 8, PIECE_ROWS = 16 };

typedef struct {
  const product *p;
  blocking blocks;
  char *a, *b;
  bool keep; /* all of B's block, for further blocks of rows; else two panels take turns */
} job;

/* Where it lies in C and K. */
typedef struct {
  ptrdiff_t i, j, p, m, n, k;
} step;

static const char *a_from(const job *w, const step *s, ptrdiff_t i) {
  const product *p = w->p;
  return p->a + ((s->i + i) * p->rs_a + s->p * p->cs_a) * p->kn->size;
}

static const char *b_from(const job *w, const step *s, ptrdiff_t row, ptrdiff_t j) {
  const product *p = w->p;
  return p->b + ((s->p + row) * p->rs_b + (s->j + j) * p->cs_b) * p->kn->size;
}

static char *b_panel(const job *w, const step *s, ptrdiff_t j) {
  const ptrdiff_t nr = w->p->kn->nr;
  return w->b + (w->keep ? j : j / nr % 2 * nr) * s->k * w->p->kn->size;
}

/* B is packed with the first block of rows and stays for the others. */
static bool packs_b(const job *w, const step *s) { return !w->keep || s->i == 0; }

/* Rows `from` to `to` of the panel of B at column j, if there is one. */
static void pack_b_rows(const job *w, const step *s, ptrdiff_t j, ptrdiff_t from, ptrdiff_t to) {
  const product *p = w->p;
  const kernel *kn = p->kn;
  if (j >= s->n || from >= to || !packs_b(w, s)) return;
  kn->pack_b(min_of(kn->nr, s->n - j), to - from, b_from(w, s, from, j), p->cs_b, p->rs_b,
             b_panel(w, s, j) + from * kn->nr * kn->size);
}

/* What a tile is to fetch: rows `from` to `to` of the panel at column j, packed already or to be packed. */
static void look_ahead(const job *w, const step *s, ptrdiff_t j, ptrdiff_t from, ptrdiff_t to,
                       tile *t) {
  const product *p = w->p;
  const ptrdiff_t size = p->kn->size;
  const bool packs = packs_b(w, s);
  t->ahead_rows = j < s->n && (p->cs_b == 1 || !packs) ? to - from : 0;
  if (t->ahead_rows == 0) return;
  t->ahead_step = packs ? p->rs_b * size : p->kn->nr * size;
  t->ahead = packs ? b_from(w, s, from, j) : b_panel(w, s, j) + from * t->ahead_step;
}

/* Columns j to j + NR of C. */
static void column(const job *w, const step *s, ptrdiff_t j, tile *t) {
  const product *p = w->p;
  const kernel *kn = p->kn;
  const ptrdiff_t pieces = min_of(PIECES, ceil_div(s->m, kn->mr));
  const ptrdiff_t piece = round_up(ceil_div(s->k, pieces), PIECE_ROWS);
  t->n = min_of(kn->nr, s->n - j), t->b = b_panel(w, s, j);
  for (ptrdiff_t i = 0, from = 0, to; i < s->m; i += kn->mr, from = to) {
    char *a = w->a + i * s->k * kn->size;
    t->m = min_of(kn->mr, s->m - i), t->a = a;
    if (j == 0) kn->pack_a(t->m, s->k, a_from(w, s, i), p->rs_a, p->cs_a, a);
    to = min_of(from + piece, s->k);
    look_ahead(w, s, j + kn->nr, from, to, t);
    char *c = p->c + ((s->i + i) * p->rs_c + (s->j + j) * p->cs_c) * kn->size;
    tile_store(kn, t, c, p->rs_c, p->cs_c);
    pack_b_rows(w, s, j + kn->nr, from, to);
  }
}

static void run_step(const job *w, const step *s) {
  const product *p = w->p;
  const kernel *kn = p->kn;
  tile t = {.k = s->k, .rs_a = 1, .cs_a = kn->mr, .rs_b = kn->nr, .alpha = p->alpha};
  t.beta = s->p == 0 ? p->beta : 1;
  pack_b_rows(w, s, 0, 0, s->k);
  for (ptrdiff_t j = 0; j < s->n; j += kn->nr) column(w, s, j, &t);
}

static void run_steps(const job *w) {
  const product *p = w->p;
  const blocking *b = &w->blocks;
  step s = {0};
  for (s.j = 0; s.j < p->n; s.j += b->nc)
    for (s.p = 0; s.p < p->k; s.p += b->kc)
      for (s.i = 0; s.i < p->m; s.i += b->mc) {
        s.m = min_of(b->mc, p->m - s.i);
        s.n = min_of(b->nc, p->n - s.j);
        s.k = min_of(b->kc, p->k - s.p);
        run_step(w, &s);
      }
}

/* Blocks of equal size: a last sliver would pay for packing and the tile of C again. */
static ptrdiff_t even(ptrdiff_t whole, ptrdiff_t block, ptrdiff_t unit) {
  return round_up(ceil_div(whole, ceil_div(whole, block)), unit);
}

/* As many rows as fill the same part of the second-level cache with this KC: B, which lies in the third level, is
 * read once for each block of them. */
static ptrdiff_t rows_of_a(const kernel *kn, const blocking *b, ptrdiff_t kc) {
  return b->mc * max_of(1, min_of(b->kc / kc, kn->mc_growth));
}

static size_t page_up(ptrdiff_t bytes) { return (size_t)round_up(bytes, 4096); }

int blocked_alone(const product *p, blocking blocks) {
  const kernel *kn = p->kn;
  job w = {.p = p};
  w.blocks.kc = even(p->k, blocks.kc, PREFETCH_STEPS);
  w.blocks.mc = even(p->m, rows_of_a(kn, &blocks, w.blocks.kc), kn->mr);
  w.blocks.nc = even(p->n, blocks.nc, kn->nr);
  w.keep = w.blocks.mc < p->m;
  const size_t a = page_up(w.blocks.mc * w.blocks.kc * kn->size);
  const size_t b = page_up((w.keep ? w.blocks.nc : 2 * kn->nr) * w.blocks.kc * kn->size);
  w.a = buffer_get(a + b);
  if (!w.a) return GEMM_NO_MEMORY;
  w.b = w.a + a;
  run_steps(&w);
  return GEMM_OK;
}
