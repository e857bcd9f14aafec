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
// defines = { STAGES = 4, GROUP = 8, STORE_BY_TMA = 1 }
//
// [[variant]]
// name = "direct"
// threads = [384, 1]
// tile = [128, 256, 64]
// cluster = 2
// shared_bytes = 197888
// defines = { STAGES = 4, GROUP = 8, STORE_BY_TMA = 0 }
//
// [[variant]]
// name = "alone"
// threads = [384, 1]
// tile = [128, 256, 64]
// shared_bytes = 230656
// defines = { STAGES = 4, GROUP = 16, STORE_BY_TMA = 1 }
//
// [[variant]]
// name = "128"
// threads = [384, 1]
// tile = [128, 128, 64]
// cluster = 2
// shared_bytes = 230656
// defines = { STAGES = 6, GROUP = 8, STORE_BY_TMA = 1 }
// ///
#include "layout.cuh"
#include "realign.cuh"
#include "tile_order.cuh"
#include "wgmma_epilogue.cuh"
#include "wgmma_mainloop.cuh"

constexpr bool TF32 = sizeof(T) == 4;
static_assert(!TF32 || TRANS_B || !TRANS_A, "the loader turns B");
constexpr bool SWAPPED = TF32 && !TRANS_A && !TRANS_B;
constexpr bool LEFT_MN = TRANS_A || SWAPPED, RIGHT_MN = !TRANS_B && !SWAPPED;

// The cluster's CTAs take neighbouring rows of tiles and share the right factor.
constexpr int LEFT = TILE_M, RIGHT = TILE_N, CONSUMERS = 2;
constexpr int LINE = 128 / sizeof(T); // entries: the K of a stage, the width of an MN-major block
constexpr int STAGE_BYTES = (LEFT + RIGHT) * 128;
static_assert(LEFT == 64 * CONSUMERS && THREADS == 128 * (CONSUMERS + 1) && RIGHT % CLUSTER == 0,
              "each consumer has 64 rows");

struct Shared {
  char left[STAGES][LEFT * 128], right[STAGES][RIGHT * 128];
#if STORE_BY_TMA
  char slabs[CONSUMERS][2 * SLAB_BYTES];
#endif
  Barrier full[STAGES], empty[STAGES];
};
static_assert(sizeof(Shared) + 1024 <= SHARED_BYTES, "1024 are for its alignment");

// What all warps agree on without a word: the tiles of this cluster, in order.
struct Work {
  TileOrder order;
  unsigned index, step, rank, k_tiles;

  __device__ __forceinline__ explicit Work(const Problem &p)
      : order(SWAPPED ? p.n : p.m, SWAPPED ? p.m : p.n, p.batch, LEFT * CLUSTER, RIGHT),
        index(blockIdx.x / CLUSTER), step(gridDim.x / CLUSTER),
        rank(CLUSTER > 1 ? rank_in_cluster() : 0), k_tiles(unsigned((p.k + LINE - 1) / LINE)) {}

  struct Place {
    index_t row, column; // of C, or of C transposed
    unsigned batch;
  };
  __device__ __forceinline__ bool more() const { return index < order.count; }
  __device__ __forceinline__ void operator++() { index += step; }
  __device__ __forceinline__ Place place() const {
    const TileOrder::Place at = order.operator()<GROUP>(index);
    return {(index_t(at.row) * CLUSTER + rank) * LEFT, index_t(at.column) * RIGHT, at.batch};
  }
};

// One thread starts the copies of a stage: its left tile, and the CTA's share of the right one for all.
__device__ __forceinline__ void start_copies(Shared &s, unsigned stage, const TensorMap &left,
                                             const TensorMap &right, const Work::Place &at, int k,
                                             unsigned rank) {
  Barrier &full = s.full[stage];
  full.arrive_expecting(STAGE_BYTES);
#pragma unroll
  for (int i = 0; i < LEFT; i += LEFT_MN ? LINE : 128) {
    const int row = int(at.row) + i;
    load_box(s.left[stage] + i * 128, left, full, LEFT_MN ? row : k, LEFT_MN ? k : row, at.batch);
  }
  constexpr int share = RIGHT / CLUSTER, step = RIGHT_MN ? LINE : share < 128 ? share : 128;
#pragma unroll
  for (int i = 0; i < share; i += step) {
    const int place = int(rank) * share + i, column = int(at.column) + place;
    const int x = RIGHT_MN ? column : k, y = RIGHT_MN ? k : column;
    char *to = s.right[stage] + place * 128;
    if constexpr (CLUSTER > 1)
      load_box_everywhere(to, right, full, x, y, at.batch, (1 << CLUSTER) - 1);
    else
      load_box(to, right, full, x, y, at.batch);
  }
}

__device__ __forceinline__ void produce(Shared &s, Work work, const TensorMap &left,
                                        const TensorMap &right) {
  if (work.k_tiles == 0) return; // there are no maps then
  prefetch_map(left);
  prefetch_map(right);
  Ring<STAGES> ring;
  for (; work.more(); ++work) {
    const Work::Place at = work.place();
    for (unsigned i = 0; i < work.k_tiles; ++i, ++ring) {
      s.empty[ring.stage].wait(ring.phase ^ 1);
      start_copies(s, ring.stage, left, right, at, int(i) * LINE, work.rank);
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

__device__ __forceinline__ void consume(Shared &s, Work work, const Problem &p,
                                        const TensorMap &c_map) {
  const int consumer = int(threadIdx.x) / 128 - 1;
  Ring<STAGES> ring;
  Product product;
  for (; work.more(); ++work) {
    const Work::Place at = work.place();
    const Output c(p, at.batch);
    const index_t row = at.row + consumer * 64;
    product.run(s, ring, work.k_tiles, consumer);
#if STORE_BY_TMA
    const bool boxes = takes_boxes(p);
    if (boxes || !TF32) {
      store_slabs<Product::ROWS_MN, SWAPPED>(c, c_map, boxes, s.slabs[consumer], 1 + consumer,
                                             product.sums, row, at.column, int(at.batch));
      continue;
    }
#endif
    store_sums<Product::ROWS_MN, SWAPPED>(c, product.sums, row, at.column);
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

  const Work work(p);
  if (threadIdx.x < 128) {
    keep_registers<40>();
    if (threadIdx.x == 0) produce(s, work, SWAPPED ? b_map : a_map, SWAPPED ? a_map : b_map);
  } else {
    take_registers<232>();
    consume(s, work, p, c_map);
  }
  __syncwarp();
  synchronize_cluster(); // until then another CTA may write to this one's stages and barriers
}
