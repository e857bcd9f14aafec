// fp32 accuracy from tensor cores that multiply in tf32: with x = big + small, each rounded to tf32,
//   a * b = a_big * b_big + a_big * b_small + a_small * b_big     (a_small * b_small is below fp32's last bit).
// tf32 runs at 7.5 times the rate of fp32 FMA, so three products still leave a factor of 2.5.
//
// Splitting costs operations and room, so each operand is split once: the right factor in shared memory, by warps
// that would otherwise only wait for copies, and the left one in registers, by those that multiply it.
//
// A tensor core cuts off what its accumulator cannot hold, always towards zero, where FMA rounds: in long sums of
// one sign that adds up. So the sums of PROMOTE stages are added to others outside the tensor cores; and the small
// products have sums of their own, where a cut is 2^-11 of one beside the big ones.
//
// On an H200 at 4096: 2.5 times the rate of cuBLAS in fp32 (in the ladder's rounds, under the card's power cap), and
// at most 2.6 times its largest error (K from 64 to 16384, centred and positive data). What positive data lack
// on average, 2.6e-7, halves with every stage's sums on their own ("often"), for 3 to 5 % of the rate. Infinite
// operands, and those that tf32 rounds to infinity (from 2^128 - 2^116 on), give NaN.
//
// /// kernel
// entry = "tf32x3_gemm"
// op = "gemm"
// dtypes = ["float32"]
// math = ["3xtf32"]
// launcher = "tma"
// min_sm = 90
// only_sm = 90
// teaches = "Three tensor-core products make one of fp32, if sums leave the accumulators in time."
//
// [[variant]]
// threads = [384, 1]
// tile = [128, 128, 32]
// shared_bytes = 197888
// defines = { STAGES = 4, GROUP = 12, PROMOTE = 2 }
//
// [[variant]]
// name = "often"
// threads = [384, 1]
// tile = [128, 128, 32]
// shared_bytes = 197888
// defines = { STAGES = 4, GROUP = 12, PROMOTE = 1 }
// ///
#include "realign.cuh"
#include "tf32x3.cuh"
#include "wgmma_epilogue.cuh"
#include "wgmma_layout.cuh"
#include "wgmma_mainloop.cuh"

constexpr int TILE = 128, TILE_BYTES = TILE * 128, SPLITTERS = 3; // warps
static_assert(TILE_M == TILE && TILE_N == TILE && TILE_K == LINE && THREADS == 384 && CLUSTER == 1,
              "two consumers hold 64 x 128 sums each, three times");

struct Shared {
  char left[STAGES][TILE_BYTES], big[STAGES][TILE_BYTES], small[STAGES][TILE_BYTES];
  Barrier full[STAGES], split[STAGES], empty[STAGES];
};
static_assert(sizeof(Shared) + 1024 <= SHARED_BYTES, "1024 are for its alignment");

using Plan = TilePlan<TILE, TILE, 1, GROUP, 1>;

// In boxes of `box` rows.
template <bool mn_major, int box>
__device__ __forceinline__ void copy_tile(char *to, const TensorMap &map, Barrier &full, int first,
                                          int k, int batch) {
#pragma unroll
  for (int i = 0; i < TILE; i += box)
    load_box(to + i * 128, map, full, mn_major ? first + i : k, mn_major ? k : first + i, batch);
}

// One thread.
__device__ __forceinline__ void copy_by_engine(Shared &s, Plan plan, unsigned k_tiles,
                                               const TensorMap &left, const TensorMap &right) {
  Ring<STAGES> ring;
  for (; plan.more(); ++plan) {
    const Item at = plan.item();
    for (unsigned i = 0; i < k_tiles; ++i, ++ring) {
      Barrier &full = s.full[ring.stage];
      s.empty[ring.stage].wait(ring.phase ^ 1);
      full.arrive_expecting(2 * TILE_BYTES);
      copy_tile<LEFT_MN, LEFT_BOX>(s.left[ring.stage], left, full, int(at.row), i * LINE, at.batch);
      copy_tile<false, 64>(s.big[ring.stage], right, full, int(at.column), i * LINE, at.batch);
    }
  }
}

// Three warps: the right factor, as it was copied, becomes its big part in place and its small one beside it.
__device__ __forceinline__ void split_stages(Shared &s, Plan plan, unsigned k_tiles) {
  Ring<STAGES> ring;
  for (; plan.more(); ++plan)
    for (unsigned i = 0; i < k_tiles; ++i, ++ring) {
      s.full[ring.stage].wait(ring.phase);
      split_tile<TILE_BYTES, SPLITTERS * 32>(s.big[ring.stage], s.small[ring.stage],
                                             int(threadIdx.x) - 32);
      publish_to_async_proxy();
      __syncwarp();
      if (threadIdx.x % 32 == 0) s.split[ring.stage].arrive();
    }
}

struct Consumer {
  float sums[64], big[64], small[64];

  // A step waits for the one before: the other warpgroup's products fill the time until this one's start.
  __device__ __forceinline__ void step(const SplitFragment &left, unsigned long long big_right,
                                       unsigned long long small_right, bool add) {
    wgmma_fence();
    wgmma(big, left.big, big_right, add);
    wgmma(small, left.big, small_right);
    wgmma(small, left.small, big_right);
    wgmma_commit();
  }

  __device__ __forceinline__ void promote() {
    pin(big);
#pragma unroll
    for (int i = 0; i < 64; ++i) sums[i] += big[i];
  }

  __device__ __forceinline__ void run(Shared &s, Ring<STAGES> &ring, unsigned k_tiles,
                                      int consumer) {
#pragma unroll
    for (int i = 0; i < 64; ++i) sums[i] = big[i] = small[i] = 0.0f;
    Fragment<LEFT_MN> raw;
    SplitFragment left;
    unsigned last = 0;
    for (unsigned i = 0; i < k_tiles; ++i, ++ring) {
      const unsigned stage = ring.stage;
      s.full[stage].wait(ring.phase);
      s.split[stage].wait(ring.phase);
      const auto right = descriptor(s.big[stage], 0), small_right = descriptor(s.small[stage], 0);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        raw.load(s.left[stage] + consumer * 64 * 128, k);
        wgmma_wait<0>();
        if (k == 0 && i > 0) release<1>(s.empty[last]);
        if (k == 0 && i % PROMOTE == 0) promote();
        left.split(raw.of);
        step(left, moved(right, k * 32), moved(small_right, k * 32), k > 0 || i % PROMOTE > 0);
      }
      last = stage;
    }
    wgmma_wait<0>();
    if (k_tiles > 0) release<1>(s.empty[last]);
    promote();
    pin(small);
#pragma unroll
    for (int i = 0; i < 64; ++i) sums[i] += small[i];
  }
};

__device__ __forceinline__ void consume(Shared &s, Plan plan, unsigned k_tiles, const Problem &p) {
  const int consumer = warpgroup() - 1;
  Ring<STAGES> ring;
  Consumer product;
  for (; plan.more(); ++plan) {
    const Item at = plan.item();
    product.run(s, ring, k_tiles, consumer);
    store_sums<LEFT_MN, SWAPPED>(Output(p, at.batch), product.sums, at.row + consumer * 64,
                                 at.column, TILE);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    tf32x3_gemm(const Problem p, const __grid_constant__ TensorMap a_map,
                const __grid_constant__ TensorMap b_map, const __grid_constant__ TensorMap) {
  extern __shared__ char dynamic[];
  Shared &s = *(Shared *)(dynamic + (-shared_address(dynamic) & 1023));
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      s.full[i].init(1);
      s.split[i].init(SPLITTERS);
      s.empty[i].init(2 * 4);
    }
    publish_barriers();
  }
  __syncthreads();
  wait_for_launch_before(); // it may have been one that realigns A and B

  const Plan plan = plan_of<Plan>(p, 0);
  const unsigned k_tiles = k_tiles_of(p);
  if (warpgroup() == 0) {
    keep_registers<56>();
    if (threadIdx.x >= 32)
      split_stages(s, plan, k_tiles);
    else if (threadIdx.x == 0)
      copy_by_engine(s, plan, k_tiles, SWAPPED ? b_map : a_map, SWAPPED ? a_map : b_map);
  } else {
    take_registers<224>();
    consume(s, plan, k_tiles, p);
  }
}
