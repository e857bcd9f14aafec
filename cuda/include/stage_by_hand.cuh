// Fills stages as the copy engine would, by ordinary loads: for operands whose address or row pitch is no
// multiple of 16 bytes. A warpgroup copies; every thread then has to call publish_to_async_proxy().
#pragma once
#include "problem.cuh"
#include "tma.cuh"

// One operand seen as M (or N) x K.
struct Source {
  const T *data;
  index_t stride, k_stride, extent, k_extent;
};

#if defined(STORAGE_float32)
// tf32 keeps 10 bits of the fraction; the copy engine rounds to nearest on the way, and so does this.
__device__ __forceinline__ float rounded(float x) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}

__device__ __forceinline__ float entry(const Source &s, index_t at, index_t k) {
  return at < s.extent && k < s.k_extent ? __ldg(s.data + at * s.stride + k * s.k_stride) : 0.0f;
}

// `count` rows from `first` on, 32 of K from `k` on: K-major in the tile; k_major says how the operand lies in memory.
// Lanes run along its contiguous direction.
template <int count, bool k_major>
__device__ __forceinline__ void fill(char *tile, const Source &s, index_t first, index_t k) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  if constexpr (k_major) {
#pragma unroll 16
    for (int row = warp; row < count; row += 4)
      *(float *)(tile + swizzled(row, lane / 4) + lane % 4 * 4) =
          rounded(entry(s, first + row, k + lane));
  } else {
#pragma unroll 8
    for (int unit = warp; unit < count / 32 * 8; unit += 4) {
      const int row = unit / 8 * 32 + lane, chunk = unit % 8;
      float4 four;
      four.x = rounded(entry(s, first + row, k + chunk * 4));
      four.y = rounded(entry(s, first + row, k + chunk * 4 + 1));
      four.z = rounded(entry(s, first + row, k + chunk * 4 + 2));
      four.w = rounded(entry(s, first + row, k + chunk * 4 + 3));
      *(float4 *)(tile + swizzled(row, chunk)) = four;
    }
  }
}
#else
// 16 bytes from an address of any alignment, out of the two aligned vectors that hold them.
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

// 16 bytes of which the first `valid` entries are read one by one and the others are zero.
__device__ __forceinline__ uint4 one_by_one(const T *from, int valid) {
  uint4 w = {0, 0, 0, 0};
#pragma unroll 1
  for (int i = valid - 1; i >= 0; --i) {
    const unsigned bits = __ldg((const unsigned short *)from + i);
    w = {w.x << 16 | bits, __funnelshift_l(w.x, w.y, 16), __funnelshift_l(w.y, w.z, 16),
         __funnelshift_l(w.z, w.w, 16)};
  }
  return w;
}

// 8 neighbours of which `valid` exist, of an operand that occupies [begin, end). The aligned vectors around them
// are read whole where they lie inside the operand.
struct Eight {
  const T *from;
  int valid;
  bool quick;
  uint4 low, high;

  __device__ __forceinline__ void load(const T *at, index_t exist, const T *begin, const T *end) {
    from = at, valid = int(max(index_t(0), min(exist, index_t(8))));
    const unsigned bytes = (unsigned long long)from & 15;
    const char *aligned = (const char *)from - bytes;
    quick = valid == 8 && aligned >= (const char *)begin &&
            aligned + (bytes ? 32 : 16) <= (const char *)end;
    low = high = {0, 0, 0, 0};
    if (quick) low = __ldg((const uint4 *)aligned);
    if (quick && bytes) high = __ldg((const uint4 *)aligned + 1);
  }
  __device__ __forceinline__ uint4 value() const {
    if (!quick && valid) return one_by_one(from, valid);
    return shifted(low, high, (unsigned long long)from & 15);
  }
};

// `count` along M or N from `first` on, 64 of K from `k` on, in 128-byte lines along the contiguous direction, as
// they lie in memory: K-major or, in blocks of 64 along M or N, MN-major.
template <int count, bool k_major>
__device__ __forceinline__ void fill(char *tile, const Source &s, index_t first, index_t k) {
  constexpr int AT_ONCE = 8;
  const int thread = threadIdx.x % 128, chunk = thread % 8;
  const T *end = s.data + (s.extent - 1) * s.stride + (s.k_extent - 1) * s.k_stride + 1;
#pragma unroll 1
  for (int start = thread / 8; start < count; start += 16 * AT_ONCE) {
    Eight found[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int line = start + i * 16;
      const index_t at = first + (k_major ? line : line / 64 * 64 + chunk * 8);
      const index_t depth = k + (k_major ? chunk * 8 : line % 64);
      const bool inside = at < s.extent && depth < s.k_extent;
      const index_t exist = inside ? (k_major ? s.k_extent - depth : s.extent - at) : 0;
      found[i].load(s.data + at * s.stride + depth * s.k_stride, exist, s.data, end);
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
      *(uint4 *)(tile + swizzled(start + i * 16, chunk)) = found[i].value();
  }
}
#endif
