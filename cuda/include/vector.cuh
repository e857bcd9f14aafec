// Accesses of 16 bytes: a quarter of the instructions, where pointer and stride allow them.
#pragma once
#include "problem.cuh"

constexpr int VECTOR = 16 / sizeof(T); // entries in one access

struct alignas(16) Vector {
  T at[VECTOR];
};

// True if entries i * stride, i = 0, 1, ... from `data` on all begin at multiples of 16 bytes.
__device__ __forceinline__ bool aligned16(const T *data, index_t stride) {
  return (unsigned long long)data % 16 == 0 && stride % VECTOR == 0;
}

// Reads N entries from shared memory, VECTOR of them from every `step` entries on.
template <int N, int step>
__device__ __forceinline__ void read_vectors(Acc (&to)[N], const T *from) {
#pragma unroll
  for (int v = 0; v < N / VECTOR; ++v) {
    const Vector read = *(const Vector *)(from + v * step);
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) to[v * VECTOR + e] = to_acc(read.at[e]);
  }
}
