// The left factor of tf32 wgmma from registers: from shared memory the instruction reads tf32 K-major only, so
// what lies MN-major there goes through registers. Which row of C a register belongs to is free to choose.
#pragma once
#include "tma.cuh"

// A thread's part of 64 rows by 8 of K, in the order of the instruction: [0] and [1] of column lane % 4, [2] and
// [3] of the column four on; [0] and [2] of row(0), [1] and [3] of row(1), which are those of its sums, too.
template <bool mn_major> struct Fragment {
  unsigned of[4];

  // Row of the warpgroup's 64. MN-major, the two rows are neighbours, so that they are read at once, and a warp takes
  // chunks 0, 1, 4, 5 or 2, 3, 6, 7 of a line: in the swizzle 16 lanes then meet 16 different pairs of banks.
  static __device__ __forceinline__ int row(int half) {
    const int group = threadIdx.x % 32 / 4, warp = threadIdx.x / 32 % 4;
    if (!mn_major) return warp * 16 + group + half * 8;
    const int chunk = warp % 2 * 2 + (group / 2 & 1) * 4 + group / 4;
    return warp / 2 * 32 + chunk * 4 + group % 2 * 2 + half;
  }

  // Of the 64 rows from `tile` on, step `step` of K: 8 lines, or 32 bytes of each line.
  __device__ __forceinline__ void load(const char *tile, int step) {
    const int t = threadIdx.x % 4, at = row(0);
    if constexpr (mn_major) {
      const char *lines = tile + at / 32 * 32 * 128 + step * 8 * 128 + at % 4 * 4;
      const uint2 low = *(const uint2 *)(lines + swizzled(t, at % 32 / 4));
      const uint2 high = *(const uint2 *)(lines + swizzled(t + 4, at % 32 / 4));
      of[0] = low.x, of[1] = low.y, of[2] = high.x, of[3] = high.y;
    } else {
      const char *word = tile + t * 4;
      of[0] = *(const unsigned *)(word + swizzled(at, step * 2));
      of[1] = *(const unsigned *)(word + swizzled(at + 8, step * 2));
      of[2] = *(const unsigned *)(word + swizzled(at, step * 2 + 1));
      of[3] = *(const unsigned *)(word + swizzled(at + 8, step * 2 + 1));
    }
  }
};
