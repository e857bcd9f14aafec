// mma.sync on float32 operands: rounded to tf32, which keeps 10 bits of the mantissa, multiplied and added in
// fp32.
//
// ldmatrix moves 16-byte rows and does not care what they hold, so it serves floats with K inner; it cannot
// transpose them. Where M or N is inner (B stored by rows, as a rule) a lane reads four neighbours at once and
// makes them columns of four different fragments: any order is right as long as the epilogue undoes it.
//
// /// kernel
// entry = "mma_sync_tf32"
// op = "gemm"
// dtypes = ["float32"]
// math = ["tf32"]
// launcher = "grid2d"
// min_sm = 80
// by_layout = true
// realigns = true
// teaches = "The same mainloop on 4-byte entries: rounding to tf32, and fragments in an order of one's own."
//
// [[variant]]
// threads = [256, 1]
// tile = [128, 256, 32]
// shared_bytes = 147456
// defines = { WARPS_M = 2, WARPS_N = 4, STAGES = 3, TILE_GROUP = 8 }
//
// [[variant]]
// name = "64x64"
// threads = [128, 1]
// tile = [64, 64, 32]
// shared_bytes = 65536
// defines = { WARPS_M = 2, WARPS_N = 2, STAGES = 4, TILE_GROUP = 8 }
// ///
#include "mma_gemm.cuh"
#include "realign.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) mma_sync_tf32(const Problem p) {
  extern __shared__ int4 stages[];
  mma_gemm(p, stages);
}
