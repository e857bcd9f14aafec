// Every thread computes TM x TN entries of C. The aim is more arithmetic for each read of shared memory: in 02
// every multiply-add wanted two entries; here TM + TN entries serve TM * TN of them. Registers are the means:
// they hold the sums and, in the outer-product order, what was read.
//
// Three orders of the inner loops add the same products to each sum in the same order. In the outer product a
// column of A and a row of B are read once and multiplied each by each. "dot" finishes one sum before it turns
// to the next, as the formula is written; but all three loops are unrolled, the compiler sees that it reads the
// same entries again and again, and makes the same program of it. "dot_literal" keeps it from that: two reads
// for every product, as in 02. On an H200 at 4096: 17.5, 17.4 and 5.2 TFLOP/s, and 6.3 for 02.
//
// /// kernel
// entry = "thread_tile"
// op = "gemm"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// launcher = "grid2d"
// min_sm = 50
// teaches = "Arithmetic per read: TM * TN / (TM + TN) multiply-adds, so a thread had better compute a tile."
//
// [[variant]]
// threads = [256, 1]
// tile = [64, 64, 16]
// defines = { THREAD_M = 4, THREAD_N = 4, ORDER = 0 }
//
// [[variant]]
// name = "dot"
// threads = [256, 1]
// tile = [64, 64, 16]
// defines = { THREAD_M = 4, THREAD_N = 4, ORDER = 1 }
//
// [[variant]]
// name = "dot_literal"
// threads = [256, 1]
// tile = [64, 64, 16]
// defines = { THREAD_M = 4, THREAD_N = 4, ORDER = 2 }
//
// [[variant]]
// name = "8x1"
// threads = [512, 1]
// tile = [64, 64, 16]
// defines = { THREAD_M = 8, THREAD_N = 1, ORDER = 0 }
// ///
#include "problem.cuh"

enum { OUTER, DOT, DOT_LITERAL }; // ORDER

// Copies ROWS x COLS entries of `source` from (row, col) on, zero outside rows x cols. Neighbouring threads
// take neighbours in memory, along a row or down a column as the matrix is stored.
template <int ROWS, int COLS, int LD>
__device__ void copy_tile(Acc (&to)[ROWS][LD], const T *source, const Operand &o, index_t row,
                          index_t col, index_t rows, index_t cols) {
  static_assert(ROWS * COLS % THREADS == 0, "every thread copies the same number of entries");
  const bool along_row = o.col_stride == 1;
#pragma unroll
  for (int e = 0; e < ROWS * COLS; e += THREADS) {
    const int at = e + threadIdx.x;
    const int i = along_row ? at / COLS : at % ROWS, j = along_row ? at % COLS : at / ROWS;
    const bool inside = row + i < rows && col + j < cols;
    to[i][j] = inside ? load(source + (row + i) * o.row_stride + (col + j) * o.col_stride) : Acc(0);
  }
}

// Adds the products of a thread's rows of A, from y on, and its columns of B, from x on.
template <int TM, int TN, int BM, int BK, int LD_A, int LD_B>
__device__ __forceinline__ void add_outer(Acc (&sums)[TM][TN], const Acc (&a)[BM][LD_A],
                                          const Acc (&b)[BK][LD_B], int y, int x) {
#pragma unroll
  for (int i = 0; i < BK; ++i) {
    Acc column[TM], row[TN];
#pragma unroll
    for (int r = 0; r < TM; ++r) column[r] = a[y + r][i];
#pragma unroll
    for (int s = 0; s < TN; ++s) row[s] = b[i][x + s];
#pragma unroll
    for (int r = 0; r < TM; ++r)
#pragma unroll
      for (int s = 0; s < TN; ++s) sums[r][s] += column[r] * row[s];
  }
}

// The same, sum by sum. `Entry` is const Acc, or const volatile Acc to have every read made that is written here.
template <class Entry, int TM, int TN, int BM, int BK, int LD_A, int LD_B>
__device__ __forceinline__ void add_dots(Acc (&sums)[TM][TN], Entry (&a)[BM][LD_A],
                                         Entry (&b)[BK][LD_B], int y, int x) {
#pragma unroll
  for (int r = 0; r < TM; ++r)
#pragma unroll
    for (int s = 0; s < TN; ++s)
#pragma unroll
      for (int i = 0; i < BK; ++i) sums[r][s] += a[y + r][i] * b[i][x + s];
}

template <int BM, int BN, int BK, int TM, int TN> __device__ void gemm(const Problem &p) {
  static_assert(BM % TM == 0 && BN % TN == 0 && BM / TM * (BN / TN) == THREADS,
                "a thread for every thread tile");
  // 16 bytes more than a row: rows stay aligned, and writing down a column meets eight times as many banks.
  constexpr int LD_A = BK + 16 / sizeof(Acc), LD_B = BN + 16 / sizeof(Acc);
  alignas(16) __shared__ Acc a_tile[BM][LD_A];
  alignas(16) __shared__ Acc b_tile[BK][LD_B];

  const Tile tile = tile_of_block(p, BM, BN);
  const T *a = p.a.data + tile.batch * p.a.batch_stride;
  const T *b = p.b.data + tile.batch * p.b.batch_stride;
  const int x = threadIdx.x % (BN / TN) * TN, y = threadIdx.x / (BN / TN) * TM;

  Acc sums[TM][TN] = {};
  for (index_t k = 0; k < p.k; k += BK) {
    copy_tile<BM, BK>(a_tile, a, p.a, tile.row, k, p.m, p.k);
    copy_tile<BK, BN>(b_tile, b, p.b, k, tile.col, p.k, p.n);
    __syncthreads(); // both tiles are complete
    if constexpr (ORDER == OUTER)
      add_outer(sums, a_tile, b_tile, y, x);
    else if constexpr (ORDER == DOT)
      add_dots<const Acc>(sums, a_tile, b_tile, y, x);
    else
      add_dots<const volatile Acc>(sums, a_tile, b_tile, y, x);
    __syncthreads(); // everyone has read them
  }

  T *c = p.c.data + tile.batch * p.c.batch_stride;
#pragma unroll
  for (int r = 0; r < TM; ++r)
#pragma unroll
    for (int s = 0; s < TN; ++s) {
      const index_t row = tile.row + y + r, col = tile.col + x + s;
      if (row < p.m && col < p.n)
        store_result(p, c + row * p.c.row_stride + col * p.c.col_stride, sums[r][s]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) thread_tile(const Problem p) {
  gemm<TILE_M, TILE_N, TILE_K, THREAD_M, THREAD_N>(p);
}
