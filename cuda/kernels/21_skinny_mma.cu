// Tall A times a skinny B in 16 bits, on tensor cores: with N columns each byte of A takes part in N operations
// (N / 2 in float32), and the ridge moves from 31 columns to some 200.
//
// A batch of one is decoded as slowly as a batch of 64: the time is that of reading the weights A. The mainloop is
// that of 10_mma_sync, with tiles as wide as B, so that A is read once, and K cut among as many blocks as the GPU has
// room for. Columns that B does not have are zeros, which costs nothing where memory is the limit. A narrow B whose
// rows are no whole 16 bytes is copied in smaller pieces, A not.
//
// Measured on an H200 at 8192 x 8192 in float16: N = 16 takes 44 us, 32 takes 42, 64 takes 43, 128 takes 56.
// cuBLAS, by wgmma: 39, 39, 36, 37.
//
// /// kernel
// entry = "skinny_mma"
// op = "gemm"
// dtypes = ["float16", "bfloat16"]
// math = ["fp16", "bf16"]
// launcher = "split_k"
// min_sm = 80
// by_layout = true
// teaches = "Half the bytes and the tensor cores' rate: batches stay free up to another ridge."
//
// [[variant]]
// threads = [128, 1]
// tile = [128, 32, 64]
// shared_bytes = 102400
// defines = { WARPS_M = 4, WARPS_N = 1, STAGES = 5, TILE_GROUP = 1, BLOCKS_PER_SM = 2 }
//
// [[variant]]
// name = "64"
// threads = [128, 1]
// tile = [64, 64, 64]
// shared_bytes = 65536
// defines = { WARPS_M = 2, WARPS_N = 2, STAGES = 4, TILE_GROUP = 1, BLOCKS_PER_SM = 3 }
//
// [[variant]]
// name = "128"
// threads = [256, 1]
// tile = [128, 128, 64]
// shared_bytes = 196608
// defines = { WARPS_M = 4, WARPS_N = 2, STAGES = 6, TILE_GROUP = 1, BLOCKS_PER_SM = 1 }
// ///
#include "mma_gemm.cuh"
#include "split.cuh"

// The block's part of K, and what the parts of its tile add up to.
template <bool WIDE_A, bool WIDE_B>
__device__ __forceinline__ void multiply_part(const Problem &p, const Part &part, const Tile &tile,
                                              const Source &a, const Source &b) {
  extern __shared__ int4 stages[];
  Mainloop<WIDE_A, WIDE_B> mainloop((unsigned char *)stages, a, b, part.end - part.begin);
  mainloop.run();
  auto &sums = reinterpret_cast<Acc(&)[ROWS * COLS * 4]>(mainloop.sums);
  if (add_parts(p, part, sums)) mainloop.store(p, tile);
}

// `o` from `begin` on along K, whose stride is `k_stride`.
__device__ __forceinline__ Operand from_k(Operand o, index_t k_stride, index_t begin) {
  o.data += begin * k_stride;
  return o;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) skinny_mma(const Problem p) {
  const Part part = part_of_block(p, TILE_K);
  const Tile tile = tile_at(p, TILE_M, TILE_N, part.tile);
  const index_t depth = part.end - part.begin;
  const Source a =
      operand_source<A_K_INNER>(from_k(p.a, p.a.col_stride, part.begin), p.a.row_stride,
                                p.a.col_stride, tile.row, p.m, depth, tile.batch);
  const Source b =
      operand_source<B_K_INNER>(from_k(p.b, p.b.row_stride, part.begin), p.b.col_stride,
                                p.b.row_stride, tile.col, p.n, depth, tile.batch);
  if (is_aligned(a, 16) && is_aligned(b, 16))
    multiply_part<true, true>(p, part, tile, a, b);
  else if (is_aligned(a, 16))
    multiply_part<true, false>(p, part, tile, a, b);
  else
    multiply_part<false, false>(p, part, tile, a, b);
}
