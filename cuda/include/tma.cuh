// The copy engine (TMA): one thread names a box of a matrix, the hardware computes the addresses, swizzles the
// rows in shared memory, puts zeros where the box leaves the matrix and counts the bytes at a barrier.
// Boxes are 128 bytes wide along the contiguous direction; coordinates are (contiguous, other, batch).
#pragma once
#include "mbarrier.cuh"

// CUtensorMap, made by the host; must be a `const __grid_constant__` parameter.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

__device__ __forceinline__ void prefetch_map(const TensorMap &map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ __forceinline__ void load_box(void *to, const TensorMap &map, Barrier &landed, int x,
                                         int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(to)),
               "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(&landed))
               : "memory");
}

// The same box at the same place of every CTA in `ctas` (bit i: rank i), counted at each one's own barrier.
__device__ __forceinline__ void load_box_everywhere(void *to, const TensorMap &map, Barrier &landed,
                                                    int x, int y, int z, unsigned short ctas) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(to)),
               "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(&landed)), "h"(ctas)
               : "memory");
}

// Writes a box, without what lies outside the matrix, once commit_stores() has closed the group that it belongs to.
__device__ __forceinline__ void store_box(const TensorMap &map, const void *from, int x, int y,
                                          int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
               "[%0, {%1, %2, %3}], [%4];" ::"l"(&map),
               "r"(x), "r"(y), "r"(z), "r"(shared_address(from))
               : "memory");
}
__device__ __forceinline__ void commit_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Until all but the last `left` groups of this thread have read their shared memory.
template <int left> __device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(left) : "memory");
}

__device__ __forceinline__ void wait_stores_done() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Byte offset of 16-byte chunk `chunk` in 128-byte row `row` of a tile that begins at a multiple of 1024.
__device__ __forceinline__ int swizzled(int row, int chunk) {
  return row * 128 + ((chunk ^ (row & 7)) << 4);
}
