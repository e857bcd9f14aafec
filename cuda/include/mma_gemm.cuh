// The GEMM of the mma.sync rungs. A CTA keeps STAGES tiles of A and of B in shared memory; while the warps
// multiply one, cp.async fills the others. A warp reads the fragments of the next step before it multiplies
// those of this one, so that the tensor cores wait neither for shared nor for global memory.
//
// One barrier for each tile of K: behind it the next tile is complete and the one before is free.
#pragma once

#include "fragment_slab.cuh"
#include "layout.cuh"
#include "mma_fragments.cuh"
#include "next_launch.cuh"
#include "opaque.cuh"
#include "tile_copy.cuh"
#include "tile_order.cuh"
#include "warp_place.cuh"

constexpr int ROWS = WARP_M / 16, COLS = WARP_N / 8; // fragments of a warp
constexpr int STEPS = TILE_K / MMA_K;
constexpr int PARTS = STEPS - 1; // of a copy: the last step is that of the barrier
// Fragments of A are read a step ahead, unless they are doubles: the sums leave no registers for two sets.
constexpr int A_BUFFERS = sizeof(T) == 8 ? 1 : 2;
constexpr int PORTION = sizeof(T) == 8 ? 2 : COLS < 4 ? COLS : 4; // columns of B read together
constexpr int SLAB_LD = WARP_N + 8;

using TileA = OperandTile<TILE_M, TILE_K, A_K_INNER>;
using TileB = OperandTile<TILE_N, TILE_K, B_K_INNER>;
constexpr int STAGE_BYTES = TileA::BYTES + TileB::BYTES;
static_assert(STEPS % 2 == 0 && STAGES >= 3, "something to overlap");
static_assert(STAGES * STAGE_BYTES == SHARED_BYTES, "the stages");
static_assert(THREADS / 32 * 16 * SLAB_LD * sizeof(Acc) <= SHARED_BYTES, "a slab for every warp");

struct alignas(2 * sizeof(Acc)) Pair {
  Acc first, second;
};

__device__ __forceinline__ Tile tile_of_block_ordered(const Problem &p, unsigned block) {
  const TileOrder order(p.m, p.n, p.batch, TILE_M, TILE_N);
  const auto place = order.template operator()<TILE_GROUP>(block);
  return {index_t(place.row) * TILE_M, index_t(place.column) * TILE_N, index_t(place.batch)};
}

template <bool WIDE, bool WIDE_B = WIDE> struct Mainloop {
  unsigned char *const shared;
  TileCopy<TileA, TILE_K, PARTS, WIDE> copy_a;
  TileCopy<TileB, TILE_K, PARTS, WIDE_B> copy_b;
  Fragments<TileA, WARP_M, true> read_a;
  Fragments<TileB, WARP_N, false> read_b;
  Reg a[A_BUFFERS][4 * ROWS], b[2 * COLS];
  Acc sums[ROWS][COLS][4];
  int use = 0, fill = 0; // numbers of the stages that are read and filled
  index_t k;             // what is left of K from the tile on that is copied next

  __device__ __forceinline__ Mainloop(unsigned char *shared, const Source &a, const Source &b,
                                      index_t k)
      : shared(shared), copy_a(a, 0), copy_b(b, TileA::BYTES), read_a(warp_row(), 0),
        read_b(warp_col(), TileA::BYTES), k(k) {}

  // Takes `stage` to the next one; how many bytes further that is.
  static __device__ __forceinline__ int advance(int &stage) {
    const bool last = stage == STAGES - 1;
    stage = last ? 0 : stage + 1;
    return last ? -(STAGES - 1) * STAGE_BYTES : STAGE_BYTES;
  }
  __device__ __forceinline__ void next_copy() {
    cp_async_commit();
    k -= TILE_K;
    const int further = advance(fill);
    copy_a.next(k, further), copy_b.next(k, further);
  }
  __device__ __forceinline__ void next_tile() {
    const int further = advance(use);
    read_a.lane += further, read_b.lane += further;
  }

  // Steps STEP and on of one tile of K.
  template <int STEP> __device__ __forceinline__ void steps() {
    if constexpr (STEP == STEPS - 1) {
      next_copy();
      cp_async_wait<STAGES - 2>();
      __syncthreads();
      next_tile();
    }
    read_a.convert(a[STEP % A_BUFFERS]);
    if constexpr (A_BUFFERS == 2) read_a.read(a[(STEP + 1) % 2], shared, (STEP + 1) % STEPS);
    columns<STEP, 0>();
    if constexpr (STEP + 1 < STEPS) steps<STEP + 1>();
  }

  // Columns of fragments from FIRST on. What B has there for the next step takes the same registers right
  // behind the products, long before it is needed. Meanwhile a part of the next tile of A, then of B, is on
  // its way.
  template <int STEP, int FIRST> __device__ __forceinline__ void columns() {
    constexpr bool COPY_A = STEP < PARTS && FIRST == 0, LAST = FIRST + PORTION == COLS;
    constexpr bool COPY_B = STEP < PARTS && LAST;
    constexpr int NEXT = (STEP + 1) % STEPS;
    if constexpr (COPY_A) copy_a.begin(shared, STEP);
    if constexpr (COPY_B) copy_b.begin(shared, STEP);
    read_b.template convert<FIRST, PORTION>(b);
    rows<STEP, FIRST, 0>();
    read_b.template read<FIRST, PORTION>(b, shared, NEXT);
    if constexpr (COPY_A) copy_a.end(shared, STEP);
    if constexpr (COPY_B) copy_b.end(shared, STEP);
    if constexpr (!LAST) columns<STEP, FIRST + PORTION>();
  }
  template <int STEP, int FIRST, int ROW> __device__ __forceinline__ void rows() {
#pragma unroll
    for (int j = FIRST; j < FIRST + PORTION; ++j)
      mma(sums[ROW][j], a[STEP % A_BUFFERS] + 4 * ROW, b + 2 * j);
    if constexpr (A_BUFFERS == 1 && FIRST + PORTION == COLS)
      read_a.template read<2 * ROW, 2>(a[0], shared, (STEP + 1) % STEPS);
    if constexpr (ROW + 1 < ROWS) rows<STEP, FIRST, ROW + 1>();
  }

  __device__ __forceinline__ void run() {
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
#pragma unroll
      for (int j = 0; j < COLS; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][j][e] = 0;
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; ++i) {
#pragma unroll 1
      for (int part = 0; part < PARTS; ++part) {
        copy_a.begin(shared, part), copy_b.begin(shared, part);
        copy_a.end(shared, part), copy_b.end(shared, part);
      }
      next_copy();
    }
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    read_a.read(a[0], shared, 0), read_b.read(b, shared, 0);
#pragma unroll 1
    while (k > -(STAGES - 1) * TILE_K) steps<0>(); // those on their way are still to be used
    cp_async_wait<0>();
    __syncthreads(); // nobody reads or fills a stage any more
  }

  // To C, 16 rows at a time.
  __device__ __forceinline__ void store(const Problem &p, const Tile &tile) {
    Acc *slab = (Acc *)shared + threadIdx.x / 32 * 16 * SLAB_LD;
    const index_t row = tile.row + warp_row(), col = tile.col + warp_col();
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      write_slab(slab, i);
      __syncwarp();
      const auto row_in_warp = [=](int r) { return row_of<A_K_INNER>(2 * i + r / 8, r % 8); };
      store_slab<16, WARP_N, SLAB_LD>(p, slab, row, col, tile.batch, row_in_warp);
      __syncwarp();
    }
  }
  __device__ __forceinline__ void write_slab(Acc *slab, int i) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < COLS; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Acc *line = slab + (g + half * 8) * SLAB_LD;
        const Acc first = sums[i][j][2 * half], second = sums[i][j][2 * half + 1];
        if (sizeof(T) != 4 || B_K_INNER) {
          *(Pair *)(line + 8 * j + 2 * t) = {first, second};
          continue;
        }
        line[row_of<B_K_INNER>(j, 2 * t)] = first;
        line[row_of<B_K_INNER>(j, 2 * t + 1)] = second;
      }
  }
};

template <bool WIDE>
__device__ __forceinline__ void multiply(const Problem &p, void *stages, const Source &a,
                                         const Source &b) {
  Mainloop<WIDE> mainloop((unsigned char *)stages, a, b, p.k);
  mainloop.run();
  mainloop.store(p, tile_of_block_ordered(p, opaque(blockIdx.x))); // not kept meanwhile
}

__device__ __forceinline__ void mma_gemm(const Problem &p, void *stages) {
  wait_for_launch_before(); // it may have been one that realigns A and B
  const Tile tile = tile_of_block_ordered(p, blockIdx.x);
  const Source a = operand_source<A_K_INNER>(p.a, p.a.row_stride, p.a.col_stride, tile.row, p.m,
                                             p.k, tile.batch);
  const Source b = operand_source<B_K_INNER>(p.b, p.b.col_stride, p.b.row_stride, tile.col, p.n,
                                             p.k, tile.batch);
  if (is_aligned(a, 16) && is_aligned(b, 16))
    multiply<true>(p, stages, a, b);
  else
    multiply<false>(p, stages, a, b);
}
