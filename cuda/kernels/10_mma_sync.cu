// Tensor cores by their own instructions: ldmatrix reads fragments, mma.sync multiplies them.
//
// wmma hides which lane holds what, so its fragments can only be loaded and stored whole, from padded rows. Here
// the layout is known: shared memory is swizzled instead of padded, fragments are read one step ahead, and sums go
// from registers to C in 16-byte pieces. The mainloop is in mma_gemm.cuh, the layout in fragment.cuh.
//
// A CTA tile of 128 x 256 does 85 FLOP for each entry it reads: 43 FLOP a byte.
//
// /// kernel
// entry = "mma_sync"
// op = "gemm"
// dtypes = ["float16", "bfloat16"]
// math = ["fp16", "bf16"]
// launcher = "grid2d"
// min_sm = 80
// by_layout = true
// teaches = "ldmatrix and mma.sync: fragments in known registers, swizzled stages, nothing waits for memory."
//
// [[variant]]
// threads = [256, 1]
// tile = [128, 256, 64]
// shared_bytes = 147456
// defines = { WARPS_M = 2, WARPS_N = 4, STAGES = 3, TILE_GROUP = 8 }
//
// [[variant]]
// name = "4stages"
// threads = [256, 1]
// tile = [128, 256, 64]
// shared_bytes = 196608
// defines = { WARPS_M = 2, WARPS_N = 4, STAGES = 4, TILE_GROUP = 8 }
//
// [[variant]]
// name = "32deep"
// threads = [256, 1]
// tile = [128, 256, 32]
// shared_bytes = 122880
// defines = { WARPS_M = 2, WARPS_N = 4, STAGES = 5, TILE_GROUP = 8 }
//
// [[variant]]
// name = "256x128"
// threads = [256, 1]
// tile = [256, 128, 64]
// shared_bytes = 147456
// defines = { WARPS_M = 4, WARPS_N = 2, STAGES = 3, TILE_GROUP = 8 }
//
// [[variant]]
// name = "64x64"
// threads = [128, 1]
// tile = [64, 64, 64]
// shared_bytes = 65536
// defines = { WARPS_M = 2, WARPS_N = 2, STAGES = 4, TILE_GROUP = 8 }
//
// [[variant]]
// name = "128x128"
// threads = [128, 1]
// tile = [128, 128, 64]
// shared_bytes = 98304
// defines = { WARPS_M = 2, WARPS_N = 2, STAGES = 3, TILE_GROUP = 8 }
// ///
#include "mma_gemm.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) mma_sync(const Problem p) {
  extern __shared__ int4 stages[];
  mma_gemm(p, stages);
}
