// The tiles of 02, with that of B turned: both factors of a product now lie along rows, as one might like them.
// But then a warp, whose 32 threads have 32 columns of C, reads a column of the tile.
//
// Shared memory is 32 banks of 4 bytes. Rows of 32 floats put a whole column in one bank, and a bank serves one
// of its words at a time: 32 turns for one read. An unused column at the end of each row moves every row on by
// one bank. Or, without that memory, entry k of row i is kept at k XOR i, which costs an operation a read. On an
// H200 at 4096 that was 0.5 TFLOP/s in a single bank, 5.9 with the unused column and 4.4 with XOR.
//
// /// kernel
// entry = "bank_conflict"
// op = "gemm"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// launcher = "grid2d"
// min_sm = 50
// teaches = "Banks of shared memory: one unused column, and a column is read as fast as a row."
//
// [[variant]]
// threads = [32, 32]
// tile = [32, 32, 32]
// defines = { PADDING = 1, SWIZZLE = 0 }
//
// [[variant]]
// name = "unpadded"
// threads = [32, 32]
// tile = [32, 32, 32]
// defines = { PADDING = 0, SWIZZLE = 0 }
//
// [[variant]]
// name = "swizzled"
// threads = [32, 32]
// tile = [32, 32, 32]
// defines = { PADDING = 0, SWIZZLE = 1 }
// ///
#include "problem.cuh"

constexpr int TILE = TILE_M;
static_assert(TILE_N == TILE && TILE_K == TILE && THREADS_X == TILE && THREADS_Y == TILE,
              "one thread copies one entry of each square tile and computes one entry of C");
static_assert((TILE & (TILE - 1)) == 0, "k XOR i stays inside a row");

// Where a tile holds entry k of row i of A, or of column i of B.
__device__ __forceinline__ int place(int i, int k) {
  return i * (TILE + PADDING) + (SWIZZLE ? k ^ i : k);
}

// Entry (i, k) is source[i * stride_i + k * stride_k]; those outside the matrix are zero.
__device__ void copy_tile(Acc *to, const T *source, index_t stride_i, index_t stride_k,
                          index_t first_i, index_t first_k, index_t extent_i, index_t extent_k) {
  const bool along_k = stride_k == 1;
  const int i = along_k ? threadIdx.y : threadIdx.x;
  const int k = along_k ? threadIdx.x : threadIdx.y;
  const bool inside = first_i + i < extent_i && first_k + k < extent_k;
  const index_t at = (first_i + i) * stride_i + (first_k + k) * stride_k;
  to[place(i, k)] = inside ? load(source + at) : Acc(0);
}

extern "C" __global__ void __launch_bounds__(THREADS) bank_conflict(const Problem p) {
  __shared__ Acc a_tile[TILE * (TILE + PADDING)];
  __shared__ Acc b_tile[TILE * (TILE + PADDING)];

  const Tile tile = tile_of_block(p, TILE, TILE);
  const T *a = p.a.data + tile.batch * p.a.batch_stride;
  const T *b = p.b.data + tile.batch * p.b.batch_stride;
  const int x = threadIdx.x, y = threadIdx.y;

  Acc sum = 0;
  for (index_t k = 0; k < p.k; k += TILE) {
    copy_tile(a_tile, a, p.a.row_stride, p.a.col_stride, tile.row, k, p.m, p.k);
    copy_tile(b_tile, b, p.b.col_stride, p.b.row_stride, tile.col, k, p.n, p.k);
    __syncthreads(); // both tiles are complete
    // The whole warp has the same y and reads one entry of A; each thread has its own x. Volatile, since the
    // compiler would else take four k in one read where rows are not padded, and hide three conflicts of four.
    const volatile Acc *column = b_tile;
#pragma unroll 8
    for (int i = 0; i < TILE; ++i) sum += a_tile[place(y, i)] * column[place(x, i)];
    __syncthreads(); // everyone has read them
  }

  const index_t row = tile.row + y, col = tile.col + x;
  if (row >= p.m || col >= p.n) return; // the last barrier is behind us
  T *c = p.c.data + tile.batch * p.c.batch_stride + row * p.c.row_stride + col * p.c.col_stride;
  store_result(p, c, sum);
}
