// y = alpha * A x + beta * y with A stored by columns (the transposed product): neighbouring threads take
// neighbouring entries of y, 16 bytes each, and K is shared out among groups of threads and among blocks.
//
// Entry (row, k) of A lies at k * ld + row, so a group of threads that takes every so many-th k, a multiple of
// VECTOR, meets the same misalignment each time (VECTOR entries times any ld are whole 16-byte pieces): what lies
// before the first boundary and behind the last one is the same few rows all along, and costs a narrow load per k.
// It is asked for together with the pieces: behind them, each batch waited twice (0.83 of cuBLAS at 4097; 1.00 so).
//
// The tile decides between two costs. With a wide one there are few tiles, so K is cut among blocks, which then have
// to meet in L2. A narrow one (64) leaves enough tiles for every SM from 8192 rows on, and no block meets another.
// In float32 on an H200, in the ladder's rounds, it has 4250 GB/s at 8192 and the wide one 4074; 3892 and 3451 at 4097;
// as much as that at 4096; but 640 and 894 at 1024.
//
// /// kernel
// entry = "gemv_columns"
// op = "gemv"
// dtypes = ["float32", "float64", "float16", "bfloat16"]
// math = ["fp32", "fp64", "fp16", "bf16"]
// transposes = ["t"]
// launcher = "split_k"
// min_sm = 50
// teaches = "The layout chooses the parallel direction; who shares a result meets in shared memory, then in L2."
//
// [[variant]]
// threads = [256, 1]
// tile = [128, 1, 32]
// defines = { LOADS = 4, BLOCKS_PER_SM = 4 }
//
// [[variant]]
// name = "64"
// threads = [512, 1]
// tile = [64, 1, 128]
// defines = { LOADS = 8, BLOCKS_PER_SM = 1 }
// ///
#include "columns.cuh"

// 16-bit entries have twice as many sums a thread, and doubles twice as large ones.
constexpr int BLOCKS = sizeof(T) == 4 ? BLOCKS_PER_SM : (BLOCKS_PER_SM + 1) / 2;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) gemv_columns(const Problem p) {
  __shared__ Acc partial[THREADS * VECTOR];
  const Part part = part_of_block(p, TILE_K);
  Share share(p.m, index_t(part.tile) * TILE_M);
  const Sums sums = sums_of_part(p, part, share);
  add_groups(partial, share, sums);
  __syncthreads();

  Acc total[EACH];
  take(partial, share, total);
  if (add_parts<EACH, HOLDERS>(p, part, total)) store(p, share, total);
}
