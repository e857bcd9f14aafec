/* Cuts a strip into micro-panels and packs some of them. */
#include "internal.h"

void pack_panels(const kernel *kn, pack_fn *pack, ptrdiff_t width, ptrdiff_t rows, ptrdiff_t k,
                 const char *src, ptrdiff_t ws, ptrdiff_t ks, char *dst, ptrdiff_t first,
                 ptrdiff_t last) {
  for (ptrdiff_t i = first; i < last; i++)
    pack(min_of(width, rows - i * width), k, src + i * width * ws * kn->size, ws, ks,
         dst + i * width * k * kn->size);
}
