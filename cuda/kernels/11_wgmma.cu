// Hopper's way: the copy engine fills a ring of stages in shared memory, and tensor cores read them there by
// themselves (wgmma). What is left for the warps is to start both and to hand stages over.
//
// One warpgroup produces, two consume. A stage holds 128 bytes along K of both operands; two barriers pass it on:
// `full` (the bytes have landed) and `empty` (no tensor core reads it any more). The producer runs ahead by the
// length of the ring, across tiles too: the grid is persistent, so the next tile's stages arrive while this one's
// sums are stored. Two CTAs of a cluster work on neighbouring tiles: each loads half of the operand they share and
// sends it to both. setmaxnreg gives the producer's registers to the consumers, who hold 128 sums each.
//
// Sums leave by way of shared memory, too, and the copy engine writes whole lines of C: straight from registers
// ("direct") a product of 4096 in 16 bits took 9 % longer on an H200. A cluster of two reads 128 FLOP per byte from
// L2 where a CTA for itself ("alone") has 85, which L2 just keeps up with while lines are aligned.
//
// A tile is a large piece of work: 4104 has 33 edges of 8 entries beside its 256 tiles, and 25 tiles more than four
// rounds of 66 clusters would cost a fifth one. So edges and incomplete rounds are narrower pieces: tile_plan.cuh.
//
// tf32 is read from shared memory K-major only. So an operand that lies MN-major goes through registers, as the
// left factor; for A * B with both stored by rows that is C' = B' * A'. Where both lie MN-major, B is turned first;
// and an operand that the copy engine cannot take (its address or row pitch is no multiple of 16 bytes) is moved
// to where it can: realign.cuh. That is a pass over M K + K N entries before M N K products.
//
// /// kernel
// entry = "wgmma_gemm"
// op = "gemm"
// dtypes = ["float16", "bfloat16", "float32"]
// math = ["fp16", "bf16", "tf32"]
// launcher = "tma"
// min_sm = 90
// only_sm = 90
// teaches = "Asynchronous copies and tensor cores, a producer and consumers, and barriers that hand stages over."
//
// [[variant]]
// threads = [384, 1]
// tile = [128, 256, 64]
// cluster = 2
// shared_bytes = 230656
// defines = { STAGES = 4, GROUP = 8, STORE_BY_TMA = 1, CUTS = 2 }
//
// [[variant]]
// name = "direct"
// threads = [384, 1]
// tile = [128, 256, 64]
// cluster = 2
// shared_bytes = 197888
// defines = { STAGES = 4, GROUP = 8, STORE_BY_TMA = 0, CUTS = 2 }
//
// [[variant]]
// name = "alone"
// threads = [384, 1]
// tile = [128, 256, 64]
// shared_bytes = 230656
// defines = { STAGES = 4, GROUP = 16, STORE_BY_TMA = 1, CUTS = 2 }
//
// [[variant]]
// name = "128"
// threads = [384, 1]
// tile = [128, 128, 64]
// cluster = 2
// shared_bytes = 230656
// defines = { STAGES = 6, GROUP = 8, STORE_BY_TMA = 1, CUTS = 2 }
// ///
#include "realign.cuh"
#include "wgmma_epilogue.cuh"
#include "wgmma_layout.cuh"
#include "wgmma_mainloop.cuh"

// The cluster's CTAs take neighbouring rows of tiles and share the right factor.
constexpr int LEFT = TILE_M, RIGHT = TILE_N, CONSUMERS = 2;
static_assert(LEFT == 64 * CONSUMERS && THREADS == 128 * (CONSUMERS + 1), "a consumer has 64 rows");

struct Shared {
  char left[STAGES][LEFT * 128], right[STAGES][RIGHT * 128];
#if STORE_BY_TMA
  char slabs[CONSUMERS][2 * SLAB_BYTES];
#endif
  Barrier full[STAGES], empty[STAGES];
};
static_assert(sizeof(Shared) + 1024 <= SHARED_BYTES, "1024 are for its alignment");

// All warps go through the same items in the same order without a word.
using Plan = TilePlan<LEFT, RIGHT, CLUSTER, GROUP, CUTS>;
constexpr int RIGHT_BOX = 64;
static_assert(RIGHT / CUTS >= Plan::NARROWEST && RIGHT / CLUSTER >= Plan::NARROWEST,
              "pieces are whole boxes");

// How many boxes of `each` out of `most` reach into what is left of an extent.
__device__ __forceinline__ int boxes_inside(index_t left, int each, int most) {
  return int(min(index_t(most), (max(index_t(0), left) + each - 1) / each));
}

// The copies that fill a stage for one item: the boxes of its left tile, and the right ones: all of them, or if the
// cluster shares them this CTA's part, for everybody. One thread starts them, and everything it does for a stage takes
// time from the next one: so what can be known before is.
template <bool shared> struct Copies {
  static constexpr int MOST = RIGHT / RIGHT_BOX / (shared ? CLUSTER : 1);
  int row, column, batch, left_boxes, right_boxes, first, count;

  __device__ __forceinline__ Copies(const Plan &plan, const Item &at)
      : row(int(at.row)), batch(int(at.batch)),
        right_boxes(boxes_inside(plan.n - at.column, RIGHT_BOX, at.width / RIGHT_BOX)) {
    const int each = shared ? max(1, at.width / RIGHT_BOX / CLUSTER) : at.width / RIGHT_BOX;
    first = shared ? int(plan.rank) * each : 0;
    count = min(each, right_boxes - first);
    column = int(at.column) + first * RIGHT_BOX;
    left_boxes = right_boxes ? boxes_inside(plan.m - at.row, LEFT_BOX, LEFT / LEFT_BOX) : 0;
  }

  __device__ __forceinline__ void start(Shared &s, unsigned stage, const TensorMap &left,
                                        const TensorMap &right, int k) const {
    Barrier &full = s.full[stage];
    full.arrive_expecting((left_boxes * LEFT_BOX + right_boxes * RIGHT_BOX) * 128);
    char *to = s.left[stage];
#pragma unroll
    for (int i = 0; i < LEFT / LEFT_BOX; ++i)
      if (i < left_boxes)
        load_box(to + i * LEFT_BOX * 128, left, full, LEFT_MN ? row + i * LEFT_BOX : k,
                 LEFT_MN ? k : row + i * LEFT_BOX, batch);
    to = s.right[stage] + first * RIGHT_BOX * 128;
#pragma unroll
    for (int i = 0; i < MOST; ++i) {
      if (i >= count) break;
      const int y = column + i * RIGHT_BOX;
      if constexpr (shared)
        load_box_everywhere(to + i * RIGHT_BOX * 128, right, full, RIGHT_MN ? y : k,
                            RIGHT_MN ? k : y, batch, (1 << CLUSTER) - 1);
      else
        load_box(to + i * RIGHT_BOX * 128, right, full, RIGHT_MN ? y : k, RIGHT_MN ? k : y, batch);
    }
  }

  __device__ __forceinline__ void run(Shared &s, Ring<STAGES> &ring, unsigned k_tiles,
                                      const TensorMap &left, const TensorMap &right) const {
    for (unsigned i = 0; i < k_tiles; ++i, ++ring) {
      s.empty[ring.stage].wait(ring.phase ^ 1);
      start(s, ring.stage, left, right, int(i) * LINE);
    }
  }
};

__device__ __forceinline__ void produce(Shared &s, Plan plan, unsigned k_tiles,
                                        const TensorMap &left, const TensorMap &right) {
  if (k_tiles == 0) return; // there are no maps then
  prefetch_map(left);
  prefetch_map(right);
  Ring<STAGES> ring;
  for (; plan.more(); ++plan) {
    const Item at = plan.item();
    if (CLUSTER > 1 && at.shared)
      Copies<true>(plan, at).run(s, ring, k_tiles, left, right);
    else
      Copies<false>(plan, at).run(s, ring, k_tiles, left, right);
  }
}

#if defined(STORAGE_float32)
template <bool> struct Pick {
  using Product = FromShared<RIGHT, false, false, CLUSTER>;
};
template <> struct Pick<true> {
  using Product = FromRegisters<RIGHT, CLUSTER>;
};
using Product = Pick<LEFT_MN>::Product;
#else
using Product = FromShared<RIGHT, LEFT_MN, RIGHT_MN, CLUSTER>;
#endif

// The tensor cores are asked for as many columns as the item has.
template <int columns>
__device__ __forceinline__ void multiply(Product &product, Shared &s, Ring<STAGES> &ring,
                                         unsigned k_tiles, int consumer, int width) {
  if (width == columns)
    product.run<columns>(s, ring, k_tiles, consumer);
  else if constexpr (columns > Plan::NARROWEST)
    multiply<columns / 2>(product, s, ring, k_tiles, consumer, width);
}

__device__ __forceinline__ void consume(Shared &s, Plan plan, unsigned k_tiles, const Problem &p,
                                        const TensorMap &c_map) {
  // With the left factor in registers, too, uniform ones cost 32 bytes of spills, and a signed division 4.
  const int consumer = (Product::ROWS_MN ? int(threadIdx.x / 128u) : warpgroup()) - 1;
  Ring<STAGES> ring;
  Product product;
  for (; plan.more(); ++plan) {
    const Item at = plan.item();
    const Output c(p, at.batch);
    const index_t row = at.row + consumer * 64;
    if (row >= plan.m || at.column >= plan.n) {
      pass_over<CLUSTER>(s, ring, k_tiles);
      continue;
    }
    multiply<RIGHT>(product, s, ring, k_tiles, consumer, at.width);
#if STORE_BY_TMA
    const bool boxes = takes_boxes(p);
    if (boxes || !TF32) {
      store_slabs<Product::ROWS_MN, SWAPPED>(c, c_map, boxes, s.slabs[consumer], 1 + consumer,
                                             product.sums, row, at.column, at.width, at.batch);
      continue;
    }
#endif
    store_sums<Product::ROWS_MN, SWAPPED>(c, product.sums, row, at.column, at.width);
  }
  if (STORE_BY_TMA && threadIdx.x % 128 == 0) wait_stores_done();
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    wgmma_gemm(const Problem p, const __grid_constant__ TensorMap a_map,
               const __grid_constant__ TensorMap b_map, const __grid_constant__ TensorMap c_map) {
  extern __shared__ char dynamic[];
  Shared &s = *(Shared *)(dynamic + (-shared_address(dynamic) & 1023));
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      s.full[i].init(1);
      s.empty[i].init(CLUSTER * CONSUMERS * 4);
    }
    publish_barriers();
  }
  synchronize_cluster();
  wait_for_launch_before(); // it may have been one that realigns A and B

  const Plan plan = plan_of<Plan>(p, CLUSTER > 1 ? rank_in_cluster() : 0);
  const unsigned k_tiles = k_tiles_of(p);
  if (warpgroup() == 0) {
    keep_registers<40>();
    if (threadIdx.x == 0)
      produce(s, plan, k_tiles, SWAPPED ? b_map : a_map, SWAPPED ? a_map : b_map);
  } else {
    take_registers<232>();
    consume(s, plan, k_tiles, p, c_map);
  }
  __syncwarp();
  synchronize_cluster(); // until then another CTA may write to this one's stages and barriers
}
