/* wmma on the CPU: every lane reads and computes the whole fragment, and stores its share of it, so that a lane
 * that read too early shows. Alignment and leading dimension are demanded as the hardware demands them. */
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
namespace nvcuda::wmma {
struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major };
namespace precision {
struct tf32;
}
inline float __float_to_tf32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if ((bits & 0x7f800000) != 0x7f800000) bits += 0x1000;
  bits &= 0xffffe000;
  memcpy(&x, &bits, 4);
  return x;
}
template <class Use, int M, int N, int K, class V, class Layout = void> struct fragment {
  using Value = std::conditional_t<std::is_same_v<V, precision::tf32>, float, V>;
  static constexpr int ROWS = std::is_same_v<Use, matrix_b> ? K : M;
  static constexpr int COLUMNS = std::is_same_v<Use, matrix_a> ? K : N;
  static constexpr int num_elements = ROWS * COLUMNS;
  static constexpr bool TRANSPOSED = std::is_same_v<Layout, col_major>;
  Value x[num_elements];
  Value &at(int i, int j) { return x[i * COLUMNS + j]; }
  const Value &at(int i, int j) const { return x[i * COLUMNS + j]; }
};
inline void demand(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "wmma: %s\n", what);
  __builtin_trap();
}
template <class V> void demand_place(const V *place, unsigned ld) {
  demand((uintptr_t)place % 32 == 0, "fragment not 32-byte aligned");
  demand(ld * sizeof(V) % 16 == 0, "leading dimension no multiple of 16 bytes");
}
template <class F, class V> void fill_fragment(F &f, V value) {
  for (auto &x : f.x) x = value;
}
template <class F, class V> void load_matrix_sync(F &f, const V *from, unsigned ld) {
  demand_place(from, ld);
  for (int i = 0; i < F::ROWS; ++i)
    for (int j = 0; j < F::COLUMNS; ++j)
      f.at(i, j) = F::TRANSPOSED ? from[(size_t)j * ld + i] : from[(size_t)i * ld + j];
}
template <class F, class V> void store_matrix_sync(V *to, const F &f, unsigned ld, layout_t) {
  demand_place(to, ld);
  for (int e = kernel_cpu::current % 32; e < F::num_elements; e += 32)
    to[e / F::COLUMNS * ld + e % F::COLUMNS] = f.x[e];
}
template <class A, class B, class D> void mma_sync(D &d, const A &a, const B &b, const D &c) {
  using Sum = typename D::Value;
  for (int i = 0; i < D::ROWS; ++i)
    for (int j = 0; j < D::COLUMNS; ++j) {
      Sum sum = c.at(i, j);
      for (int k = 0; k < A::COLUMNS; ++k) sum += Sum(a.at(i, k)) * Sum(b.at(k, j));
      d.at(i, j) = sum;
    }
}
} // namespace nvcuda::wmma
