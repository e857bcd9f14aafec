// Keeps a part of a matrix in L2 from one launch to the next, where all of it is somewhat too large.
//
// Whoever multiplies by the same matrix again and again reads it in the same order each time. If it is larger than
// the cache, every line has been replaced just before it is wanted again, and nothing is ever found. So most lines
// are marked as the first to be replaced, which leaves the others, KEPT bytes of them and always the same ones, where
// they are. A matrix that fits needs none of this, of one that is many times as large too little would stay.
//
// A float32 matrix of 4096 x 4096, 64 MiB, read again and again by an H200: 13.6 us by rows and 14.8 by columns,
// without it 17.3 and 19.0. A single product with a matrix that no cache holds gains nothing.
#pragma once
#include "pieces.cuh"

constexpr double KEPT =
    32 << 20; // of the 50 MB of an H200; half of them are as good as none on a smaller cache

class L2Share {
  unsigned long long policy = 0;

public:
  // For reading all of A once.
  __device__ __forceinline__ explicit L2Share(const Problem &p) {
    const double bytes = double(p.m) * double(p.k) * sizeof(T);
    const float share = bytes > KEPT && bytes < 4 * KEPT ? float(KEPT) / float(bytes) : 1.f;
#if __CUDA_ARCH__ >= 800
    asm("createpolicy.fractional.L2::evict_normal.L2::evict_first.b64 %0, %1;"
        : "=l"(policy)
        : "f"(share));
#endif
  }
  // A whole Vector; `p` is a multiple of 16 bytes.
  __device__ __forceinline__ Vector load(const T *p) const {
#if __CUDA_ARCH__ >= 800
    int4 found;
    asm("ld.global.nc.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
        : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
        : "l"(p), "l"(policy));
    return Bits(found).vector;
#else
    return load_vector(p);
#endif
  }
};
