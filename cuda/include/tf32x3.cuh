// fp32 entries as sums of two that tf32 keeps.
#pragma once

// To the nearest number with 10 bits of fraction.
__device__ __forceinline__ float to_tf32(float x) {
  unsigned bits;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}

// x = big + small to 2^-23: x, and what is left of it, rounded.
struct Halves {
  float big, small;
  __device__ __forceinline__ explicit Halves(float x) : big(to_tf32(x)), small(to_tf32(x - big)) {}
};

// A tile of shared memory becomes its big parts, its small ones go to another; by `threads` threads of which this is
// number `thread`. Each stays in its place, so the swizzle is what it was.
template <int bytes, int threads>
__device__ __forceinline__ void split_tile(char *tile, char *small, int thread) {
#pragma unroll 4
  for (int at = thread * 16; at < bytes; at += threads * 16) {
    const float4 x = *(const float4 *)(tile + at);
    const Halves h[4] = {Halves(x.x), Halves(x.y), Halves(x.z), Halves(x.w)};
    *(float4 *)(tile + at) = {h[0].big, h[1].big, h[2].big, h[3].big};
    *(float4 *)(small + at) = {h[0].small, h[1].small, h[2].small, h[3].small};
  }
}

// The same of a fragment in registers.
struct SplitFragment {
  unsigned big[4], small[4];
  __device__ __forceinline__ void split(const unsigned (&of)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Halves h(__uint_as_float(of[i]));
      big[i] = __float_as_uint(h.big), small[i] = __float_as_uint(h.small);
    }
  }
};
