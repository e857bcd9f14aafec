// 8 x 8 sums a thread on a CTA tile of 128 x 128, and every access, from device memory to shared memory to
// registers and back, takes 16 bytes.
//
// From a tile of T x T the block does T / 4 FLOP per byte it reads: 8 in 02, 32 here, which is more than the
// ratio of arithmetic to memory bandwidth. Each thread reads 16 floats of shared memory for 64 multiply-adds,
// and as vectors those are 4 instructions. For that both tiles lie as [k][i], A turned while it is copied.
//
// /// kernel
// entry = "register_tile"
// op = "gemm"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// launcher = "grid2d"
// min_sm = 50
// teaches = "64 multiply-adds for 4 reads, and 32 FLOP per byte from the 128 x 128 tile of the block."
//
// [[variant]]
// threads = [256, 1]
// tile = [128, 128, 8]
// ///
#include "register_tile.cuh"

constexpr int ACROSS = 16; // threads along a row of the tile, and down a column
constexpr int STEP = ACROSS * VECTOR, LD = TILE_M + VECTOR;
constexpr int BLOCKS = sizeof(T) == 4 ? 2 : 1; // on an SM, so that one computes while another waits
static_assert(TILE_M == TILE_N && TILE_M == 8 * ACROSS && THREADS == ACROSS * ACROSS,
              "8 x 8 sums a thread");

// A block copies the entries (i, k) = from[i * stride_i + k * stride_k], i < TILE_M and k < TILE_K, of one step
// to to[k * LD + i]. This is the way for whole vectors, contiguous along k: they are turned.
__device__ __forceinline__ void copy_turned(T *to, const T *from, index_t stride_i) {
  constexpr int ACROSS_K = TILE_K / VECTOR, STEP_I = THREADS / ACROSS_K;
  const int k = threadIdx.x % ACROSS_K * VECTOR, i = threadIdx.x / ACROSS_K;
#pragma unroll
  for (int e = 0; e < TILE_M; e += STEP_I) {
    const Vector read = *(const Vector *)(from + (i + e) * stride_i + k);
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) to[(k + v) * LD + i + e] = read.at[v];
  }
}

// Whole vectors, contiguous along i.
__device__ __forceinline__ void copy_straight(T *to, const T *from, index_t stride_k) {
  constexpr int ACROSS_I = TILE_M / VECTOR, STEP_K = THREADS / ACROSS_I;
  const int k = threadIdx.x / ACROSS_I, i = threadIdx.x % ACROSS_I * VECTOR;
#pragma unroll
  for (int e = 0; e < TILE_K; e += STEP_K)
    *(Vector *)(to + (k + e) * LD + i) = *(const Vector *)(from + (k + e) * stride_k + i);
}

// Any entries. `rows` and `depth` of them are inside the matrix; the others become zero.
__device__ __forceinline__ void copy_entries(T *to, const T *from, index_t stride_i,
                                             index_t stride_k, index_t rows, index_t depth) {
  constexpr int STEP_I = THREADS / TILE_K;
  const bool along_k = stride_k == 1;
  const int k = along_k ? threadIdx.x % TILE_K : threadIdx.x / STEP_I;
  const int i = along_k ? threadIdx.x / TILE_K : threadIdx.x % STEP_I;
#pragma unroll
  for (int e = 0; e < TILE_M; e += STEP_I) {
    const bool inside = i + e < rows && k < depth;
    to[k * LD + i + e] = inside ? load(from + (i + e) * stride_i + k * stride_k) : T(0);
  }
}

__device__ __forceinline__ void copy_tile(T *to, const T *from, index_t stride_i, index_t stride_k,
                                          index_t rows, index_t depth) {
  const bool whole = rows >= TILE_M && depth >= TILE_K;
  if (whole && stride_k == 1 && aligned16(from, stride_i))
    copy_turned(to, from, stride_i);
  else if (whole && stride_i == 1 && aligned16(from, stride_k))
    copy_straight(to, from, stride_k);
  else
    copy_entries(to, from, stride_i, stride_k, rows, depth);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) register_tile(const Problem p) {
  alignas(16) __shared__ T a_tile[TILE_K * LD];
  alignas(16) __shared__ T b_tile[TILE_K * LD];

  const Tile tile = tile_of_block(p, TILE_M, TILE_N);
  const T *a = p.a.data + tile.batch * p.a.batch_stride + tile.row * p.a.row_stride;
  const T *b = p.b.data + tile.batch * p.b.batch_stride + tile.col * p.b.col_stride;
  const int row = threadIdx.x / ACROSS * VECTOR, col = threadIdx.x % ACROSS * VECTOR;

  using Mine = RegisterTile<8, 8, STEP, STEP>;
  Mine mine;
  for (index_t k = 0; k < p.k; k += TILE_K) {
    copy_tile(a_tile, a + k * p.a.col_stride, p.a.row_stride, p.a.col_stride, p.m - tile.row,
              p.k - k);
    copy_tile(b_tile, b + k * p.b.row_stride, p.b.col_stride, p.b.row_stride, p.n - tile.col,
              p.k - k);
    __syncthreads(); // both tiles are complete
#pragma unroll
    for (int i = 0; i < TILE_K; ++i) {
      Mine::Fragments fragments;
      fragments.read(a_tile + i * LD + row, b_tile + i * LD + col);
      mine.multiply(fragments);
    }
    __syncthreads(); // everyone has read them
  }
  mine.store(p, p.c.data + tile.batch * p.c.batch_stride, tile.row + row, tile.col + col);
}
