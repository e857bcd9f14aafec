// wmma fed from shared memory: cp.async brings tiles of A and B there, several ahead, and a warp computes 64 x 64
// entries of C from them: each fragment read serves four products, each tile read from global memory all warps.
// In fp16 that is eleven times the textbook form.
//
// Rows in shared memory are padded by 16 bytes: eight rows of a fragment then lie in different banks, and the
// alignment that load_matrix_sync wants is there whatever the caller's is. The copies alone meet his layout: where
// rows do not begin at multiples of 16 bytes, A and B are moved first to where they do (realign.cuh). That is a pass
// over M K + K N entries before M N K products: at 4097 in fp16 1.8 times as fast as cuBLAS on an H200, where chunks
// shifted on their way to shared memory (tile_copy.cuh, left for K of one tile) do not reach it.
//
// A CTA tile of 128 x 256 does 2 * 128 * 256 / (128 + 256) = 171 FLOP for each entry it reads, 85 a byte.
//
// /// kernel
// entry = "wmma_staged"
// op = "gemm"
// dtypes = ["float16", "bfloat16"]
// math = ["fp16", "bf16"]
// launcher = "grid2d"
// min_sm = 80
// by_layout = true
// realigns = true
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
//
// [[variant]]
// name = "64x64"
// threads = [128, 1]
// tile = [64, 64, 32]
// shared_bytes = 40960
// defines = { WARPS_M = 2, WARPS_N = 2, STAGES = 4, TILE_GROUP = 8 }
// ///
#include "fragment_layout.cuh"
#include "fragment_load.cuh"
#include "fragment_slab.cuh"
#include "layout.cuh"
#include "realign.cuh"
#include "tile_copy.cuh"
#include "tile_order.cuh"
#include "warp_place.cuh"

using namespace nvcuda;

constexpr int FRAGMENT = 16;
constexpr int ROWS = WARP_M / FRAGMENT, COLS = WARP_N / FRAGMENT; // fragments of a warp
constexpr int STEPS = TILE_K / FRAGMENT;

// A tile of an operand in shared memory, its rows as they lie in global memory. EXTENT along M or N.
template <int EXTENT, bool K_INNER> struct PaddedTile {
  static constexpr bool K_IS_INNER = K_INNER;
  static constexpr int ROWS = K_INNER ? EXTENT : TILE_K, COLUMNS = K_INNER ? TILE_K : EXTENT;
  static constexpr int LD = COLUMNS + VECTOR, BYTES = ROWS * LD * int(sizeof(T));
  static __device__ __forceinline__ unsigned offset(int row, int chunk) {
    return row * LD * int(sizeof(T)) + chunk * 16;
  }
  static __device__ __forceinline__ unsigned further(unsigned offset, int rows) {
    return offset + rows * LD * int(sizeof(T));
  }
};
using TileA = PaddedTile<TILE_M, A_K_INNER>;
using TileB = PaddedTile<TILE_N, B_K_INNER>;
constexpr int STAGE_BYTES = TileA::BYTES + TileB::BYTES;
constexpr int SLAB_LD = WARP_N + 8;
static_assert(STAGES * STAGE_BYTES <= SHARED_BYTES, "the stages fit");
static_assert(THREADS / 32 * FRAGMENT * SLAB_LD * sizeof(float) <= SHARED_BYTES, "slabs fit");

using Sums = wmma::fragment<wmma::accumulator, FRAGMENT, FRAGMENT, FRAGMENT, float>;

using FragmentA =
    wmma::fragment<wmma::matrix_a, FRAGMENT, FRAGMENT, FRAGMENT, T, FragmentLayout<A_K_INNER>>;
using FragmentB =
    wmma::fragment<wmma::matrix_b, FRAGMENT, FRAGMENT, FRAGMENT, T, FragmentLayout<!B_K_INNER>>;

// One step of a tile of K, from entry k on; `a_tile` and `b_tile` begin with the rows and columns of this warp.
__device__ __forceinline__ void multiply(Sums (&sums)[ROWS][COLS], const T *a_tile, const T *b_tile,
                                         int k) {
  // From entry (i, k) of A to the next i and the next k, likewise of B.
  constexpr int A_I = A_K_INNER ? TileA::LD : 1, A_K = A_K_INNER ? 1 : TileA::LD;
  constexpr int B_J = B_K_INNER ? TileB::LD : 1, B_K = B_K_INNER ? 1 : TileB::LD;
  FragmentA a[ROWS];
  FragmentB b;
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
    load_from_shared(a[i], a_tile + i * FRAGMENT * A_I + k * A_K, TileA::LD);
#pragma unroll
  for (int j = 0; j < COLS; ++j) {
    load_from_shared(b, b_tile + j * FRAGMENT * B_J + k * B_K, TileB::LD);
#pragma unroll
    for (int i = 0; i < ROWS; ++i) wmma::mma_sync(sums[i][j], a[i], b, sums[i][j]);
  }
}

// The sums of this warp: tiles of K pass through STAGES stages in shared memory. WIDE: copies of 16 bytes.
template <bool WIDE>
__device__ __forceinline__ void run(Sums (&sums)[ROWS][COLS], unsigned char *shared,
                                    const Source &a, const Source &b, index_t left) {
  const int a_first = warp_row() * (A_K_INNER ? TileA::LD : 1);
  const int b_first = warp_col() * (B_K_INNER ? TileB::LD : 1);
  TileCopy<TileA, TILE_K, STEPS, WIDE> copy_a(a, 0);
  TileCopy<TileB, TILE_K, STEPS, WIDE> copy_b(b, TileA::BYTES);
  int use = 0, fill = 0; // stages
  const auto begin = [&](int step) { copy_a.begin(shared, step), copy_b.begin(shared, step); };
  const auto end = [&](int step) { copy_a.end(shared, step), copy_b.end(shared, step); };
  const auto next = [&] {
    cp_async_commit();
    left -= TILE_K, fill = fill + 1 == STAGES ? 0 : fill + 1;
    const int further = fill == 0 ? -(STAGES - 1) * STAGE_BYTES : STAGE_BYTES;
    copy_a.next(left, further), copy_b.next(left, further);
  };
#pragma unroll 1
  for (int i = 0; i < STAGES - 1; ++i) {
#pragma unroll 1
    for (int step = 0; step < STEPS; ++step) begin(step), end(step);
    next();
  }
#pragma unroll 1
  while (left > -(STAGES - 1) * TILE_K) { // those on their way are still to be used
    cp_async_wait<STAGES - 2>();
    __syncthreads(); // the next tile is complete, the one before has been used
    const unsigned char *stage = shared + use * STAGE_BYTES;
    const T *a_tile = (const T *)stage + a_first;
    const T *b_tile = (const T *)(stage + TileA::BYTES) + b_first;
#pragma unroll 1 // two steps at once would need more registers than there are
    for (int step = 0; step < STEPS; ++step) {
      begin(step); // a part of a tile to come
      multiply(sums, a_tile, b_tile, step * FRAGMENT);
      end(step);
    }
    use = use + 1 == STAGES ? 0 : use + 1;
    next();
  }
  cp_async_wait<0>();
  __syncthreads(); // nobody reads or fills a stage any more
}

extern "C" __global__ void __launch_bounds__(THREADS) wmma_staged(const Problem p) {
  extern __shared__ int4 stages[];
  wait_for_launch_before(); // it may have been one that realigns A and B
  const TileOrder order(p.m, p.n, p.batch, TILE_M, TILE_N);
  const auto place = order.template operator()<TILE_GROUP>(blockIdx.x);
  const index_t row = index_t(place.row) * TILE_M, col = index_t(place.column) * TILE_N;
  const Source a =
      operand_source<A_K_INNER>(p.a, p.a.row_stride, p.a.col_stride, row, p.m, p.k, place.batch);
  const Source b =
      operand_source<B_K_INNER>(p.b, p.b.col_stride, p.b.row_stride, col, p.n, p.k, place.batch);
  Sums sums[ROWS][COLS];
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
#pragma unroll
    for (int j = 0; j < COLS; ++j) wmma::fill_fragment(sums[i][j], 0.0f);
  if (is_aligned(a, 16) && is_aligned(b, 16))
    run<true>(sums, (unsigned char *)stages, a, b, p.k);
  else
    run<false>(sums, (unsigned char *)stages, a, b, p.k);

  float *slab = (float *)stages + threadIdx.x / 32 * FRAGMENT * SLAB_LD;
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
#pragma unroll
    for (int j = 0; j < COLS; ++j)
      wmma::store_matrix_sync(slab + j * FRAGMENT, sums[i][j], SLAB_LD, wmma::mem_row_major);
    __syncwarp();
    store_slab<FRAGMENT, WARP_N, SLAB_LD>(p, slab, row + warp_row() + i * FRAGMENT,
                                          col + warp_col(), place.batch, [](int r) { return r; });
    __syncwarp();
  }
}
