// Which part of the CTA tile a warp has: WARPS_M x WARPS_N warp tiles.
//
// Warps w and w + 4 share a tensor core. With four warps side by side (WARPS_N = 4) they differ here in row and in
// column, so they do not want the same fragments of B from shared memory at the same time. With two they do.
#pragma once

constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N;
static_assert(WARPS_M * WARPS_N * 32 == THREADS, "a warp for every warp tile");

__device__ __forceinline__ int warp_row() { return threadIdx.x / 32 / WARPS_N * WARP_M; }
__device__ __forceinline__ int warp_col() {
  const int warp = threadIdx.x / 32;
  return (warp + warp / WARPS_N) % WARPS_N * WARP_N;
}
