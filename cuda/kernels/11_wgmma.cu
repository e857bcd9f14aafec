// Hopper's way: the copy engine fills a ring of stages in shared memory, and tensor cores read them there by
// themselves (wgmma). What is left for the warps is to start both and to hand stages over.
//
// One warpgroup produces, two consume. A stage holds 128 bytes along K of both operands; two barriers pass it on:
// `full` (the bytes have landed) and `empty` (no tensor core reads it any more). The producer runs ahead by the
// length of the ring, across tiles too: the grid is persistent, so the next tile's stages arrive while this one's
// sums are stored. Two CTAs of a cluster work on neighbouring tiles: each loads half of the operand they share and
// sends it to both. setmaxnreg gives the producer's registers to the consumers, who hold 128 sums each.
//
// tf32 is read from shared memory K-major only. So an operand that lies MN-major goes through registers, as the
// left factor; for A * B with both stored by rows that is C' = B' * A'. Where both lie MN-major, or the copy engine
// cannot take an operand (its address or row pitch is no multiple of 16 bytes), the producers copy by hand.
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
// ///
#include "stage_by_hand.cuh"
#include "tile_order.cuh"
#include "wgmma_epilogue.cuh"
#include "wgmma_mainloop.cuh"

#ifndef LAYOUT_GIVEN // by the loader, for the problem at hand
#define TRANS_A 0
#define TRANS_B 0
#define BY_TMA  1
#endif

constexpr bool TF32 = sizeof(T) == 4;
constexpr int LINE =
    128 / sizeof(T); // entries in a line: a stage's K, and the width of an MN-major block
constexpr bool A_MN = TRANS_A, B_MN = !TRANS_B;
constexpr bool COPY_ENGINE = BY_TMA && !(TF32 && A_MN && B_MN);
constexpr bool IN_REGISTERS = COPY_ENGINE && TF32 && (A_MN || B_MN);

// The tile is 128 along one operand and 256 along the other, which the cluster shares. B is the wide one, unless
// it is A that goes through registers: the left factor is wide then.
constexpr int NARROW = TILE_M, WIDE = TILE_N, CONSUMERS = 2;
constexpr bool WIDE_IS_A = IN_REGISTERS && A_MN;
constexpr bool NARROW_MN = !TF32 && A_MN, WIDE_MN = IN_REGISTERS || (!TF32 && B_MN);
constexpr int STAGE_BYTES = (NARROW + WIDE) * 128;
constexpr int SENDERS = COPY_ENGINE ? CLUSTER : 1; // CTAs that write to this one's stages
constexpr int PRODUCER_REGISTERS = COPY_ENGINE ? 40 : 136,
              CONSUMER_REGISTERS = COPY_ENGINE ? 232 : 184;
static_assert(NARROW == 128 && WIDE == 256 && THREADS == 128 * (CONSUMERS + 1),
              "each consumer holds 64 x 256 or 128 x 128 sums");

struct Shared {
  char narrow[STAGES][NARROW * 128], wide[STAGES][WIDE * 128];
#if STORE_BY_TMA
  char slabs[CONSUMERS][2 * 64 * 128];
#endif
  Barrier full[STAGES], empty[STAGES];
};
static_assert(sizeof(Shared) + 1024 <= SHARED_BYTES, "1024 are for its alignment");

// What all warps agree on without a word: the tiles of this cluster, in order.
struct Work {
  TileOrder order;
  unsigned index, step, rank, k_tiles;

  __device__ __forceinline__ explicit Work(const Problem &p)
      : order(WIDE_IS_A ? p.n : p.m, WIDE_IS_A ? p.m : p.n, p.batch, NARROW * CLUSTER, WIDE),
        index(blockIdx.x / CLUSTER), step(gridDim.x / CLUSTER),
        rank(CLUSTER > 1 ? rank_in_cluster() : 0), k_tiles(unsigned((p.k + LINE - 1) / LINE)) {}

  struct Place {
    index_t narrow, wide;
    unsigned batch;
  };
  __device__ __forceinline__ bool more() const { return index < order.count; }
  __device__ __forceinline__ void operator++() { index += step; }
  __device__ __forceinline__ Place place() const {
    const TileOrder::Place at = order.operator()<GROUP>(index);
    return {(index_t(at.row) * CLUSTER + rank) * NARROW, index_t(at.column) * WIDE, at.batch};
  }
};

// One thread starts the copies of a stage: its narrow tile, and the CTA's share of the wide one for all.
__device__ __forceinline__ void start_copies(Shared &s, unsigned stage, const TensorMap &narrow,
                                             const TensorMap &wide, const Work::Place &at, int k,
                                             unsigned rank) {
  Barrier &full = s.full[stage];
  full.arrive_expecting(STAGE_BYTES);
  constexpr int step = NARROW_MN ? LINE : NARROW, wide_step = WIDE_MN ? LINE : 128;
#pragma unroll
  for (int i = 0; i < NARROW; i += step) {
    const int first = int(at.narrow) + i;
    load_box(s.narrow[stage] + i * 128, narrow, full, NARROW_MN ? first : k, NARROW_MN ? k : first,
             at.batch);
  }
  constexpr int share = WIDE / CLUSTER;
#pragma unroll
  for (int i = 0; i < share; i += wide_step) {
    const int place = int(rank) * share + i, first = int(at.wide) + place;
    const int x = WIDE_MN ? first : k, y = WIDE_MN ? k : first;
    char *to = s.wide[stage] + place * 128;
    if constexpr (CLUSTER > 1)
      load_box_everywhere(to, wide, full, x, y, at.batch, (1 << CLUSTER) - 1);
    else
      load_box(to, wide, full, x, y, at.batch);
  }
}

__device__ __forceinline__ void produce_by_engine(Shared &s, Work work, const TensorMap &narrow,
                                                  const TensorMap &wide) {
  if (threadIdx.x != 0 || work.k_tiles == 0) return;
  prefetch_map(narrow);
  prefetch_map(wide);
  Ring<STAGES> ring;
  for (; work.more(); ++work) {
    const Work::Place at = work.place();
    for (unsigned i = 0; i < work.k_tiles; ++i, ++ring) {
      s.empty[ring.stage].wait(ring.phase ^ 1);
      start_copies(s, ring.stage, narrow, wide, at, int(i) * LINE, work.rank);
    }
  }
}

__device__ __forceinline__ Source source_a(const Problem &p, unsigned batch) {
  return {p.a.data + batch * p.a.batch_stride, p.a.row_stride, p.a.col_stride, p.m, p.k};
}
__device__ __forceinline__ Source source_b(const Problem &p, unsigned batch) {
  return {p.b.data + batch * p.b.batch_stride, p.b.col_stride, p.b.row_stride, p.n, p.k};
}

__device__ __forceinline__ void produce_by_hand(Shared &s, Work work, const Problem &p) {
  Ring<STAGES> ring;
  for (; work.more(); ++work) {
    const Work::Place at = work.place();
    const Source a = source_a(p, at.batch), b = source_b(p, at.batch);
    for (unsigned i = 0; i < work.k_tiles; ++i, ++ring) {
      const index_t k = index_t(i) * LINE;
      s.empty[ring.stage].wait(ring.phase ^ 1);
      fill<NARROW, !A_MN>(s.narrow[ring.stage], a, at.narrow, k);
      fill<WIDE, !B_MN>(s.wide[ring.stage], b, at.wide, k);
      publish_to_async_proxy();
      s.full[ring.stage].arrive();
    }
  }
}

using SharedProduct = FromShared<WIDE, NARROW_MN, WIDE_MN && !IN_REGISTERS, SENDERS>;

__device__ __forceinline__ void store(Shared &s, const Problem &p, const TensorMap &c_map,
                                      const Work::Place &at, int consumer,
                                      const SharedProduct &product) {
  const Output c(p, at.batch);
  const index_t row = at.narrow + consumer * 64;
#if STORE_BY_TMA && !defined(STORAGE_float32)
  if (takes_boxes(p)) {
    char *slabs = s.slabs[consumer];
    store_boxes(c, c_map, slabs, 1 + consumer, product.sums, row, at.wide, int(at.batch));
    return;
  }
#endif
  store_sums(c, product.sums, row, at.wide);
}

#if defined(STORAGE_float32)
__device__ __forceinline__ void store(Shared &, const Problem &p, const TensorMap &,
                                      const Work::Place &at, int consumer,
                                      const FromRegisters<SENDERS> &product) {
  const Output c(p, at.batch);
  store_sums<WIDE_IS_A>(c, product.sums, at.wide + consumer * 128, at.narrow);
}

template <bool> struct Pick {
  using Product = SharedProduct;
};
template <> struct Pick<true> {
  using Product = FromRegisters<SENDERS>;
};
using Product = Pick<IN_REGISTERS>::Product;
#else
using Product = SharedProduct;
#endif

__device__ __forceinline__ void consume(Shared &s, Work work, const Problem &p,
                                        const TensorMap &c_map) {
  const int consumer = int(threadIdx.x) / 128 - 1;
  Ring<STAGES> ring;
  Product product;
  for (; work.more(); ++work) {
    const Work::Place at = work.place();
    product.run(s, ring, work.k_tiles, consumer);
    store(s, p, c_map, at, consumer, product);
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
      s.full[i].init(COPY_ENGINE ? 1 : 128);
      s.empty[i].init(SENDERS * CONSUMERS * 4);
    }
    publish_barriers();
  }
  synchronize_cluster();

  const Work work(p);
  if (threadIdx.x < 128) {
    keep_registers<PRODUCER_REGISTERS>();
    if constexpr (COPY_ENGINE)
      produce_by_engine(s, work, WIDE_IS_A ? b_map : a_map, WIDE_IS_A ? a_map : b_map);
    else
      produce_by_hand(s, work, p);
  } else {
    take_registers<CONSUMER_REGISTERS>();
    consume(s, work, p, c_map);
  }
  __syncwarp();
  synchronize_cluster(); // until then another CTA may write to this one's stages and barriers
}
