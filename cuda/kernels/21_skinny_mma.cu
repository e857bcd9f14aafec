// Tall A times a skinny B in 16 bits, on tensor cores: with N columns each byte of A takes part in N operations
// (N / 2 in float32), and the ridge moves from 31 columns to some 200.
//
// A batch of one is decoded as slowly as a batch of 64: the time is that of reading the weights A. mma.sync has
// eight columns at least; for N < 8 the others are zeros, which costs nothing where memory is the limit.
// Fragments come by ldmatrix, transposed on the way where a matrix is not contiguous along K.
//
// Measured on an H200 at 8192 x 8192 in float16: N = 1 to 8 take 41 to 43 us (3.2 TB/s), 32 take 48, 64 take 59,
// 128 take 91; 64 columns a tile suffice for more. cuBLAS: 39 to 42, 35, 39, 38, by wgmma.
//
// /// kernel
// entry = "skinny_mma"
// op = "gemm"
// dtypes = ["float16", "bfloat16"]
// math = ["fp16", "bf16"]
// launcher = "split_k"
// min_sm = 80
// teaches = "Half the bytes and the tensor cores' rate: batches stay free up to another ridge."
//
// [[variant]]
// threads = [128, 1]
// tile = [64, 8, 128]
// shared_bytes = 98304
// defines = { BLOCKS_PER_SM = 2 }
//
// [[variant]]
// name = "16"
// threads = [128, 1]
// tile = [64, 16, 128]
// shared_bytes = 98304
// defines = { BLOCKS_PER_SM = 2 }
//
// [[variant]]
// name = "32"
// threads = [128, 1]
// tile = [128, 32, 64]
// shared_bytes = 94208
// defines = { BLOCKS_PER_SM = 2 }
//
// [[variant]]
// name = "64"
// threads = [128, 1]
// tile = [128, 64, 64]
// shared_bytes = 82944
// defines = { BLOCKS_PER_SM = 2 }
// ///
#include "copy_tile.cuh"
#include "ldmatrix.cuh"
#include "mma.cuh"
#include "split.cuh"

constexpr int WARPS = THREADS / 32, WARP_M = TILE_M / WARPS; // a warp has its rows of A to itself
constexpr int DOWN = WARP_M / 16, ACROSS = TILE_N / 8;       // fragments of its sums
constexpr int LD_K =
    TILE_K + VECTOR; // 16 bytes beyond the row: eight rows begin in different banks
constexpr int LD_M = TILE_M + VECTOR, LD_N = TILE_N == 8 ? 8 : TILE_N + VECTOR;
constexpr int OF_A = TILE_M * LD_K > TILE_K *LD_M ? TILE_M * LD_K : TILE_K * LD_M;
constexpr int STAGE = OF_A + (TILE_N * LD_K > TILE_K * LD_N ? TILE_N * LD_K : TILE_K * LD_N);
constexpr int STAGES = SHARED_BYTES / (STAGE * sizeof(T)); // as many as there is room for
static_assert(WARP_M % 16 == 0 && TILE_N % 8 == 0 && TILE_K % 32 == 0, "whole fragments");
static_assert(STAGES >= 2, "one stage is multiplied while another one arrives");

// A's rows and K (or B's columns and K) as they lie in shared memory: [row][k] where the matrix is contiguous
// along k, else [k][row].
template <bool ALONG_K, int ROWS, int LD_ROWS> struct Side {
  static constexpr int LD = ALONG_K ? LD_K : LD_ROWS;
  CopyTile<ALONG_K ? ROWS : TILE_K, ALONG_K ? TILE_K : ROWS, LD, true, false> tile;
  index_t rows, advance;

  // Entry (row, k) is data[row * row_stride + k * k_stride]; `rows` of them are inside the matrix.
  __device__ __forceinline__ Side(const T *data, index_t row_stride, index_t k_stride, index_t rows)
      : tile(data, ALONG_K ? row_stride : k_stride, ALONG_K ? k_stride : row_stride), rows(rows),
        advance(TILE_K * k_stride) {}

  __device__ __forceinline__ void copy(T *to, index_t left) {
    if (ALONG_K)
      tile.copy(to, rows, left, advance);
    else
      tile.copy(to, left, rows, advance);
  }
};

// The 16 x 16 fragment of A at (row, k).
template <bool ALONG_K>
__device__ __forceinline__ void read_a(unsigned (&to)[4], const T *a, int row, int k) {
  const int lane = threadIdx.x % 32, half = lane % 16 / 8 * 8;
  if (ALONG_K)
    ldmatrix(to, a + (row + lane % 16) * LD_K + k + lane / 16 * 8);
  else
    ldmatrix_transposed(to, a + (k + lane / 16 * 8 + lane % 8) * LD_M + row + half);
}

// The 32 x 8 fragment of B at (k, column): two of mma's, one after the other along k.
template <bool ALONG_K>
__device__ __forceinline__ void read_b(unsigned (&to)[4], const T *b, int k, int column) {
  const int lane = threadIdx.x % 32;
  if (ALONG_K)
    ldmatrix(to, b + (column + lane % 8) * LD_K + k + lane / 8 * 8);
  else
    ldmatrix_transposed(to, b + (k + lane) * LD_N + column);
}

template <bool A_ALONG_K, bool B_ALONG_K>
__device__ __forceinline__ void multiply(const T *stage, float (&sums)[DOWN * ACROSS * 4]) {
  const int row = threadIdx.x / 32 * WARP_M;
#pragma unroll
  for (int k = 0; k < TILE_K; k += 32) {
    unsigned a[DOWN][2][4];
#pragma unroll
    for (int i = 0; i < DOWN; ++i) {
      read_a<A_ALONG_K>(a[i][0], stage, row + i * 16, k);
      read_a<A_ALONG_K>(a[i][1], stage, row + i * 16, k + 16);
    }
#pragma unroll
    for (int j = 0; j < ACROSS; ++j) {
      unsigned b[4];
      read_b<B_ALONG_K>(b, stage + OF_A, k, j * 8);
#pragma unroll
      for (int i = 0; i < DOWN; ++i) {
        mma(sums + (i * ACROSS + j) * 4, a[i][0], b);
        mma(sums + (i * ACROSS + j) * 4, a[i][1], b + 2);
      }
    }
  }
}

extern __shared__ int4 dynamic[];

template <bool A_ALONG_K, bool B_ALONG_K>
__device__ __forceinline__ void add_up(const Problem &p, const Part &part, const Tile &tile,
                                       float (&sums)[DOWN * ACROSS * 4]) {
  T *const shared = (T *)dynamic;
  const index_t first_a = tile.row * p.a.row_stride + part.begin * p.a.col_stride;
  const index_t first_b = tile.col * p.b.col_stride + part.begin * p.b.row_stride;
  Side<A_ALONG_K, TILE_M, LD_M> a(p.a.data + tile.batch * p.a.batch_stride + first_a,
                                  p.a.row_stride, p.a.col_stride, p.m - tile.row);
  Side<B_ALONG_K, TILE_N, LD_N> b(p.b.data + tile.batch * p.b.batch_stride + first_b,
                                  p.b.col_stride, p.b.row_stride, p.n - tile.col);
  const index_t depth = part.end - part.begin;
  const auto copy = [&](int stage, index_t left) { // one group for every stage, though it be empty
    if (left > 0) {
      a.copy(shared + stage * STAGE, left);
      b.copy(shared + stage * STAGE + OF_A, left);
    }
    cp_async_commit();
  };
#pragma unroll 1 // the code of a copy is long
  for (int stage = 0; stage < STAGES - 1; ++stage) copy(stage, depth - stage * TILE_K);

  int reading = 0, writing = STAGES - 1;
  for (index_t k = 0; k < depth; k += TILE_K) {
    cp_async_wait<STAGES - 2>();
    __syncthreads(); // this stage is there, and the one before has been read by all
    copy(writing, depth - k - (STAGES - 1) * TILE_K);
    multiply<A_ALONG_K, B_ALONG_K>(shared + reading * STAGE, sums);
    writing = reading;
    reading = reading + 1 == STAGES ? 0 : reading + 1;
  }
  cp_async_wait<0>();
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) skinny_mma(const Problem p) {
  const Part part = part_of_block(p, TILE_K);
  const Tile tile = tile_at(p, TILE_M, TILE_N, part.tile);
  float sums[DOWN * ACROSS * 4] = {};
  const bool a_along_k = p.a.col_stride == 1, b_along_k = p.b.row_stride == 1;
  if (a_along_k && b_along_k)
    add_up<true, true>(p, part, tile, sums);
  else if (a_along_k)
    add_up<true, false>(p, part, tile, sums);
  else if (b_along_k)
    add_up<false, true>(p, part, tile, sums);
  else
    add_up<false, false>(p, part, tile, sums);
  if (!add_parts(p, part, sums)) return;

  const int lane = threadIdx.x % 32;
  const index_t row = tile.row + threadIdx.x / 32 * WARP_M + lane / 4;
  const index_t col = tile.col + lane % 4 * 2;
  T *c = p.c.data + tile.batch * p.c.batch_stride;
#pragma unroll
  for (int e = 0; e < DOWN * ACROSS * 4; ++e) {
    const index_t r = row + e / 4 / ACROSS * 16 + e % 4 / 2 * 8,
                  s = col + e / 4 % ACROSS * 8 + e % 2;
    if (r < p.m && s < p.n) store_result(p, c + r * p.c.row_stride + s * p.c.col_stride, sums[e]);
  }
}
