// A block copies square tiles of A and B into shared memory and multiplies them there: each entry is read
// from device memory once per tile instead of once per product, TILE times less often: 2 T^3 FLOP for 2 T^2
// entries are T / 4 FLOP per byte in float32, 8 for a tile of 32. That is still less than the 15 to 20 at which
// arithmetic, not memory, becomes the limit.
//
// Many printed versions keep the first line of 01, `if (row >= M || col >= N) return;`. Here it is wrong twice.
// A thread outside C still has entries of A and B to copy, which threads inside C multiply; and a barrier that
// not every thread of the block reaches is undefined: the block may hang, or go on with half a tile. The bound
// belongs where a thread touches memory: at each copy, which takes zero outside, and at the store.
//
// /// kernel
// entry = "shared_tile"
// op = "gemm"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// launcher = "grid2d"
// min_sm = 50
// teaches = "Reuse through shared memory, and what a barrier asks of every thread of the block."
//
// [[variant]]
// threads = [32, 32]
// tile = [32, 32, 32]
//
// [[variant]]
// name = "16"
// threads = [16, 16]
// tile = [16, 16, 16]
// ///
#include "problem.cuh"

constexpr int TILE = TILE_M;
static_assert(TILE_N == TILE && TILE_K == TILE && THREADS_X == TILE && THREADS_Y == TILE,
              "one thread copies one entry of each square tile and computes one entry of C");

// Entries of `source` from (row, col) on, zero outside rows x cols. threadIdx.x runs along whichever
// direction is contiguous in memory, so the reads are coalesced for a transposed matrix too.
__device__ void copy_tile(Acc (&to)[TILE][TILE + 1], const T *source, const Operand &o, index_t row,
                          index_t col, index_t rows, index_t cols) {
  const bool along_row = o.col_stride == 1;
  const int i = along_row ? threadIdx.y : threadIdx.x;
  const int j = along_row ? threadIdx.x : threadIdx.y;
  const bool inside = row + i < rows && col + j < cols;
  to[i][j] = inside ? load(source + (row + i) * o.row_stride + (col + j) * o.col_stride) : Acc(0);
}

extern "C" __global__ void __launch_bounds__(THREADS) shared_tile(const Problem p) {
  // The extra column puts the entries of a column in different banks: a transposed copy writes columns.
  __shared__ Acc a_tile[TILE][TILE + 1];
  __shared__ Acc b_tile[TILE][TILE + 1];

  const Tile tile = tile_of_block(p, TILE, TILE);
  const T *a = p.a.data + tile.batch * p.a.batch_stride;
  const T *b = p.b.data + tile.batch * p.b.batch_stride;
  const int x = threadIdx.x, y = threadIdx.y;

  // A thread whose entry of C lies outside the matrix must not return here: it still copies entries that
  // its neighbours multiply, and __syncthreads() is defined only when every thread of the block reaches it.
  Acc sum = 0;
  for (index_t k = 0; k < p.k; k += TILE) {
    copy_tile(a_tile, a, p.a, tile.row, k, p.m, p.k);
    copy_tile(b_tile, b, p.b, k, tile.col, p.k, p.n);
    __syncthreads(); // both tiles are complete before anyone reads them
#pragma unroll
    for (int i = 0; i < TILE; ++i) sum += a_tile[y][i] * b_tile[i][x];
    __syncthreads(); // everyone has read them before the next ones arrive
  }

  const index_t row = tile.row + y, col = tile.col + x;
  if (row >= p.m || col >= p.n) return; // the last barrier is behind us
  T *c = p.c.data + tile.batch * p.c.batch_stride + row * p.c.row_stride + col * p.c.col_stride;
  store_result(p, c, sum);
}
