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
// L2 where a CTA for itself ("alone") has 85: up to 2 %. Where C has few tiles, smaller ones ("128") keep more of
// the chip busy: at 1024 a half more.
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
// defines = { STAGES = 4, GROUP = 8, STORE_BY_TMA = 1, CUTS = 2, BOX = 64 }
//
// [[variant]]
// name = "direct"
// threads = [384, 1]
// tile = [128, 256, 64]
// cluster = 2
// shared_bytes = 197888
// defines = { STAGES = 4, GROUP = 8, STORE_BY_TMA = 0, CUTS = 2, BOX = 64 }
//
// [[variant]]
// name = "alone"
// threads = [384, 1]
// tile = [128, 256, 64]
// shared_bytes = 230656
// defines = { STAGES = 4, GROUP = 16, STORE_BY_TMA = 1, CUTS = 2, BOX = 64 }
//
// [[variant]]
// name = "128"
// threads = [384, 1]
// tile = [128, 128, 64]
// cluster = 2
// shared_bytes = 230656
// defines = { STAGES = 6, GROUP = 8, STORE_BY_TMA = 1, CUTS = 2, BOX = 64 }
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
constexpr int RIGHT_BOX = BOX, PARTS = 64 / BOX; // of 64 columns
static_assert(RIGHT / CUTS >= Plan::NARROWEST && RIGHT / CLUSTER >= Plan::NARROWEST,
              "pieces are whole boxes");

// How many boxes of `each` out of `most` reach into what is left of an extent.
__device__ __forceinline__ int boxes_inside(index_t left, int each, int most) {
  return int(min(index_t(most), (max(index_t(0), left) + each - 1) / each));
}

// The copies that fill a stage for one item: its left tile, and right boxes, those that are shared in turns.
struct Copies {
  Item at;
  int left_boxes, right_boxes;

  __device__ __forceinline__ Copies(const Plan &plan)
      : at(plan.item()), right_boxes(boxes_inside(plan.n - at.column, 64, at.width / 64) * PARTS) {
    left_boxes = right_boxes ? boxes_inside(plan.m - at.row, LEFT_BOX, LEFT / LEFT_BOX) : 0;
  }

  // By one thread.
  __device__ __forceinline__ void start(Shared &s, unsigned stage, const TensorMap &left,
                                        const TensorMap &right, int k, unsigned rank) const {
    Barrier &full = s.full[stage];
    full.arrive_expecting((left_boxes * LEFT_BOX + right_boxes * RIGHT_BOX) * 128);
#pragma unroll
    for (int i = 0; i < LEFT / LEFT_BOX; ++i) {
      const int row = int(at.row) + i * LEFT_BOX;
      if (i < left_boxes)
        load_box(s.left[stage] + i * LEFT_BOX * 128, left, full, LEFT_MN ? row : k,
                 LEFT_MN ? k : row, at.batch);
    }
#pragma unroll
    for (int i = 0; i < RIGHT / RIGHT_BOX; ++i) {
      const int block = i / PARTS * 64, on = i % PARTS * RIGHT_BOX, column = int(at.column) + block;
      const int x = RIGHT_MN ? column : k, y = RIGHT_MN ? k + on : column + on;
      char *to = s.right[stage] + (block + on) * 128;
      if (i >= right_boxes) continue;
      if (CLUSTER == 1 || !at.shared)
        load_box(to, right, full, x, y, at.batch);
      else if (i % CLUSTER == rank)
        load_box_everywhere(to, right, full, x, y, at.batch, (1 << CLUSTER) - 1);
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
    const Copies copies(plan);
    for (unsigned i = 0; i < k_tiles; ++i, ++ring) {
      s.empty[ring.stage].wait(ring.phase ^ 1);
      copies.start(s, ring.stage, left, right, int(i) * LINE, plan.rank);
    }
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
  const int consumer = int(threadIdx.x) / 128 - 1;
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
  if (threadIdx.x < 128) {
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
