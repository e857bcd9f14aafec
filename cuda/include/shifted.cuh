// 16 bytes that begin anywhere, read 16 bytes at a time: two aligned vectors hold them, and a funnel shift takes them
// out.
#pragma once

#include "vector.cuh"

// 16 bytes from `bytes` bytes on in two aligned vectors.
__device__ __forceinline__ uint4 shifted(uint4 low, uint4 high, unsigned bytes) {
  unsigned w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = bytes & 8 ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) w[i] = bytes & 4 ? w[i + 1] : w[i];
  const unsigned bits = (bytes & 2) * 8;
  return {__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
          __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits)};
}

// 16 bytes of a line of which the first `valid` entries are read one by one and the others are zero.
__device__ __forceinline__ uint4 one_by_one(const T *from, int valid) {
  uint4 w = {0, 0, 0, 0};
#pragma unroll 1
  for (int i = valid - 1; i >= 0; --i) {
    if constexpr (sizeof(T) == 4) {
      w = {__ldg((const unsigned *)from + i), w.x, w.y, w.z};
    } else {
      const unsigned bits = __ldg((const unsigned short *)from + i);
      w = {w.x << 16 | bits, __funnelshift_l(w.x, w.y, 16), __funnelshift_l(w.y, w.z, 16),
           __funnelshift_l(w.z, w.w, 16)};
    }
  }
  return w;
}
