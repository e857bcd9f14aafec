// y = alpha * A x + beta * y with A stored by columns, as 20_gemv_columns; the blocks that share K form a cluster
// and read each other's sums from shared memory.
//
// Blocks that meet in L2 write their sums, draw a ticket, and the last one reads them again. Small matrices show what
// that costs: at 1024 in float32, in the ladder's rounds on an H200, 20_gemv_columns takes 4.7 us, this rung 3.7, and
// cuBLAS 7.2. At 8192 it no longer matters: 4.02 TB/s, 0.99 of those by columns and 0.98 of cuBLAS.
//
// A cluster runs on neighbouring SMs at one time, so its blocks may wait for each other, and what one of them has in
// shared memory the others read at once. Each adds up its share of the entries of y.
//
// /// kernel
// entry = "gemv_cluster"
// op = "gemv"
// dtypes = ["float32", "float64", "float16", "bfloat16"]
// math = ["fp32", "fp64", "fp16", "bf16"]
// transposes = ["t"]
// launcher = "persistent"
// min_sm = 90
// teaches = "Between block and GPU there is the cluster: its blocks meet in shared memory, without L2 and tickets."
//
// [[variant]]
// threads = [256, 1]
// tile = [16, 1, 64]
// cluster = 8
// ctas_per_sm = 3
// defines = { LOADS = 4 }
// ///
#define COLUMNS_TILE                                                                               \
  (TILE_M * CLUSTER) // a block adds up TILE_M of the entries that its cluster works on
#include "columns.cuh"
#include "mbarrier.cuh"

// Where that block of the cluster has what this one has at `here`.
__device__ __forceinline__ const Acc *of_block(unsigned rank, const Acc *here) {
  const Acc *there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(here), "r"(rank));
  return there;
}

// The part of K of a block: whole multiples of TILE_K.
__device__ __forceinline__ Part part_of_rank(const Problem &p, unsigned rank) {
  const index_t steps = (p.k + TILE_K - 1) / TILE_K;
  const index_t begin = steps * rank / CLUSTER * TILE_K,
                end = steps * (rank + 1) / CLUSTER * TILE_K;
  return {0, rank, min(begin, p.k), min(end, p.k)};
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 3)
    gemv_cluster(const Problem p) {
  __shared__ Acc partial[THREADS * VECTOR];
  const unsigned rank = rank_in_cluster();
  const Part part = part_of_rank(p, rank);
  for (index_t tile = blockIdx.x / CLUSTER; tile * COLUMNS_TILE < p.m;
       tile += gridDim.x / CLUSTER) {
    Share share(p.m, tile * COLUMNS_TILE);
    const Sums sums = sums_of_part(p, part, share);
    add_groups(partial, share, sums);
    synchronize_cluster(); // the sums of all parts are there

    const int at = rank * TILE_M + threadIdx.x;
    if (threadIdx.x < TILE_M && at < share.width) {
      Acc total = 0;
#pragma unroll
      for (unsigned r = 0; r < CLUSTER; ++r) total += of_block(r, partial)[at];
      store_result(p, p.c.data + (share.first + at) * p.c.row_stride, total);
    }
    synchronize_cluster(); // nobody reads them any more
  }
}
