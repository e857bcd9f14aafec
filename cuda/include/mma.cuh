// mma.sync: a warp multiplies a 16 x K fragment of A by a K x 8 fragment of B and adds to 16 x 8 sums.
//
// With g = lane / 4 and t = lane % 4 a lane holds, for every type alike,
//   a[0], a[2]: row g of A, first and second half of K;  a[1], a[3]: row g + 8, the same halves
//   b[0], b[1]: column g of B, first and second half of K
//   c[0], c[1]: row g, columns 2t and 2t + 1;            c[2], c[3]: row g + 8, the same columns
// In a half of K a lane holds what belongs to its t: entries 2t and 2t + 1 of eight 16-bit ones, entry t of
// four wider ones. The order of K is free as long as A and B agree on it.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-instructions-for-mma
#pragma once

#include "problem.cuh"

#if defined(STORAGE_float64)
using Reg = double;
constexpr int MMA_K = 8;
__device__ __forceinline__ void mma_8x8x4(double &c0, double &c1, double a, double b) {
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(c0), "+d"(c1)
      : "d"(a), "d"(b));
}
__device__ __forceinline__ void mma(double *c, const double *a, const double *b) {
#if __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
  for (int half = 0; half < 2; ++half) {
    mma_8x8x4(c[0], c[1], a[2 * half], b[half]);
    mma_8x8x4(c[2], c[3], a[2 * half + 1], b[half]);
  }
#endif
}
__device__ __forceinline__ double to_operand(double x) { return x; }

#else
using Reg = unsigned;
#if defined(STORAGE_float32)
#define MMA_INSTRUCTION "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#elif defined(STORAGE_float16)
#define MMA_INSTRUCTION "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#else
#define MMA_INSTRUCTION "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#endif
constexpr int MMA_K = 32 / sizeof(T);
__device__ __forceinline__ void mma(float *c, const unsigned *a, const unsigned *b) {
  asm(MMA_INSTRUCTION " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#undef MMA_INSTRUCTION

// The tensor cores drop the 13 low bits of a float. Rounding to nearest first halves the error; sm_90 does
// that in one instruction.
__device__ __forceinline__ unsigned to_operand(unsigned x) {
#if defined(STORAGE_float32) && __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(x) : "f"(__uint_as_float(x)));
#elif defined(STORAGE_float32)
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(x) : "f"(__uint_as_float(x)));
#endif
  return x;
}
#endif
