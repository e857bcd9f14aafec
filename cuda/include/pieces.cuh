// 16-byte accesses of entries that may begin anywhere: what lies before the first 16-byte boundary is peeled.
#pragma once
#include "vector.cuh"

// Entries from `p` to the next address that is a multiple of 16.
__device__ __forceinline__ int to_boundary(const T *p) {
  return int((16 - (unsigned long long)p % 16) % 16 / sizeof(T));
}

// Reads a whole Vector of A or B; `p` is a multiple of 16 bytes.
__device__ __forceinline__ Vector load_vector(const T *p) {
  union Bits {
    int4 bits;
    Vector vector;
    __device__ Bits() {}
  } both;
  both.bits = __ldg((const int4 *)p);
  return both.vector;
}

// The VECTOR entries from `p` on, as one access where `whole` says that `p` is a multiple of 16 bytes.
__device__ __forceinline__ Vector load_vector(const T *p, bool whole) {
  if (whole) return load_vector(p);
  Vector vector;
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) vector.at[i] = __ldg(p + i);
  return vector;
}

__device__ __forceinline__ void write_vector(T *p, const Vector &vector) { *(Vector *)p = vector; }

// sum += x . y
__device__ __forceinline__ Acc dot(const Vector &x, const Vector &y, Acc sum) {
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) sum += to_acc(x.at[i]) * to_acc(y.at[i]);
  return sum;
}
