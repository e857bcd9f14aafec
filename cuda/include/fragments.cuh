// Operands of tf32 wgmma that lie MN-major in memory: the instruction reads tf32 from shared memory K-major only,
// so this operand goes through registers.
#pragma once
#include "tma.cuh"
#include "wgmma.cuh"

// A warp takes 32 of M (or N): one 128-byte line per K. Each thread reads 16 bytes of line lane % 4 and of the one
// four below it: 4 neighbours along M, spread over two 64-row products and their two halves. Neighbouring lanes
// read chunks whose places in the swizzled lines are all different: no bank conflict.
struct Fragments {
  unsigned of[2][4]; // of two 64-row products

  static __device__ __forceinline__ int chunk() {
    const int group = threadIdx.x % 32 / 4;
    return group / 2 + group % 2 * 4;
  }
  // Of C (or its transpose): row of this thread's sums d[4 j + 2 half] of product i, in the warp's 32.
  static __device__ __forceinline__ int row(int i, int half) { return chunk() * 4 + i * 2 + half; }

  // `lines`: the 8 lines of this step of K.
  __device__ __forceinline__ void load(const char *lines) {
    const int line = threadIdx.x % 4;
    const uint4 low = *(const uint4 *)(lines + swizzled(line, chunk()));
    const uint4 high = *(const uint4 *)(lines + swizzled(line + 4, chunk()));
    of[0][0] = low.x, of[0][1] = low.y, of[0][2] = high.x, of[0][3] = high.y;
    of[1][0] = low.z, of[1][1] = low.w, of[1][2] = high.z, of[1][3] = high.w;
  }
};
