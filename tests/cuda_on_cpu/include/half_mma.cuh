/* In place of cuda/include/half_mma.cuh: what a lane needs it takes from the fibers of the other 31, between two
 * barriers of the warp. */
#pragma once
#include "problem.cuh"

namespace kernel_cpu {
/* What lane `lane` of this warp gave. */
template <class V> const V &given(const std::vector<const void *> &by, unsigned lane) {
  return *(const V *)by[current / 32 * 32 + lane];
}
/* Shows `mine` to the warp while `read` runs. */
template <class V, class Read> void exchange(const V &mine, int line, Read read) {
  static std::vector<const void *> shown;
  if (shown.size() < fibers.size()) shown.resize(fibers.size());
  shown[current] = &mine;
  wait(WARP, line);
  read(shown);
  wait(WARP, line);
}
inline float entry(unsigned pair, int which) {
  T half;
  const unsigned short bits = which ? pair >> 16 : pair & 0xffff;
  memcpy(&half, &bits, sizeof half);
  return to_acc(half);
}
} // namespace kernel_cpu

inline void read_matrices(unsigned (&to)[4], const T *row, bool transposed) {
  using namespace kernel_cpu;
  const unsigned lane = current % 32, outer = lane / 4, inner = lane % 4 * 2;
  if ((uintptr_t)row % 16) fprintf(stderr, "ldmatrix: a row is no multiple of 16 bytes\n"), abort();
  exchange(row, __LINE__, [&](const std::vector<const void *> &shown) {
    for (unsigned i = 0; i < 4; ++i) {
      unsigned short pair[2];
      for (unsigned e = 0; e < 2; ++e) {
        const unsigned r = transposed ? inner + e : outer, c = transposed ? outer : inner + e;
        memcpy(&pair[e], given<const T *>(shown, 8 * i + r) + c, 2);
      }
      to[i] = pair[0] | unsigned(pair[1]) << 16;
    }
  });
}
inline void ldmatrix(unsigned (&to)[4], const T *row) { read_matrices(to, row, false); }
inline void ldmatrix_transposed(unsigned (&to)[4], const T *row) { read_matrices(to, row, true); }

inline void mma(float *c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  using namespace kernel_cpu;
  struct Held {
    unsigned a[4], b[2];
  } mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const unsigned g = current % 32 / 4, t = current % 4;
  exchange(mine, __LINE__, [&](const std::vector<const void *> &shown) {
    for (unsigned i = 0; i < 4; ++i)
      for (unsigned k = 0; k < 16; ++k) {
        const unsigned lane = k % 8 / 2, column = 2 * t + i % 2;
        const Held &left = given<Held>(shown, g * 4 + lane);
        const Held &right = given<Held>(shown, column * 4 + lane);
        c[i] += entry(left.a[i / 2 + k / 8 * 2], k % 2) * entry(right.b[k / 8], k % 2);
      }
  });
}
