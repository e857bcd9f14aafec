// One thread computes one entry of C, reading a row of A and a column of B straight from device memory.
//
// Each multiply-add, 2 FLOP, asks for two entries: 2 / 8 = 0.25 FLOP per byte in float32, where the arithmetic
// units want 15 to 20. The caches return some of what neighbouring threads ask for again, and how much depends
// on the order in which a warp's threads are laid over C.
//
// /// kernel
// entry = "naive"
// op = "gemm"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// launcher = "grid2d"
// min_sm = 50
// teaches = "Coalescing: the same arithmetic, read in another order, is many times slower."
//
// [[variant]]
// threads = [32, 8]
// tile = [8, 32, 1]
// defines = { COALESCED = 1 }
//
// [[variant]]
// name = "uncoalesced"
// threads = [32, 8]
// tile = [32, 8, 1]
// defines = { COALESCED = 0 }
// ///
#include "problem.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) naive(const Problem p) {
  const Tile tile = tile_of_block(p, TILE_M, TILE_N);
  // A warp is 32 threads with consecutive threadIdx.x. Along a row of C they read 32 neighbours in a row
  // of B: one 128-byte transaction. Along a column they read 32 rows of A: 32 transactions.
  const index_t row = tile.row + (COALESCED ? threadIdx.y : threadIdx.x);
  const index_t col = tile.col + (COALESCED ? threadIdx.x : threadIdx.y);
  if (row >= p.m || col >= p.n) return; // nothing below waits for this thread

  const T *a = p.a.data + tile.batch * p.a.batch_stride + row * p.a.row_stride;
  const T *b = p.b.data + tile.batch * p.b.batch_stride + col * p.b.col_stride;
  Acc sum = 0;
  for (index_t k = 0; k < p.k; ++k)
    sum += load(a + k * p.a.col_stride) * load(b + k * p.b.row_stride);

  T *c = p.c.data + tile.batch * p.c.batch_stride + row * p.c.row_stride + col * p.c.col_stride;
  store_result(p, c, sum);
}
