/* mma.sync on the CPU, in place of cuda/include/mma.cuh: lanes lay their registers open, then each computes the four
 * sums that are its own. */
#pragma once

#include "problem.cuh"

#if defined(STORAGE_float64)
using Reg = double;
constexpr int MMA_K = 8, IN_REG = 1;
#else
using Reg = unsigned;
constexpr int MMA_K = 32 / sizeof(T), IN_REG = 4 / sizeof(T);
#endif

namespace kernel_cpu {
inline Reg fragments[1024][6]; /* by thread: a[4], b[2] */

/* Entry k of row g of registers low (first half of K) and low + step. */
inline Acc entry(unsigned warp, int g, int k, int low, int step) {
  const int half = k / (MMA_K / 2), at = k % (MMA_K / 2);
  const Reg &reg = fragments[warp + g * 4 + at / IN_REG][low + half * step];
  T value;
  memcpy(&value, (const char *)&reg + at % IN_REG * sizeof(T), sizeof(T));
  return to_acc(value);
}
} // namespace kernel_cpu

inline void mma(Acc *c, const Reg *a, const Reg *b) {
  using namespace kernel_cpu;
  const unsigned me = current, warp = me / 32 * 32;
  const int g = me % 32 / 4, t = me % 4;
  std::copy(a, a + 4, fragments[me]);
  std::copy(b, b + 2, fragments[me] + 4);
  wait(WARP, __LINE__);
  for (int e = 0; e < 4; ++e)
    for (int k = 0; k < MMA_K; ++k)
      c[e] += entry(warp, g, k, e / 2, 2) * entry(warp, 2 * t + e % 2, k, 4, 1);
  wait(WARP, __LINE__);
}

inline Reg to_operand(Reg x) {
#if defined(STORAGE_float32)
  if ((x & 0x7f800000) != 0x7f800000) x += 0x1000;
  x &= 0xffffe000;
#endif
  return x;
}
