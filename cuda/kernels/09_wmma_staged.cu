// wmma fed from shared memory: cp.async brings tiles of A and B there, several ahead, and a warp computes 64 x 64
// entries of C from them: each fragment read serves four products, each tile read from global memory all warps.
//
// Rows in shared memory are padded by 16 bytes: eight rows of a fragment then lie in different banks, and the
// alignment that load_matrix_sync wants is there whatever the caller's is. The copies alone meet his layout.
//
// A CTA tile of 128 x 256 does 85 FLOP for each entry it reads: 43 FLOP a byte.
//
// /// kernel
// entry = "wmma_staged"
// op = "gemm"
// dtypes = ["float16", "bfloat16"]
// math = ["fp16", "bf16"]
// launcher = "grid2d"
// min_sm = 80
// teaches = "Staging and warp tiles: what reuse in shared memory and registers makes of the same fragments."
//
// [[variant]]
// threads = [256, 1]
// tile = [128, 256, 32]
// shared_bytes = 122880
// defines = { WARPS_M = 2, WARPS_N = 4, STAGES = 4, TILE_GROUP = 8 }
//
// [[variant]]
// name = "128x128"
// threads = [128, 1]
// tile = [128, 128, 32]
// shared_bytes = 81920
// defines = { WARPS_M = 2, WARPS_N = 2, STAGES = 4, TILE_GROUP = 8 }
// ///
#include <mma.h>

#include "slab_epilogue.cuh"
#include "tile_copy.cuh"
#include "tile_order.cuh"

using namespace nvcuda;

constexpr int FRAGMENT = 16;
constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N;
constexpr int ROWS = WARP_M / FRAGMENT, COLS = WARP_N / FRAGMENT; // fragments of a warp
static_assert(WARPS_M * WARPS_N * 32 == THREADS, "a warp for every warp tile");

// A tile of an operand in shared memory, its rows as they lie in global memory. EXTENT along M or N.
template <int EXTENT, bool K_INNER> struct PaddedTile {
  static constexpr int ROWS = K_INNER ? EXTENT : TILE_K, COLUMNS = K_INNER ? TILE_K : EXTENT;
  static constexpr int LD = COLUMNS + VECTOR, BYTES = ROWS * LD * int(sizeof(T));
  static __device__ __forceinline__ unsigned offset(int row, int chunk) {
    return row * LD * int(sizeof(T)) + chunk * 16;
  }
};
template <int EXTENT> struct Padded {
  using K = PaddedTile<EXTENT, true>;
  using Outer = PaddedTile<EXTENT, false>;
  static constexpr int BYTES = K::BYTES > Outer::BYTES ? K::BYTES : Outer::BYTES;
  using Copy = TileCopy<K, Outer, TILE_K, 1>;
};
using PaddedA = Padded<TILE_M>;
using PaddedB = Padded<TILE_N>;
constexpr int STAGE_BYTES = PaddedA::BYTES + PaddedB::BYTES;
constexpr int SLAB_LD = WARP_N + 8;
static_assert(STAGES * STAGE_BYTES == SHARED_BYTES, "see the header");
static_assert(THREADS / 32 * FRAGMENT * SLAB_LD * sizeof(float) <= SHARED_BYTES, "slabs fit");

using Sums = wmma::fragment<wmma::accumulator, FRAGMENT, FRAGMENT, FRAGMENT, float>;

template <bool ROWS_IN_MEMORY> struct LayoutOf {
  using Type = wmma::col_major;
};
template <> struct LayoutOf<true> {
  using Type = wmma::row_major;
};

// One tile of K. A: rows of A are rows in memory (K inner); B: rows of B are (N inner).
template <bool A_ROWS, bool B_ROWS>
__device__ __forceinline__ void multiply(Sums (&sums)[ROWS][COLS], const unsigned char *stage,
                                         int warp_row, int warp_col) {
  constexpr int LD_A = PaddedTile<TILE_M, A_ROWS>::LD, LD_B = PaddedTile<TILE_N, !B_ROWS>::LD;
  // From entry (i, k) of A to the next row and the next k, likewise of B.
  constexpr int A_I = A_ROWS ? LD_A : 1, A_K = A_ROWS ? 1 : LD_A;
  constexpr int B_J = B_ROWS ? 1 : LD_B, B_K = B_ROWS ? LD_B : 1;
  using LayoutA = typename LayoutOf<A_ROWS>::Type;
  using LayoutB = typename LayoutOf<B_ROWS>::Type;
  const T *a_tile = (const T *)stage + warp_row * A_I;
  const T *b_tile = (const T *)(stage + PaddedA::BYTES) + warp_col * B_J;
#pragma unroll 1
  for (int k = 0; k < TILE_K; k += FRAGMENT) {
    wmma::fragment<wmma::matrix_a, FRAGMENT, FRAGMENT, FRAGMENT, T, LayoutA> a[ROWS];
    wmma::fragment<wmma::matrix_b, FRAGMENT, FRAGMENT, FRAGMENT, T, LayoutB> b;
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
      wmma::load_matrix_sync(a[i], a_tile + i * FRAGMENT * A_I + k * A_K, LD_A);
#pragma unroll
    for (int j = 0; j < COLS; ++j) {
      wmma::load_matrix_sync(b, b_tile + j * FRAGMENT * B_J + k * B_K, LD_B);
#pragma unroll
      for (int i = 0; i < ROWS; ++i) wmma::mma_sync(sums[i][j], a[i], b, sums[i][j]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) wmma_staged(const Problem p) {
  extern __shared__ int4 shared[];
  unsigned char *stages = (unsigned char *)shared;
  const TileOrder order(p.m, p.n, p.batch, TILE_M, TILE_N);
  const auto place = order.template operator()<TILE_GROUP>(blockIdx.x);
  const index_t row = index_t(place.row) * TILE_M, col = index_t(place.column) * TILE_N;
  const Source a = operand_source(p.a, p.a.row_stride, p.a.col_stride, row, p.m, p.k, place.batch);
  const Source b = operand_source(p.b, p.b.col_stride, p.b.row_stride, col, p.n, p.k, place.batch);
  PaddedA::Copy copy_a(a);
  PaddedB::Copy copy_b(b);
  const int warp = threadIdx.x / 32;
  const int warp_row = warp / WARPS_N * WARP_M, warp_col = warp % WARPS_N * WARP_N;

  Sums sums[ROWS][COLS];
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
#pragma unroll
    for (int j = 0; j < COLS; ++j) wmma::fill_fragment(sums[i][j], 0.0f);

  unsigned use = 0, fill = 0;
  index_t left = p.k; // from the tile on that is copied next
  const auto begin = [&] {
    copy_a.begin(stages + fill, 0), copy_b.begin(stages + fill + PaddedA::BYTES, 0);
  };
  const auto end = [&] {
    copy_a.end(stages + fill, 0), copy_b.end(stages + fill + PaddedA::BYTES, 0);
    left -= TILE_K;
    copy_a.next(left), copy_b.next(left);
    fill = fill + STAGE_BYTES == SHARED_BYTES ? 0 : fill + STAGE_BYTES;
    cp_async_commit();
  };
#pragma unroll 1
  for (int i = 0; i < STAGES - 1; ++i) begin(), end();
#pragma unroll 1
  while (left > -(STAGES - 1) * TILE_K) { // those on their way are still to be used
    cp_async_wait<STAGES - 2>();
    __syncthreads(); // the next tile is complete, the one before has been used
    begin();
    const unsigned char *stage = stages + use;
    if (a.k_inner && !b.k_inner) multiply<true, true>(sums, stage, warp_row, warp_col);
    if (a.k_inner && b.k_inner) multiply<true, false>(sums, stage, warp_row, warp_col);
    if (!a.k_inner && !b.k_inner) multiply<false, true>(sums, stage, warp_row, warp_col);
    if (!a.k_inner && b.k_inner) multiply<false, false>(sums, stage, warp_row, warp_col);
    use = use + STAGE_BYTES == SHARED_BYTES ? 0 : use + STAGE_BYTES;
    end();
  }
  cp_async_wait<0>();
  __syncthreads();

  float *slab = (float *)shared + warp * FRAGMENT * SLAB_LD;
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
#pragma unroll
    for (int j = 0; j < COLS; ++j)
      wmma::store_matrix_sync(slab + j * FRAGMENT, sums[i][j], SLAB_LD, wmma::mem_row_major);
    __syncwarp();
    store_slab<FRAGMENT, WARP_N, SLAB_LD>(p, slab, row + warp_row + i * FRAGMENT, col + warp_col,
                                          place.batch, [](int r) { return r; });
    __syncwarp();
  }
}
