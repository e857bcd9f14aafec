// Tensor cores through nvcuda::wmma: a warp multiplies 16 x 16 x 16 fragments, half precision in, float sums.
//
// load_matrix_sync wants 32-byte aligned fragments and a leading dimension that is a multiple of 8 entries;
// a caller's matrix may have neither. So every fragment is read from shared memory, where this file sets both,
// and the copy into it is the only part that meets the caller's layout: 16 bytes at a time where pointer,
// leading dimension and tile allow it, else entry by entry with zeros outside the matrix.
//
// /// kernel
// entry = "wmma_gemm"
// op = "gemm"
// dtypes = ["float16", "bfloat16"]
// math = ["fp16", "bf16"]
// launcher = "grid2d"
// min_sm = 80
// teaches = "Tensor core fragments, their alignment rules, and staging whatever does not obey them."
//
// [[variant]]
// threads = [128, 1]
// tile = [64, 64, 32]
// defines = { WARPS_M = 2, WARPS_N = 2 }
//
// [[variant]]
// name = "128"
// threads = [256, 1]
// tile = [128, 128, 32]
// defines = { WARPS_M = 2, WARPS_N = 4 }
// ///
#include <mma.h>

#include "problem.cuh"

using namespace nvcuda;

constexpr int FRAGMENT = 16;
constexpr int VECTOR = 16 / sizeof(T);                              // entries in one 16-byte access
constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N; // warp tile
constexpr int ROWS = WARP_M / FRAGMENT, COLS = WARP_N / FRAGMENT;   // fragments of a warp
// Padding by one vector spreads rows over the banks and keeps the multiple of 8 that wmma asks for.
constexpr int LD_A = TILE_K + VECTOR, LD_B = TILE_N + VECTOR, LD_C = FRAGMENT + 4;
static_assert(WARPS_M * WARPS_N * 32 == THREADS, "a warp for every warp tile");
static_assert(WARP_M % FRAGMENT == 0 && WARP_N % FRAGMENT == 0 && TILE_K % FRAGMENT == 0,
              "warp tiles are made of whole fragments");

// The h x w entries of `source` from (row, col) on into `to` with leading dimension `ld`, zero outside
// rows x cols. `o` says how they lie in memory; threads run along the contiguous direction.
template <int h, int w, int ld>
__device__ void stage(T *to, const T *source, const Operand &o, index_t row, index_t col,
                      index_t rows, index_t cols) {
  const T *from = source + row * o.row_stride + col * o.col_stride;
  const bool whole = row + h <= rows && col + w <= cols;
  if (whole && o.col_stride == 1 && o.row_stride % VECTOR == 0 &&
      (unsigned long long)from % 16 == 0) {
    for (int i = threadIdx.x; i < h * w / VECTOR; i += THREADS) {
      const int r = i / (w / VECTOR), c = i % (w / VECTOR) * VECTOR;
      *(int4 *)(to + r * ld + c) = __ldg((const int4 *)(from + r * o.row_stride + c));
    }
    return;
  }
  const bool along_row = o.col_stride == 1;
  for (int i = threadIdx.x; i < h * w; i += THREADS) {
    const int r = along_row ? i / w : i % h, c = along_row ? i % w : i / h;
    T entry;
    from_acc(0.0f, entry);
    if (row + r < rows && col + c < cols) entry = __ldg(from + r * o.row_stride + c * o.col_stride);
    to[r * ld + c] = entry;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) wmma_gemm(const Problem p) {
  alignas(32) __shared__ T a_tile[TILE_M * LD_A];
  alignas(32) __shared__ T b_tile[TILE_K * LD_B];
  alignas(32) __shared__ float c_tile[THREADS / 32][FRAGMENT * LD_C];

  const Tile tile = tile_of_block(p, TILE_M, TILE_N);
  const T *a = p.a.data + tile.batch * p.a.batch_stride;
  const T *b = p.b.data + tile.batch * p.b.batch_stride;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_row = warp / WARPS_N * WARP_M, warp_col = warp % WARPS_N * WARP_N;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[ROWS][COLS];
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
#pragma unroll
    for (int j = 0; j < COLS; ++j) wmma::fill_fragment(sums[i][j], 0.0f);

  for (index_t k = 0; k < p.k; k += TILE_K) {
    stage<TILE_M, TILE_K, LD_A>(a_tile, a, p.a, tile.row, k, p.m, p.k);
    stage<TILE_K, TILE_N, LD_B>(b_tile, b, p.b, k, tile.col, p.k, p.n);
    __syncthreads();
#pragma unroll
    for (int step = 0; step < TILE_K; step += FRAGMENT) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> a_part[ROWS];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> b_part;
#pragma unroll
      for (int i = 0; i < ROWS; ++i)
        wmma::load_matrix_sync(a_part[i], a_tile + (warp_row + i * FRAGMENT) * LD_A + step, LD_A);
#pragma unroll
      for (int j = 0; j < COLS; ++j) {
        wmma::load_matrix_sync(b_part, b_tile + step * LD_B + warp_col + j * FRAGMENT, LD_B);
#pragma unroll
        for (int i = 0; i < ROWS; ++i) wmma::mma_sync(sums[i][j], a_part[i], b_part, sums[i][j]);
      }
    }
    __syncthreads();
  }

  // Which thread holds which entry of a fragment is not specified, so a fragment reaches C by way of the
  // warp's own 16 x 16 floats. The loops are the same for all lanes: no lane misses a __syncwarp().
  T *c = p.c.data + tile.batch * p.c.batch_stride;
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
#pragma unroll
    for (int j = 0; j < COLS; ++j) {
      wmma::store_matrix_sync(c_tile[warp], sums[i][j], LD_C, wmma::mem_row_major);
      __syncwarp();
      for (int e = lane; e < FRAGMENT * FRAGMENT; e += 32) {
        const int r = e / FRAGMENT, s = e % FRAGMENT;
        const index_t row = tile.row + warp_row + i * FRAGMENT + r;
        const index_t col = tile.col + warp_col + j * FRAGMENT + s;
        if (row < p.m && col < p.n)
          store_result(p, c + row * p.c.row_stride + col * p.c.col_stride,
                       c_tile[warp][r * LD_C + s]);
      }
      __syncwarp();
    }
}
