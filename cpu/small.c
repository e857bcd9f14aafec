/* Small and middle products: no memory from the heap. The tiles of kernels/small_body.h read A in place, and B
 * where its rows are contiguous and do not meet in the same few places of the caches; otherwise one micro-panel
 * of B at a time is packed on the stack, for a block of rows of A that stays in the second-level cache.
 *
 * Measured on one AVX-512 thread against blocked.c, which packs A too: float32 10 to 20 % faster at 72 to 128,
 * 7 % at 192, 12 % at 384, 7 % at 512, 4 % at 640; float64 7 to 18 % at 72 to 128, 12 % at 256, 8 % at 384. It
 * was 3 % slower at 760, where A in float32 no longer fits that cache. */
#include "internal.h"

enum { SMALL_VOLUME = 256 * 256 * 256, LARGEST_K = 640, FEW_K = 64, FEW_ROWS = 512 };
enum { MIDDLE = 768, THIN = 96, STRETCH = 512, NEAR_BYTES = 8192, PANEL_ROWS = 96 };

/* Into how many parts A is to be cut so that each fills at most four fifths of the second-level cache (twice what
 * blocked.c packs of it). */
static ptrdiff_t parts_of_a(const product *p) {
  const blocking b = dispatch_blocks(p->kn);
  return 1 + (ptrdiff_t)((double)p->m * (double)p->k / (2 * (double)b.mc * (double)b.kc));
}

/* A is read again for every panel of B: a few, or from the second-level cache. */
static bool little(const product *p) {
  if ((double)p->m * (double)p->n * (double)p->k > SMALL_VOLUME) return false;
  return p->n <= THIN || parts_of_a(p) <= p->kn->parts_in_place;
}

/* A long thin B is read by stretches of K: A, which is as good as all there is, would be packed for a few
 * products each. */
static bool thin(const product *p) { return p->n <= THIN && p->k > LARGEST_K; }

/* Longer sides are better packed: 4096x4096x64 took 1.2 times as long in place, for want of pages kept at hand,
 * 1023x1025x600 1.1 times, 64x4096x512 1.06; A by columns up to 1.8 times,
 * 512x512x512 with rows of A that collide 1.04 to 1.1. */
bool small_fits(const product *p) {
  if (p->cs_a == 1 && thin(p)) return true;
  if (p->k > LARGEST_K) return false;
  if (little(p)) return true;
  if (p->cs_a != 1 || rows_collide(p->m, p->rs_a, p->kn->size)) return false;
  return max_of(p->m, p->n) <= MIDDLE && parts_of_a(p) <= p->kn->parts_in_place;
}

/* Does the first-level cache keep NR columns of B where they lie? Rows that are an odd multiple of a power of two
 * apart meet in one place of so many bytes. */
static bool panel_stays(const product *p) {
  const ptrdiff_t stride = p->rs_b * p->kn->size, apart = stride & -stride;
  const ptrdiff_t each = min_of(max_of(apart, p->kn->nr * p->kn->size), WAY_BYTES);
  return p->k <= cache_bytes(1) / each;
}

/* Is B read in place? A packed panel pays from the second tile of rows on; where rows that collide are few and
 * not farther apart than NEAR_BYTES, so that the second-level cache keeps them, for hundreds of rows only. */
static bool b_in_place(const product *p) {
  if (p->cs_b != 1) return false;
  if (p->m <= p->kn->mr) return true;
  if (p->k <= FEW_K && p->m <= FEW_ROWS && p->rs_b * p->kn->size <= NEAR_BYTES) return true;
  if (p->kn->panel_in_l1 && p->m >= PANEL_ROWS && !panel_stays(p)) return false;
  return !rows_collide(p->k, 2 * p->rs_b, p->kn->size);
}

/* Columns j to j + n of C from such columns of B, whose rows are contiguous. */
static void columns(const product *p, const void *b, ptrdiff_t rs_b, ptrdiff_t j, ptrdiff_t n) {
  const kernel *kn = p->kn;
  char *c = p->c + j * p->cs_c * kn->size;
  if (p->cs_c == 1) {
    const gemm_call call = {kn->type, p->alpha, p->beta, p->m, n, p->k, 1,
                            p->a,     p->rs_a,  p->cs_a, 0,    b, rs_b, 1,
                            0,        c,        p->rs_c, 1,    0};
    kn->multiply_small(&call);
    return;
  }
  tile t = {.n = n, .k = p->k, .rs_a = p->rs_a, .cs_a = p->cs_a, .b = b, .rs_b = rs_b};
  t.alpha = p->alpha, t.beta = p->beta;
  for (ptrdiff_t i = 0; i < p->m; i += kn->mr) {
    t.m = min_of(kn->mr, p->m - i);
    t.a = p->a + i * p->rs_a * kn->size;
    tile_store(kn, &t, c + i * p->rs_c * kn->size, p->rs_c, p->cs_c);
  }
}

static void by_panels(const product *p) {
  const kernel *kn = p->kn;
  _Alignas(CACHE_LINE) char panel[LARGEST_K * MAX_NR_BYTES];
  for (ptrdiff_t j = 0; j < p->n; j += kn->nr) {
    const ptrdiff_t n = min_of(kn->nr, p->n - j);
    kn->pack_b(n, p->k, p->b + j * p->cs_b * kn->size, p->cs_b, p->rs_b, panel);
    columns(p, panel, kn->nr, j, n);
  }
}

static void rows_product(const product *p) {
  const kernel *kn = p->kn;
  if (!b_in_place(p)) {
    by_panels(p);
  } else if (p->cs_c == 1) {
    columns(p, p->b, p->rs_b, 0, p->n);
  } else {
    for (ptrdiff_t j = 0; j < p->n; j += kn->nr)
      columns(p, p->b + j * kn->size, p->rs_b, j, min_of(kn->nr, p->n - j));
  }
}

static void by_rows(const product *p) {
  const kernel *kn = p->kn;
  const ptrdiff_t parts = little(p) ? 1 : parts_of_a(p);
  const ptrdiff_t rows = round_up(ceil_div(p->m, parts), kn->mr);
  for (ptrdiff_t i = 0; i < p->m; i += rows) {
    const product part = block_of(p, i, 0, min_of(rows, p->m - i), p->n);
    rows_product(&part);
  }
}

void small_product(const product *p) {
  if (!thin(p)) {
    by_rows(p);
    return;
  }
  product part = *p;
  for (ptrdiff_t at = 0; at < p->k; at += STRETCH, part.beta = 1) {
    part.k = min_of(STRETCH, p->k - at);
    part.a = p->a + at * p->cs_a * p->kn->size;
    part.b = p->b + at * p->rs_b * p->kn->size;
    by_rows(&part);
  }
}
