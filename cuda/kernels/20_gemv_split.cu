// y = alpha * A x + beta * y with few long rows: a whole block for a part of a row, as many parts as fill the
// GPU. A warp a row would leave 16 rows to two SMs of 132.
//
// /// kernel
// entry = "gemv_split"
// op = "gemv"
// dtypes = ["float32", "float64", "float16", "bfloat16"]
// math = ["fp32", "fp64", "fp16", "bf16"]
// transposes = ["n"]
// launcher = "split_k"
// min_sm = 60
// teaches = "When rows are too few for all SMs, K is the direction that is left to share out."
//
// [[variant]]
// threads = [128, 1]
// tile = [1, 1, 1024]
// defines = { LOADS = 4, BLOCKS_PER_SM = 5 }
// ///
#include "split.cuh"
#include "warp_dot.cuh"

static_assert(TILE_M == 1, "a block has one row");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) gemv_split(const Problem p) {
  __shared__ Acc of_warp[THREADS / 32];
  const Part part = part_of_block(p, TILE_K);
  const T *a = p.a.data + part.tile * p.a.row_stride + part.begin;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  const index_t count = part.end - part.begin;
  const Acc of_lane = row_dot<THREADS>(p, a, p.b.data + part.begin, count, threadIdx.x);
  const Acc mine = lane_sum(of_lane);
  if (lane == 0) of_warp[warp] = mine;
  __syncthreads();

  Acc sums[1] = {0};
  if (threadIdx.x == 0)
#pragma unroll
    for (int w = 0; w < THREADS / 32; ++w) sums[0] += of_warp[w];
  if (add_parts<1, 1>(p, part, sums) && threadIdx.x == 0)
    store_result(p, p.c.data + part.tile * p.c.row_stride, sums[0]);
}
