// 16-byte accesses of entries that may begin anywhere: what lies before the first 16-byte boundary is peeled.
#pragma once
#include "problem.cuh"

constexpr int VECTOR = 16 / sizeof(T); // entries of one access

struct alignas(16) Pack {
  T entry[VECTOR];
};

// Entries from `p` to the next address that is a multiple of 16.
__device__ __forceinline__ int to_boundary(const T *p) {
  return int((16 - (unsigned long long)p % 16) % 16 / sizeof(T));
}

// Reads a whole Pack of A or B; `p` is a multiple of 16 bytes.
__device__ __forceinline__ Pack load_pack(const T *p) {
  union Bits {
    int4 bits;
    Pack pack;
    __device__ Bits() {}
  } both;
  both.bits = __ldg((const int4 *)p);
  return both.pack;
}

// The VECTOR entries from `p` on as one access where `aligned` (the address is a multiple of 16) says so.
__device__ __forceinline__ Pack load_pack(const T *p, bool aligned) {
  if (aligned) return load_pack(p);
  Pack pack;
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) pack.entry[i] = __ldg(p + i);
  return pack;
}

__device__ __forceinline__ void store_pack(T *p, const Pack &pack) { *(Pack *)p = pack; }

// sum += x . y
__device__ __forceinline__ Acc dot(const Pack &x, const Pack &y, Acc sum) {
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) sum += to_acc(x.entry[i]) * to_acc(y.entry[i]);
  return sum;
}
