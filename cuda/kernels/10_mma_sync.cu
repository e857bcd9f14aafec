// Tensor cores by their own instructions: ldmatrix reads fragments, mma.sync multiplies them.
//
// wmma hides which lane holds what, so its fragments can only be loaded and stored whole, from padded rows.
// Here the layout is known: shared memory is swizzled instead of padded, fragments are read a step ahead, and
// nothing but products stands between two barriers for long: 2.6 instructions for each of them. In fp16 on an H200
// that is 61 % of cuBLAS at 2048 and 54 % at 4096 (in the ladder's rounds, under the card's power cap), where the
// staged wmma reaches 45 and 40 %. The rest needs wgmma: mma.sync itself ends at about 630 of the 990 TFLOP/s. The
// mainloop is in mma_gemm.cuh, the layout in mma_fragments.cuh.
//
// A CTA tile of 128 x 256 does 2 * 128 * 256 / (128 + 256) = 171 FLOP for each entry it reads, 85 a byte.
// Where rows do not begin at multiples of 16 bytes, A and B are moved first to where they do (realign.cuh): at 4097
// in fp16 that is 2.3 times cuBLAS in the ladder's rounds; chunks shifted on their way to shared memory
// (tile_copy.cuh) were 0.75 times.
//
// Small matrices have too few such tiles for all multiprocessors: at 1024 the tile of 64 x 64 is 2.1 times as
// fast.
//
// /// kernel
// entry = "mma_sync"
// op = "gemm"
// dtypes = ["float16", "bfloat16"]
// math = ["fp16", "bf16"]
// launcher = "grid2d"
// min_sm = 80
// by_layout = true
// realigns = true
// teaches = "ldmatrix and mma.sync: fragments in known registers, swizzled stages, nothing waits for memory."
//
// [[variant]]
// threads = [256, 1]
// tile = [128, 256, 64]
// shared_bytes = 147456
// defines = { WARPS_M = 2, WARPS_N = 4, STAGES = 3, TILE_GROUP = 8 }
//
// [[variant]]
// name = "64x64"
// threads = [128, 1]
// tile = [64, 64, 64]
// shared_bytes = 65536
// defines = { WARPS_M = 2, WARPS_N = 2, STAGES = 4, TILE_GROUP = 8 }
// ///
#include "mma_gemm.cuh"
#include "realign.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) mma_sync(const Problem p) {
  extern __shared__ int4 stages[];
  mma_gemm(p, stages);
}
