// The GEMM of the mma.sync rungs. A CTA keeps STAGES tiles of A and of B in shared memory; while the warps
// multiply one, cp.async fills the others. A warp reads the fragments of the next step before it multiplies
// those of this one, so that the tensor cores wait neither for shared nor for global memory.
//
// One barrier for each tile of K: behind it the next tile is complete and the one before is free.
#pragma once

#include "mma_fragments.cuh"
#include "slab_epilogue.cuh"
#include "tile_copy.cuh"
#include "tile_order.cuh"

constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N;
constexpr int ROWS = WARP_M / 16, COLS = WARP_N / 8; // fragments of a warp
constexpr int STEPS = TILE_K / MMA_K;
constexpr int PARTS = STEPS - 1; // of a copy: the last step is that of the barrier
// Fragments of A are read a step ahead, unless they are doubles: the sums leave no registers for two sets.
constexpr int A_BUFFERS = sizeof(T) == 8 ? 1 : 2;
constexpr int PORTION = sizeof(T) == 8 ? 2 : COLS < 4 ? COLS : 4; // columns of B read together
constexpr int SLAB_LD = WARP_N + 8;
static_assert(WARPS_M * WARPS_N * 32 == THREADS, "a warp for every warp tile");
static_assert(STEPS % 2 == 0 && STAGES >= 3, "something to overlap");
static_assert(STAGES * (TILE_M + TILE_N) * TILE_K * sizeof(T) == SHARED_BYTES, "the stages");
static_assert(THREADS / 32 * 16 * SLAB_LD * sizeof(Acc) <= SHARED_BYTES, "a slab for every warp");

using FragmentsA = Fragments<TILE_M, TILE_K, WARP_M, true>;
using FragmentsB = Fragments<TILE_N, TILE_K, WARP_N, false>;
constexpr unsigned STAGE_BYTES = FragmentsA::BYTES + FragmentsB::BYTES;

struct alignas(2 * sizeof(Acc)) Pair {
  Acc first, second;
};

// Both operands on their way from global memory.
struct Copies {
  TileCopy<FragmentsA::TileK, FragmentsA::TileOuter, TILE_K, PARTS> a;
  TileCopy<FragmentsB::TileK, FragmentsB::TileOuter, TILE_K, PARTS> b;
  index_t k; // what is left from the tile on that is copied next

  __device__ __forceinline__ void next() {
    cp_async_commit();
    k -= TILE_K;
    a.next(k), b.next(k);
  }
  __device__ __forceinline__ void whole(unsigned char *stage) {
#pragma unroll 1
    for (int part = 0; part < PARTS; ++part) {
      a.begin(stage, part), b.begin(stage + FragmentsA::BYTES, part);
      a.end(stage, part), b.end(stage + FragmentsA::BYTES, part);
    }
  }
};

__device__ __forceinline__ Tile tile_of_block_ordered(const Problem &p, unsigned block) {
  const TileOrder order(p.m, p.n, p.batch, TILE_M, TILE_N);
  const auto place = order.template operator()<TILE_GROUP>(block);
  return {index_t(place.row) * TILE_M, index_t(place.column) * TILE_N, index_t(place.batch)};
}

struct Mainloop {
  unsigned char *const stages;
  Copies copies;
  const FragmentsA read_a;
  const FragmentsB read_b;
  Reg a[A_BUFFERS][FragmentsA::COUNT], b[FragmentsB::COUNT];
  Acc sums[ROWS][COLS][4];
  unsigned use = 0, fill = 0; // where the stages begin that are read and filled

  __device__ __forceinline__ Mainloop(unsigned char *stages, const Source &a, const Source &b,
                                      index_t k)
      : stages(stages), copies{a, b, k}, read_a(a.k_inner, threadIdx.x / 32 / WARPS_N * WARP_M),
        read_b(b.k_inner, threadIdx.x / 32 % WARPS_N * WARP_N) {}

  static __device__ __forceinline__ unsigned after(unsigned stage) {
    return stage + STAGE_BYTES == SHARED_BYTES ? 0 : stage + STAGE_BYTES;
  }

  // Steps STEP and on of one tile of K.
  template <int STEP> __device__ __forceinline__ void steps() {
    if constexpr (STEP == STEPS - 1) {
      copies.next();
      cp_async_wait<STAGES - 2>();
      __syncthreads();
      use = after(use), fill = after(fill);
    }
    if constexpr (A_BUFFERS == 2) read_next_a<STEP>();
    columns<STEP, 0>();
    if constexpr (A_BUFFERS == 1) read_next_a<STEP>();
    if constexpr (STEP + 1 < STEPS) steps<STEP + 1>();
  }

  template <int STEP> __device__ __forceinline__ void read_next_a() {
    read_a.read(a[(STEP + 1) % A_BUFFERS], stages + use, (STEP + 1) % STEPS);
  }

  // Columns of fragments from FIRST on. What B has there for the next step takes the same registers
  // right behind the products, long before it is needed. Meanwhile a part of the next tile of A, then
  // of B, is on its way.
  template <int STEP, int FIRST> __device__ __forceinline__ void columns() {
    constexpr bool COPY_A = STEP < PARTS && FIRST == 0;
    constexpr bool COPY_B = STEP < PARTS && FIRST + PORTION == COLS;
    unsigned char *const to_a = stages + fill, *const to_b = to_a + FragmentsA::BYTES;
    if constexpr (COPY_A) copies.a.begin(to_a, STEP);
    if constexpr (COPY_B) copies.b.begin(to_b, STEP);
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
#pragma unroll
      for (int j = FIRST; j < FIRST + PORTION; ++j)
        mma(sums[i][j], a[STEP % A_BUFFERS] + 4 * i, b + 2 * j);
    read_b.template read<FIRST, PORTION>(b, stages + use + FragmentsA::BYTES, (STEP + 1) % STEPS);
    if constexpr (COPY_A) copies.a.end(to_a, STEP);
    if constexpr (COPY_B) copies.b.end(to_b, STEP);
    if constexpr (FIRST + PORTION < COLS) columns<STEP, FIRST + PORTION>();
  }

  __device__ __forceinline__ void run() {
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
#pragma unroll
      for (int j = 0; j < COLS; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][j][e] = 0;
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; ++i, fill += STAGE_BYTES)
      copies.whole(stages + fill), copies.next();
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    read_a.read(a[0], stages + use, 0);
    read_b.read(b, stages + use + FragmentsA::BYTES, 0);
#pragma unroll 1
    while (copies.k > -(STAGES - 1) * TILE_K) steps<0>(); // those on their way are still to be used
    cp_async_wait<0>();
    __syncthreads(); // nobody reads or fills a stage any more
  }

  // To C, 16 rows at a time.
  __device__ __forceinline__ void store(const Problem &p, const Tile &tile) {
    Acc *slab = (Acc *)stages + threadIdx.x / 32 * 16 * SLAB_LD;
    const index_t row = tile.row + threadIdx.x / 32 / WARPS_N * WARP_M;
    const index_t col = tile.col + threadIdx.x / 32 % WARPS_N * WARP_N;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      write_slab(slab, i);
      __syncwarp();
      const bool k_inner = read_a.k_inner;
      const auto row_in_warp = [=](int r) { return row_of(k_inner, 2 * i + r / 8, r % 8); };
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
        if (sizeof(T) == 2 || read_b.k_inner)
          *(Pair *)(line + 8 * j + 2 * t) = {first, second};
        else
          line[row_of(false, j, 2 * t)] = first, line[row_of(false, j, 2 * t + 1)] = second;
      }
  }
};

__device__ __forceinline__ void mma_gemm(const Problem &p, void *stages) {
  const Tile tile = tile_of_block_ordered(p, blockIdx.x);
  const Source a =
      operand_source(p.a, p.a.row_stride, p.a.col_stride, tile.row, p.m, p.k, tile.batch);
  const Source b =
      operand_source(p.b, p.b.col_stride, p.b.row_stride, tile.col, p.n, p.k, tile.batch);
  Mainloop mainloop((unsigned char *)stages, a, b, p.k);
  mainloop.run();
  mainloop.store(p, tile_of_block_ordered(p, opaque(blockIdx.x))); // not kept meanwhile
}
