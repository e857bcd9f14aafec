// ldmatrix: a warp reads four 8 x 8 matrices of 16-bit entries from shared memory into the registers that mma
// wants. Lanes 8i to 8i + 7 give the addresses of the eight rows of matrix i, 16 bytes each; lane l then holds
// entries 2 (l % 4) and the next of row l / 4 of matrix i in to[i]. Transposed: of column l / 4.
// A row of 16 bytes is four tf32 entries as well: lane l gets entry l % 4 of row l / 4.
#pragma once

__device__ __forceinline__ void ldmatrix(unsigned *to, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(unsigned(__cvta_generic_to_shared(row))));
}
__device__ __forceinline__ void ldmatrix_transposed(unsigned *to, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(unsigned(__cvta_generic_to_shared(row))));
}
