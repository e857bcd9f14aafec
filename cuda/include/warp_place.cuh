// Which part of the CTA tile a warp has: WARPS_M x WARPS_N warp tiles.
//
// Warps w and w + 4 share a tensor core. Here those of one row of warp tiles have different ones, and those of
// one column, too: at the edges of C, where few of them have something to do, they are not in each other's way.
#pragma once

#include "layout.cuh"
#include "tile_copy.cuh"

constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N;
static_assert(WARPS_M * WARPS_N * 32 == THREADS, "a warp for every warp tile");

__device__ __forceinline__ int warp_row() { return threadIdx.x / 32 / WARPS_N * WARP_M; }
__device__ __forceinline__ int warp_col() {
  const int warp = threadIdx.x / 32;
  return (warp + warp / WARPS_N) % WARPS_N * WARP_N;
}

// Is this warp's tile outside C, of which the CTA has what `a` and `b` have? Then the warp has nothing to do but copy.
__device__ __forceinline__ bool is_idle(const Source &a, const Source &b) {
#if defined(NEVER_IDLE) ||                                                                         \
    defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900 // its registers do not suffice for two ways
  return false;
#endif
  return warp_row() >= (A_K_INNER ? a.rows : a.columns) ||
         warp_col() >= (B_K_INNER ? b.rows : b.columns);
}
