// A small C with a long K: several blocks share a tile of C, each adds up its own part of K.
//
// A 64 x 64 product with K = 100 000 has one tile of work for 132 SMs, and 51 MB to read. Cut along K there are
// as many blocks as the GPU has room for, each with a stretch of A and B to itself. The price is a partial
// tile that each block writes and another one reads, in L2: 16 KB beside the 2 * 64 * 4 bytes read per k.
//
// /// kernel
// entry = "split_k"
// op = "gemm"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// launcher = "split_k"
// min_sm = 80
// teaches = "K is a direction of parallelism too; tickets say who is last, a fixed order keeps the bits the same."
//
// [[variant]]
// threads = [128, 1]
// tile = [64, 64, 16]
// shared_bytes = 67584
// defines = { ROWS = 8, COLUMNS = 4, STAGES = 4, BLOCKS_PER_SM = 3 }
//
// [[variant]]
// name = "32"
// threads = [64, 1]
// tile = [32, 32, 32]
// shared_bytes = 52224
// defines = { ROWS = 4, COLUMNS = 4, STAGES = 3, BLOCKS_PER_SM = 4 }
//
// [[variant]]
// name = "128"
// threads = [256, 1]
// tile = [128, 128, 8]
// shared_bytes = 66560
// defines = { ROWS = 8, COLUMNS = 8, STAGES = 4, BLOCKS_PER_SM = 1 }
// ///
#include "pipeline.cuh"
#include "split.cuh"

constexpr int DOWN = TILE_M / ROWS, ACROSS = TILE_N / COLUMNS; // threads down and across the tile
static_assert(DOWN * ACROSS == THREADS, "a thread for every ROWS x COLUMNS sums");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM * 4 / sizeof(Acc))
    split_k(const Problem p) {
  extern __shared__ int4 dynamic[];

  const Part part = part_of_block(p, TILE_K);
  const Tile tile = tile_at(p, TILE_M, TILE_N, part.tile);
  const int row = threadIdx.x / ACROSS * VECTOR, col = threadIdx.x % ACROSS * VECTOR;
  const T *a = p.a.data + tile.batch * p.a.batch_stride + part.begin * p.a.col_stride;
  const T *b = p.b.data + tile.batch * p.b.batch_stride + part.begin * p.b.row_stride;
  using ATile = AsyncTile<TILE_M, TILE_K, TILE_M + VECTOR>;
  using BTile = AsyncTile<TILE_N, TILE_K, TILE_N + VECTOR>;
  Pipeline<STAGES, ATile, BTile> pipeline{
      (T *)dynamic,
      {a, p.a.row_stride, p.a.col_stride, tile.row, p.m},
      {b, p.b.col_stride, p.b.row_stride, tile.col, p.n},
  };
  pipeline.start(part.end - part.begin);
  RegisterTile<ROWS, COLUMNS, DOWN * VECTOR, ACROSS * VECTOR> mine;
  pipeline.multiply(mine, row, col);

  // The partial sums of entries outside C travel too: they are whatever lay beyond the edge, and end nowhere.
  auto &sums = reinterpret_cast<Acc(&)[ROWS * COLUMNS]>(mine.sums);
  if (add_parts(p, part, sums))
    mine.store(p, p.c.data + tile.batch * p.c.batch_stride, tile.row + row, tile.col + col);
}
