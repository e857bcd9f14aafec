// mma.sync in fp64, rounded as FMA rounds: the tensor cores of data centre GPUs do twice what their FP64 units do.
//
// ldmatrix has no use for doubles. A lane reads its entries one by one: 16 lanes of four rows and four columns
// make one pass over the banks, and the swizzle sees to it that they do not meet. An mma takes 32 cycles, so
// there is time for that: 0.94 of cuBLAS at 4096 on an H200 (56.3 and 59.7 TFLOP/s in the ladder's rounds). At 1024,
// where this tile has too few blocks, it is 0.50.
//
// /// kernel
// entry = "mma_sync_fp64"
// op = "gemm"
// dtypes = ["float64"]
// math = ["fp64"]
// launcher = "grid2d"
// min_sm = 80
// by_layout = true
// teaches = "Tensor cores without loss of precision: m16n8k8 on sm_90, four m8n8k4 on sm_80."
//
// [[variant]]
// threads = [256, 1]
// tile = [128, 128, 16]
// shared_bytes = 131072
// defines = { WARPS_M = 2, WARPS_N = 4, STAGES = 4, TILE_GROUP = 8 }
//
// [[variant]]
// name = "64x64"
// threads = [128, 1]
// tile = [64, 64, 16]
// shared_bytes = 65536
// defines = { WARPS_M = 2, WARPS_N = 2, STAGES = 4, TILE_GROUP = 8 }
// ///
#include "mma_gemm.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) mma_sync_fp64(const Problem p) {
  extern __shared__ int4 stages[];
  mma_gemm(p, stages);
}
