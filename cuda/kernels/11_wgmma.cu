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
#include "fragments.cuh"
#include "stage_by_hand.cuh"
#include "tile_order.cuh"
#include "wgmma_epilogue.cuh"

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
constexpr int STAGE_BYTES = (NARROW + WIDE) * 128, BLOCK_BYTES = LINE * 128;
constexpr bool STAGED = STORE_BY_TMA && !TF32;
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

// Where in the ring, and which phase of that stage's barriers.
struct Ring {
  unsigned stage = 0, phase = 0;
  __device__ __forceinline__ void operator++() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
};

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
  Ring ring;
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
  Ring ring;
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

// This warp reads the stage no more; every CTA that writes to it is told.
__device__ __forceinline__ void release(Barrier &empty) {
  const unsigned lane = threadIdx.x % 32;
  if constexpr (SENDERS > 1) {
    if (lane < SENDERS) empty.arrive_in(lane);
  } else if (lane == 0) {
    empty.arrive();
  }
}

// Both operands from shared memory: this consumer's 64 rows of the narrow tile by the whole wide one.
struct FromShared {
  float sums[WIDE / 2];

  __device__ __forceinline__ void multiply(Shared &s, unsigned stage, int consumer) {
    const auto left = descriptor(s.narrow[stage] + consumer * 64 * 128, BLOCK_BYTES);
    const auto right = descriptor(s.wide[stage], BLOCK_BYTES);
    // A step of K is 32 bytes along a K-major line, or 16 lines (of 16-bit entries).
    constexpr int left_step = NARROW_MN ? 16 * 128 : 32, right_step = WIDE_MN ? 16 * 128 : 32;
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < 4; ++i)
      wgmma<NARROW_MN, WIDE_MN>(sums, moved(left, i * left_step), moved(right, i * right_step));
    wgmma_commit();
  }

  // A stage is released when the group after the one that read it has been started.
  __device__ __forceinline__ void run(Shared &s, Ring &ring, unsigned k_tiles, int consumer) {
#pragma unroll
    for (int i = 0; i < WIDE / 2; ++i) sums[i] = 0.0f;
    unsigned last = 0;
    for (unsigned i = 0; i < k_tiles; ++i, ++ring) {
      s.full[ring.stage].wait(ring.phase);
      multiply(s, ring.stage, consumer);
      wgmma_wait<1>();
      if (i > 0) release(s.empty[last]);
      last = ring.stage;
    }
    wgmma_wait<0>();
    pin(sums);
    if (k_tiles > 0) release(s.empty[last]);
  }

  __device__ __forceinline__ void store(Shared &s, const Output &c, const TensorMap &map,
                                        bool boxes, const Work::Place &at, int consumer) {
    const index_t row = at.narrow + consumer * 64, column = at.wide;
#if STORE_BY_TMA && !defined(STORAGE_float32)
    if (boxes) {
      store_boxes(c, map, s.slabs[consumer], 1 + consumer, sums, row, column, int(at.batch));
      return;
    }
#endif
    store_sums(c, sums, row + threadIdx.x / 32 % 4 * 16, column);
  }
};

#if defined(STORAGE_float32)
// The wide operand from shared memory through registers, as the left factor: 128 rows of it by the narrow tile.
struct FromRegisters {
  float sums[2][NARROW / 2];

  // Sums of one step of K: 8 lines of this warp's block, 32 bytes of the narrow tile's lines.
  __device__ __forceinline__ void multiply(const Fragments &left, unsigned long long right) {
    wgmma_fence();
    wgmma(sums[0], left.of[0], right);
    wgmma(sums[1], left.of[1], right);
    wgmma_commit();
  }

  // While a step is multiplied, the next one's fragments are read into the other registers.
  __device__ __forceinline__ void run(Shared &s, Ring &ring, unsigned k_tiles, int consumer) {
#pragma unroll
    for (int i = 0; i < NARROW; ++i) sums[i / (NARROW / 2)][i % (NARROW / 2)] = 0.0f;
    if (k_tiles == 0) return;
    const int block = (consumer * 4 + threadIdx.x / 32 % 4) * BLOCK_BYTES;
    Fragments left[2];
    s.full[ring.stage].wait(ring.phase);
    left[0].load(s.wide[ring.stage] + block);
    unsigned last = 0;
    for (unsigned i = 0; i < k_tiles; ++i) {
      const unsigned stage = ring.stage;
      const char *lines = s.wide[stage] + block;
      const auto right = descriptor(s.narrow[stage], BLOCK_BYTES);
      ++ring;
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        multiply(left[step % 2], moved(right, step * 32));
        wgmma_wait<
            1>(); // the step before is complete: its registers, at step 0 also its stage, are free
        if (step == 0 && i > 0) release(s.empty[last]);
        if (step < 3) {
          left[(step + 1) % 2].load(lines + (step + 1) * 1024);
        } else if (i + 1 < k_tiles) {
          s.full[ring.stage].wait(ring.phase);
          left[0].load(s.wide[ring.stage] + block);
        }
      }
      last = stage;
    }
    wgmma_wait<0>();
    pin(sums[0]);
    pin(sums[1]);
    release(s.empty[last]);
  }

  __device__ __forceinline__ void store(Shared &, const Output &c, const TensorMap &, bool,
                                        const Work::Place &at, int consumer) {
    const index_t wide = at.wide + consumer * 128 + threadIdx.x / 32 % 4 * 32;
    const index_t narrow = at.narrow + threadIdx.x % 4 * 2;
    const bool vectors = WIDE_IS_A ? c.takes<2>() : c.takes<4>();
#pragma unroll
    for (int j = 0; j < NARROW / 8; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if constexpr (WIDE_IS_A) {
          for (int half = 0; half < 2; ++half)
            c.store(wide + Fragments::row(i, half), narrow + j * 8,
                    {sums[i][j * 4 + half * 2], sums[i][j * 4 + half * 2 + 1]}, vectors);
        } else { // the sums are those of C transposed: 4 rows of it are 4 neighbours in a row of C
          c.store(narrow + j * 8 + i, wide + Fragments::row(0, 0),
                  {sums[0][j * 4 + i], sums[0][j * 4 + i + 2], sums[1][j * 4 + i],
                   sums[1][j * 4 + i + 2]},
                  vectors);
        }
      }
  }
};

template <bool> struct Pick {
  using Product = FromShared;
};
template <> struct Pick<true> {
  using Product = FromRegisters;
};
using Product = Pick<IN_REGISTERS>::Product;
#else
using Product = FromShared;
#endif

__device__ __forceinline__ void consume(Shared &s, Work work, const Problem &p,
                                        const TensorMap &c_map) {
  const int consumer = int(threadIdx.x) / 128 - 1;
  Ring ring;
  Product product;
#if defined(STORAGE_float32)
  constexpr bool boxes = false;
#else
  const bool boxes = takes_boxes(p);
#endif
  for (; work.more(); ++work) {
    const Work::Place at = work.place();
    product.run(s, ring, work.k_tiles, consumer);
    product.store(s, Output(p, at.batch), c_map, boxes, at, consumer);
  }
  if (STAGED && threadIdx.x % 128 == 0) wait_stores_done();
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
