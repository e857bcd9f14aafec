/* Packs one micro-panel of a strip that is cut into panels of `width` rows. */
#include "internal.h"

void pack_panel(const kernel *kn, pack_fn *pack, ptrdiff_t width, ptrdiff_t rows, ptrdiff_t k,
                const char *src, ptrdiff_t ws, ptrdiff_t ks, char *dst, ptrdiff_t index) {
  const ptrdiff_t first = index * width;
  pack(min_of(width, rows - first), k, src + first * ws * kn->size, ws, ks,
       dst + first * k * kn->size);
}
