// Keeps a part of a matrix in L2 from one launch to the next, where all of it is somewhat too large.
//
// Whoever multiplies by the same matrix again and again reads it in the same order each time. If it is larger than
// the cache, every line has been replaced just before it is wanted again, and nothing is ever found. So most lines
// are marked as the first to be replaced, which leaves the others, KEPT bytes of them, where they are. PTX promises
// a fraction, not which lines: that they are the same ones each time is what the times say. A matrix of less than
// KEPT bytes needs none of this; of one that is many times as large too little would stay, and reads that name a
// policy cost 10 % at 8192 x 8192.
//
// A float32 matrix of 4096 x 4096, 64 MiB, read again and again by an H200 in the ladder's rounds: 13.2 us by rows
// (20_gemv_vector/8-loads) and 14.8 by columns (20_gemv_cluster); without it, in an earlier run, 17.3 and 19.0. A
// single product with a matrix that no cache holds gains nothing.
#pragma once
#include "pieces.cuh"

constexpr double KEPT = 32 << 20; // of the 50 MB of an H200, which alone it was measured on

// Does A, which is read once, have the size for it?
__device__ __forceinline__ bool keeps_share(const Problem &p) {
  const double bytes = double(p.m) * double(p.k) * sizeof(T);
  return bytes > KEPT && bytes < 4 * KEPT;
}

// How the pieces of A are read, `p` being a multiple of 16 bytes: by all others,
struct Streaming {
  __device__ __forceinline__ explicit Streaming(const Problem &) {}
  __device__ __forceinline__ Vector load(const T *p) const { return load_once(p); }
};

// and by those that keep a share.
class KeepingShare {
  unsigned long long policy = 0;

public:
  __device__ __forceinline__ explicit KeepingShare(const Problem &p) {
#if __CUDA_ARCH__ >= 800
    const float share = float(KEPT) / (float(p.m) * float(p.k) * sizeof(T));
    asm("createpolicy.fractional.L2::evict_normal.L2::evict_first.b64 %0, %1;"
        : "=l"(policy)
        : "f"(share));
#endif
  }
  __device__ __forceinline__ Vector load(const T *p) const {
#if __CUDA_ARCH__ >= 800
    int4 found;
    asm("ld.global.nc.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
        : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
        : "l"(p), "l"(policy));
    return Bits(found).vector;
#else
    return load_once(p);
#endif
  }
};
