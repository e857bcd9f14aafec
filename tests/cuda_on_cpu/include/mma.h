/* wmma on the CPU: every lane holds and computes the whole 16 x 16 fragment. Alignment and leading dimension
 * are demanded as the hardware demands them. */
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
namespace nvcuda::wmma {
struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
enum layout_t { mem_row_major };
template <class Use, int M, int N, int K, class V, class Layout = void> struct fragment {
  V at[16][16];
};
inline void demand(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "wmma: %s\n", what);
  abort();
}
template <class F> void fill_fragment(F &f, float value) {
  for (auto &row : f.at)
    for (auto &x : row) x = value;
}
template <class F, class V> void load_matrix_sync(F &f, const V *from, unsigned ld) {
  demand((uintptr_t)from % 32 == 0, "fragment not 32-byte aligned");
  demand(ld % 8 == 0, "leading dimension no multiple of 8");
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) f.at[i][j] = from[i * ld + j];
}
template <class F> void store_matrix_sync(float *to, const F &f, unsigned ld, layout_t) {
  demand((uintptr_t)to % 32 == 0, "fragment not 32-byte aligned");
  demand(ld % 4 == 0, "leading dimension no multiple of 4");
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) to[i * ld + j] = f.at[i][j];
}
template <class A, class B, class D> void mma_sync(D &d, const A &a, const B &b, const D &c) {
  for (int i = 0; i < 16; ++i) {
    float sums[16];
    for (int j = 0; j < 16; ++j) sums[j] = c.at[i][j];
    for (int k = 0; k < 16; ++k)
      for (int j = 0; j < 16; ++j) sums[j] += float(a.at[i][k]) * float(b.at[k][j]);
    for (int j = 0; j < 16; ++j) d.at[i][j] = sums[j];
  }
}
} // namespace nvcuda::wmma
