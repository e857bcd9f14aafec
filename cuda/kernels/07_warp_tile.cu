// Three tiles inside one another: the block's, each warp's, each thread's. An SM of Hopper issues four
// instructions per cycle, and four FFMA per cycle are its peak: whatever else is issued is taken from them, and
// so is every cycle in which nothing can be. That is what all of the following is for.
//
// - A thread computes 16 x 8 sums: 6 reads of 16 bytes for 128 FFMA. The lanes of a warp are laid out so that
//   such a read takes two passes over the banks, not four. It is made one step ahead of its use.
// - Copies are spread over the steps of a stage. The loop has no branch: the compiler moves multiply-adds over
//   the barrier, and nothing waits for it.
// - Neighbouring FFMA share a factor, which need not be read from the register banks again. Out of registers
//   alone, 16 x 8 sums grew at 65 TFLOP/s like that on an H200, and at 59 with every row in the same direction.
// - Tiles that C's edges cut off come last, and narrow ones are computed by all warps of the block together.
// - "sliced" is for small matrices: four parts of the block divide K between them, and add up at the end.
//
// - No FFMA of the loop has its three operands in one register bank. The epilogue has a say in that: when it
//   wrote the sums themselves as vectors, which wants them in neighbouring registers, 74 of 1024 did, and 4096
//   fell from 50.8 to 48.8 TFLOP/s. It writes them times alpha: other registers.
// - Entries beside C's edges are not branched around: with a branch for each, storing 2047 x 2047 cost 5.7 us
//   more than 2048 x 2048; without, 1.3 us.
//
// On an H200, in fp32 and the ladder's rounds: 51.3 TFLOP/s at 4096 and 47.8 at 4097, cuBLAS 51.0 and 43.9; sliced
// 43.2 at 1024, cuBLAS 38.2. A form with a branch in the loop, for warps outside C, had 47.0 at 4096.
//
// /// kernel
// entry = "warp_tile"
// op = "gemm"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// launcher = "grid2d"
// by_layout = true
// min_sm = 80
// teaches = "Issue slots: everything that is not an FFMA costs one, so make it rare."
//
// [[variant]]
// threads = [256, 1]
// tile = [128, 256, 8]
// shared_bytes = 69632
// defines = { WARPS_M = 2, LANES = 4, STAGES = 4, SLICES = 1, STEPS = 4 }
//
// [[variant]]
// name = "sliced"
// threads = [256, 1]
// tile = [64, 128, 32]
// shared_bytes = 83968
// defines = { WARPS_M = 1, LANES = 4, STAGES = 3, SLICES = 4, STEPS = 4 }
// ///
#include "layout.cuh"
#include "pipeline.cuh"
#include "slab_epilogue.cuh"

// Sums of 16 x 8 doubles do not fit in the registers: the columns of a tile are then taken in two passes.
constexpr int PASSES = sizeof(T) == 8 ? 2 : 1, PASS_N = TILE_N / PASSES;
constexpr int LANES_M = sizeof(T) == 8 ? 8 : LANES, LANES_N = 32 / LANES_M; // a warp's lanes
constexpr int WARPS = THREADS / 32 / SLICES;                                // of a slice of K
constexpr int SLICE_K = TILE_K / SLICES;
constexpr int STEP_M = LANES_M * VECTOR, STEP_N = LANES_N * VECTOR; // between a thread's vectors
constexpr bool AHEAD = sizeof(T) == 4; // read one step ahead: doubles are slow, and registers short
constexpr int UNROLL =
    AHEAD ? SLICE_K : 2; // with doubles, the whole of a stage wants too many registers
constexpr int NARROW_M = TILE_M / 4, NARROW_N = TILE_N / 4 < STEP_N ? STEP_N : TILE_N / 4;
static_assert(SLICE_K % 2 == 0, "steps take turns with two sets of fragments");
static_assert(STEPS <= SLICE_K - AHEAD, "all copies of a stage are made");

// Of the lane's bits, the lowest chooses a column and the next a row: of any four lanes two read the same
// vector of A and two the same of B. Then the hardware serves 16 lanes in one pass over the banks.
__device__ __forceinline__ int lane_row() {
  const int lane = threadIdx.x % 32;
  return (lane >> 1 & 1) | (lane >> 2 & (LANES_M - 2));
}
__device__ __forceinline__ int lane_col() {
  const int lane = threadIdx.x % 32;
  return (lane & 1) | (lane >> 1 & 2) | (LANES_N == 8 ? lane >> 2 & 4 : 0);
}

// A block's work on BM x BN entries of C, with its warps in WM rows.
template <int BM, int BN, int WM> struct Block {
  static constexpr int WN = WARPS / WM, WARP_M = BM / WM, WARP_N = BN / WN; // warp tile
  // Four banks more than a multiple of 32: entries of 8 neighbouring k are written to different banks.
  using ATile = AsyncTile<BM, TILE_K, BM + VECTOR, !A_K_INNER>;
  using BTile = AsyncTile<BN, TILE_K, BN + VECTOR, !B_K_INNER>;
  static constexpr int FIT = SHARED_BYTES / int(sizeof(T)) / (ATile::STAGE + BTile::STAGE);
  static constexpr int COUNT = FIT < STAGES ? FIT : STAGES;
  using Stages = Pipeline<COUNT, ATile, BTile>;
  static constexpr int M = WARP_M / LANES_M, N = WARP_N / LANES_N; // thread tile
  using Mine = RegisterTile<M, N, STEP_M, STEP_N>;

  // Step `step` of a stage has its share of a thread's copies; they are done after STEPS steps.
  template <class AnyTile>
  static __device__ __forceinline__ void copy_some(AnyTile &tile, T *stage, int step) {
    constexpr int EACH = (AnyTile::ENTRIES + STEPS - 1) / STEPS;
#pragma unroll
    for (int e = step * EACH; e < step * EACH + EACH && e < AnyTile::ENTRIES; ++e)
      tile.copy(stage, e);
  }

  // Adds up all that the pipeline, which has been started, brings. my_a, my_b: where the thread's entries of the
  // first k lie in the first stage.
  static __device__ __forceinline__ void multiply(Mine &mine, Stages &pipe, const T *my_a,
                                                  const T *my_b) {
    cp_async_wait<COUNT - 2>();
    __syncthreads(); // the first stage is there
    typename Mine::Fragments fragments[2];
    int reading = 0;
    const T *read_a = my_a, *read_b = my_b;
    T *write = pipe.shared + (COUNT - 1) * Stages::STAGE;
    if (AHEAD) fragments[0].read(read_a, read_b);
    for (unsigned step = 0; step < pipe.steps; ++step) {
      if (step + COUNT - 1 >= pipe.steps) pipe.a.inside = pipe.b.inside = 0; // no more to copy
#pragma unroll UNROLL
      for (int i = 0; i < SLICE_K - AHEAD; ++i) {
        const int next = i + AHEAD;
        fragments[next % 2].read(read_a + next * ATile::PITCH, read_b + next * BTile::PITCH);
        copy_some(pipe.a, write, i);
        copy_some(pipe.b, write + Stages::OF_A, i);
        mine.template multiply<true>(fragments[i % 2]);
      }
      cp_async_commit();
      cp_async_wait<COUNT - 2>();
      __syncthreads(); // the next stage is there, and nobody reads this one any more
      write = pipe.shared + reading;
      reading = reading + Stages::STAGE == COUNT * Stages::STAGE ? 0 : reading + Stages::STAGE;
      read_a = my_a + reading, read_b = my_b + reading;
      if (AHEAD) fragments[0].read(read_a, read_b);
      if (AHEAD) mine.template multiply<true>(fragments[1]);
    }
  }

  // Stores a tile that lies inside C and on 16 bytes, straight from the registers: whole lines, too.
  static __device__ __forceinline__ void store_whole(const Problem &p, T *c, const Mine &mine) {
#pragma unroll
    for (int i = 0; i < M; ++i)
#pragma unroll
      for (int j = 0; j < N; j += VECTOR) {
        const int row = i / VECTOR * STEP_M + i % VECTOR, col = j / VECTOR * STEP_N;
        store_vector(p, c + row * p.c.row_stride + col, VECTOR, true, mine.sums[i], j);
      }
  }

  // Stores any tile, by way of shared memory. A thread's entries are 4 apart from its neighbour's; written one
  // by one, each would cost a sector of 32 bytes: so warps bring rows into order, and write whole lines. Each
  // slice of K has its own slab there, and adds up and stores its share of the rows.
  static constexpr int GROUPS = M / VECTOR, LD = WARP_N + VECTOR, GROUP = STEP_M * LD;
  static constexpr int ROOM = SHARED_BYTES / (GROUP * WARPS * SLICES * int(sizeof(T)));
  static constexpr int ROUND = ROOM >= GROUPS ? GROUPS : ROOM >= GROUPS / 2 ? GROUPS / 2 : 1;
  static constexpr int SLAB = ROUND * GROUP, SHARE = ROUND * STEP_M / SLICES;
  static_assert(ROOM >= ROUND && GROUPS % ROUND == 0, "slabs fit where the stages were");

  static __device__ __forceinline__ void meet() { // who shares slabs: the slices, or else the warp
    if (SLICES > 1) __syncthreads();
    if (SLICES == 1) __syncwarp();
  }

  // Times alpha, so that it is not the sums themselves that are written: a vector wants neighbouring registers,
  // and the loop's sums had better lie where the compiler finds the banks of their factors free.
  static __device__ __forceinline__ void write_group(const Mine &mine, T alpha, T *slab,
                                                     int group) {
    slab += lane_row() * VECTOR * LD + lane_col() * VECTOR;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i)
#pragma unroll
      for (int j = 0; j < N; j += VECTOR) {
        Vector out;
#pragma unroll
        for (int e = 0; e < VECTOR; ++e) out.at[e] = alpha * mine.sums[group * VECTOR + i][j + e];
        *(Vector *)(slab + i * LD + j / VECTOR * STEP_N) = out;
      }
  }

  static __device__ __forceinline__ void store_by_rows(const Problem &p, T *shared, index_t row,
                                                       index_t col, index_t batch,
                                                       const Mine &mine) {
    const int warp = threadIdx.x / 32 % WARPS, slice = threadIdx.x / 32 / WARPS;
    T *const slab = shared + warp * SLAB;
    Problem rest = p; // what is left to do with sums that have been multiplied by alpha
    rest.alpha = 1;
    const Slab<SHARE, WARP_N, LD, SLICES> share{slab + slice * SHARE * LD, WARPS * SLAB};
#pragma unroll
    for (int group = 0; group < GROUPS; group += ROUND) {
#pragma unroll
      for (int i = 0; i < ROUND; ++i)
        write_group(mine, T(p.alpha), slab + slice * WARPS * SLAB + i * GROUP, group + i);
      meet(); // the slabs are there
      store_slab<sizeof(T) == 8 ? 4 : 8>(rest, share, row + group * STEP_M + slice * SHARE, col,
                                         batch, [](int r) { return r; });
      if (group + ROUND < GROUPS) meet(); // they have been read
    }
  }

  static __device__ __forceinline__ void compute(const Problem &p, T *shared, index_t row,
                                                 index_t col, index_t batch) {
    const int warp = threadIdx.x / 32 % WARPS, slice = threadIdx.x / 32 / WARPS;
    const int warp_row = warp / WN * WARP_M, warp_col = warp % WN * WARP_N;
    const int my_row = warp_row + lane_row() * VECTOR, my_col = warp_col + lane_col() * VECTOR;
    const T *a = p.a.data + batch * p.a.batch_stride, *b = p.b.data + batch * p.b.batch_stride;
    Stages pipe{
        shared,
        {a, A_K_INNER ? p.a.row_stride : 1, A_K_INNER ? 1 : p.a.col_stride, row, p.m},
        {b, B_K_INNER ? p.b.col_stride : 1, B_K_INNER ? 1 : p.b.row_stride, col, p.n},
    };
    pipe.start(p.k);
    Mine mine;
    const T *const my_k = shared + slice * SLICE_K * ATile::PITCH;
    multiply(mine, pipe, my_k + my_row,
             shared + Stages::OF_A + slice * SLICE_K * BTile::PITCH + my_col);
    T *const c = p.c.data + batch * p.c.batch_stride;
    if (SLICES == 1 && c_takes_vectors(p, c) && row + BM <= p.m && col + BN <= p.n) {
      store_whole(p, c + (row + my_row) * p.c.row_stride + col + my_col, mine);
    } else {
      __syncthreads(); // nobody reads ahead any more where slabs go
      store_by_rows(p, shared, row + warp_row, col + warp_col, batch, mine);
    }
  }
};

// Tiles that are cut off by C's edges come last: they take less time, and fill the gaps at the end.
__device__ __forceinline__ Tile edges_last(const Problem &p) {
  const unsigned rows = unsigned((p.m + TILE_M - 1) / TILE_M), whole_rows = unsigned(p.m / TILE_M);
  const unsigned columns = unsigned((p.n + TILE_N - 1) / TILE_N);
  const unsigned whole_columns = unsigned(p.n / TILE_N), whole = whole_rows * whole_columns;
  const unsigned batch = blockIdx.x / (rows * columns);
  unsigned at = blockIdx.x - batch * rows * columns, row, column;
  if (at < whole) {
    row = at / whole_columns, column = at % whole_columns;
  } else if (at -= whole; whole_columns < columns && at < rows) {
    row = at, column = whole_columns;
  } else {
    row = whole_rows, column = at - (columns - whole_columns) * rows;
  }
  return {index_t(row) * TILE_M, index_t(column) * TILE_N, index_t(batch)};
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) warp_tile(const Problem p) {
  extern __shared__ int4 dynamic[];
  T *const shared = (T *)dynamic;
  const Tile tile = edges_last(p);
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass) {
    const index_t col = tile.col + pass * PASS_N;
    if (col >= p.n) break;
    if (pass > 0) __syncthreads(); // nobody reads sums from where the next stages go
    if (p.n - col <= NARROW_N)
      Block<TILE_M, NARROW_N, WARPS>::compute(p, shared, tile.row, col, tile.batch);
    else if (p.m - tile.row <= NARROW_M)
      Block<NARROW_M, PASS_N, 1>::compute(p, shared, tile.row, col, tile.batch);
    else
      Block<TILE_M, PASS_N, WARPS_M>::compute(p, shared, tile.row, col, tile.batch);
  }
}
