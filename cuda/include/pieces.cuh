// 16-byte accesses of entries that may begin anywhere: what lies before the first 16-byte boundary is peeled.
#pragma once
#include "vector.cuh"

// Entries from `p` to the next address that is a multiple of 16.
__device__ __forceinline__ int to_boundary(const T *p) {
  return int((16 - (unsigned long long)p % 16) % 16 / sizeof(T));
}

// Entries from `p` to the next line of 128 bytes.
__device__ __forceinline__ int to_line(const T *p) {
  return int((128 - (unsigned long long)p % 128) % 128 / sizeof(T));
}

union Bits {
  int4 bits;
  Vector vector;
  __device__ __forceinline__ Bits(int4 of) : bits(of) {}
  __device__ __forceinline__ Bits(const Vector &of) : vector(of) {}
};

// Reads a whole Vector of A or B; `p` is a multiple of 16 bytes.
__device__ __forceinline__ Vector load_vector(const T *p) {
  return Bits(__ldg((const int4 *)p)).vector;
}

// The same for entries that nobody reads again: their lines are the first to leave the caches.
__device__ __forceinline__ Vector load_once(const T *p) {
  return Bits(__ldcs((const int4 *)p)).vector;
}

// The VECTOR entries from `p` on, as one access where `whole` says that `p` is a multiple of 16 bytes.
__device__ __forceinline__ Vector load_vector(const T *p, bool whole) {
  if (whole) return load_vector(p);
  Vector vector;
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) vector.at[i] = __ldg(p + i);
  return vector;
}

__device__ __forceinline__ void write_once(T *p, const Vector &vector) {
  __stcs((int4 *)p, Bits(vector).bits);
}

// sum += x . y
__device__ __forceinline__ Acc dot(const Vector &x, const Vector &y, Acc sum) {
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) sum += to_acc(x.at[i]) * to_acc(y.at[i]);
  return sum;
}
