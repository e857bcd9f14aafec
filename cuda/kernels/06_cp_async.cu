// The next tiles are on their way while these are multiplied: double buffering, a pipeline in software.
//
// In 05 a block waited for memory, computed, waited again. Here shared memory has room for STAGES pairs of
// tiles, and cp.async fills it without passing through registers: copies of one stage start before the
// multiplications of another, and are waited for after them. A third and fourth stage cover a latency that is
// longer than one stage takes to compute. The loop is in pipeline.cuh; 13 uses it, too.
//
// /// kernel
// entry = "cp_async_gemm"
// op = "gemm"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// launcher = "grid2d"
// min_sm = 80
// teaches = "Copies that overlap with arithmetic, and a barrier less: wait, barrier, copy on, multiply."
//
// [[variant]]
// threads = [256, 1]
// tile = [128, 128, 8]
// shared_bytes = 33280
// defines = { STAGES = 2 }
//
// [[variant]]
// name = "multistage"
// threads = [256, 1]
// tile = [128, 128, 8]
// shared_bytes = 66560
// defines = { STAGES = 4 }
// ///
#include "pipeline.cuh"

constexpr int ACROSS = 16; // threads along a row of the tile, and down a column
constexpr int STEP = ACROSS * VECTOR, LD = TILE_M + VECTOR;
static_assert(TILE_M == TILE_N && TILE_M == 8 * ACROSS && THREADS == ACROSS * ACROSS,
              "8 x 8 sums a thread");

extern "C" __global__ void __launch_bounds__(THREADS) cp_async_gemm(const Problem p) {
  extern __shared__ int4 dynamic[];

  const Tile tile = tile_of_block(p, TILE_M, TILE_N);
  const int row = threadIdx.x / ACROSS * VECTOR, col = threadIdx.x % ACROSS * VECTOR;
  const T *a = p.a.data + tile.batch * p.a.batch_stride;
  const T *b = p.b.data + tile.batch * p.b.batch_stride;
  using ATile = AsyncTile<TILE_M, TILE_K, LD>;
  using BTile = AsyncTile<TILE_N, TILE_K, LD>;
  Pipeline<STAGES, ATile, BTile> pipeline{
      (T *)dynamic,
      {a, p.a.row_stride, p.a.col_stride, tile.row, p.m},
      {b, p.b.col_stride, p.b.row_stride, tile.col, p.n},
  };
  pipeline.start(p.k);
  RegisterTile<8, 8, STEP, STEP> mine;
  pipeline.multiply(mine, row, col);
  mine.store(p, p.c.data + tile.batch * p.c.batch_stride, tile.row + row, tile.col + col);
}
