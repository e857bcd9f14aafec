/* Small products: no threads, no memory from the heap. The micro-kernel reads A, and B where its rows
 * are contiguous, in place; otherwise one micro-panel of B at a time is packed on the stack.
 *
 * Measured on AVX-512, float32, against the packed path: 30 % faster at 64, 10 % at 128, 5 % at 256,
 * level at 512; but three times slower at 512 in float64, where rows 4096 bytes apart meet in the
 * same few places of the caches. */
#include "internal.h"

enum { SMALL_VOLUME = 256 * 256 * 256, SMALL_K = 512, FEW_ROWS = 64, WAY_BYTES = 4096 };

/* Do `rows` rows this far apart compete for one set of the first-level cache? */
static bool collide(ptrdiff_t rows, ptrdiff_t stride, ptrdiff_t size) {
  return rows > 1 && stride * size % WAY_BYTES == 0;
}

bool small_fits(const product *p) {
  if (p->k > SMALL_K || (double)p->m * (double)p->n * (double)p->k > SMALL_VOLUME) return false;
  const ptrdiff_t size = p->kn->size;
  if (collide(p->m, p->rs_a, size)) return false;
  return p->cs_b != 1 || p->k <= FEW_ROWS || !collide(p->k, 2 * p->rs_b, size);
}

static void column_of_tiles(const product *p, tile *t, ptrdiff_t j) {
  const kernel *kn = p->kn;
  for (ptrdiff_t i = 0; i < p->m; i += kn->mr) {
    t->m = min_of(kn->mr, p->m - i);
    t->a = p->a + i * p->rs_a * kn->size;
    tile_store(kn, t, p->c + (i * p->rs_c + j * p->cs_c) * kn->size, p->rs_c, p->cs_c);
  }
}

void small_product(const product *p) {
  const kernel *kn = p->kn;
  _Alignas(CACHE_LINE) char panel[SMALL_K * MAX_NR_BYTES];
  tile t = {.k = p->k, .rs_a = p->rs_a, .cs_a = p->cs_a, .alpha = p->alpha, .beta = p->beta};
  for (ptrdiff_t j = 0; j < p->n; j += kn->nr) {
    const char *b = p->b + j * p->cs_b * kn->size;
    t.n = min_of(kn->nr, p->n - j);
    t.b = p->cs_b == 1 ? (const void *)b : panel;
    t.rs_b = p->cs_b == 1 ? p->rs_b : kn->nr;
    if (p->cs_b != 1) kn->pack_b(t.n, p->k, b, p->cs_b, p->rs_b, panel);
    column_of_tiles(p, &t, j);
  }
}
