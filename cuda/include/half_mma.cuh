// A warp multiplies fragments of 16-bit entries by mma.sync, and reads them from shared memory by ldmatrix.
//
// mma: a 16 x 16 fragment of A times a 16 x 8 fragment of B, added to 16 x 8 sums. Lane l, with g = l / 4 and
// t = l % 4, holds of A rows g and g + 8 (a[0], a[1]) at k = 2t, 2t + 1, and the same rows at k + 8 (a[2],
// a[3]); of B column g at k = 2t, 2t + 1 (b0) and at k + 8 (b1); of the sums rows g (c[0], c[1]) and g + 8 (c[2],
// c[3]) at columns 2t and 2t + 1.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-instructions-for-mma
#pragma once
#include "problem.cuh"

// Four 8 x 8 matrices. Lanes 8i to 8i + 7 give the rows of matrix i, 16 bytes each; to[i] of lane l is the pair
// at 2 (l % 4) in its row l / 4.
__device__ __forceinline__ void ldmatrix(unsigned (&to)[4], const T *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(unsigned(__cvta_generic_to_shared(row)))
               : "memory");
}

// The same matrices transposed: the pair comes from column l / 4.
__device__ __forceinline__ void ldmatrix_transposed(unsigned (&to)[4], const T *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(unsigned(__cvta_generic_to_shared(row)))
               : "memory");
}

__device__ __forceinline__ void mma(float *c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if defined(STORAGE_float16)
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
#else
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
#endif
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
