/* Small products: no memory from the heap. The tiles of kernels/small_body.h read A, and B where its rows are
 * contiguous, in place; otherwise one micro-panel of B at a time is packed on the stack.
 *
 * Measured on AVX-512 against the packed path of its day: 10 to 20 % faster at 72 to 128 in float32, 7 to 18 %
 * in float64, 7 % at 192; but three times slower at 512 in float64, where rows 4096 bytes apart meet in the same
 * few places of the caches. */
#include "internal.h"

enum { SMALL_VOLUME = 256 * 256 * 256, SMALL_K = 512, FEW_ROWS = 64, WAY_BYTES = 4096 };

/* Do `rows` rows this far apart compete for one set of the first-level cache? */
bool rows_collide(ptrdiff_t rows, ptrdiff_t stride, ptrdiff_t size) {
  return rows > 1 && stride * size % WAY_BYTES == 0;
}

bool small_fits(const product *p) {
  if (p->k > SMALL_K || (double)p->m * (double)p->n * (double)p->k > SMALL_VOLUME) return false;
  const ptrdiff_t size = p->kn->size;
  if (rows_collide(p->m, p->rs_a, size)) return false;
  return p->cs_b != 1 || p->k <= FEW_ROWS || !rows_collide(p->k, 2 * p->rs_b, size);
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

void small_product(const product *p) {
  const kernel *kn = p->kn;
  _Alignas(CACHE_LINE) char panel[SMALL_K * MAX_NR_BYTES];
  if (p->cs_b == 1 && p->cs_c == 1) {
    columns(p, p->b, p->rs_b, 0, p->n);
    return;
  }
  for (ptrdiff_t j = 0; j < p->n; j += kn->nr) {
    const char *b = p->b + j * p->cs_b * kn->size;
    const ptrdiff_t n = min_of(kn->nr, p->n - j);
    if (p->cs_b == 1) {
      columns(p, b, p->rs_b, j, n);
    } else {
      kn->pack_b(n, p->k, b, p->cs_b, p->rs_b, panel);
      columns(p, panel, kn->nr, j, n);
    }
  }
}
