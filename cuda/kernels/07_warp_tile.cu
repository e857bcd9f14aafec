// Three tiles inside one another: the block's, each warp's, each thread's. What the inner loop reads from
// shared memory comes without bank conflicts and one step ahead of the arithmetic.
//
// An SM of Hopper issues four instructions per cycle, and four FFMA per cycle are its peak: whatever else is
// issued, is taken from them. A thread tile of 8 x 16 needs 6 reads of 16 bytes for 128 FFMA.
//
// /// kernel
// entry = "warp_tile"
// op = "gemm"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// launcher = "grid2d"
// min_sm = 80
// teaches = "Issue slots: everything that is not an FFMA costs one, so make it rare."
//
// [[variant]]
// threads = [256, 1]
// tile = [128, 256, 8]
// shared_bytes = 66560
// defines = { WARPS_M = 2, LANES_M = 4, READ_AHEAD = 1, STAGES = 4, BLOCKS = 1, SNAKE = 1, SPREAD = 4, IDLE = 1, SLICES = 1 }
//
// [[variant]]
// name = "straight"
// threads = [256, 1]
// tile = [128, 256, 8]
// shared_bytes = 66560
// defines = { WARPS_M = 2, LANES_M = 8, READ_AHEAD = 1, STAGES = 4, BLOCKS = 1, SNAKE = 0, SPREAD = 4, IDLE = 1, SLICES = 1 }
//
// [[variant]]
// name = "8x16"
// threads = [256, 1]
// tile = [128, 256, 8]
// shared_bytes = 66560
// defines = { WARPS_M = 2, LANES_M = 8, READ_AHEAD = 1, STAGES = 4, BLOCKS = 1, SNAKE = 1, SPREAD = 4, IDLE = 1, SLICES = 1 }
//
// [[variant]]
// name = "deep"
// threads = [256, 1]
// tile = [128, 256, 16]
// shared_bytes = 99840
// defines = { WARPS_M = 2, LANES_M = 8, READ_AHEAD = 1, STAGES = 3, BLOCKS = 1, SNAKE = 1, SPREAD = 8, IDLE = 1, SLICES = 1 }
//
// [[variant]]
// name = "deep16x8"
// threads = [256, 1]
// tile = [128, 256, 16]
// shared_bytes = 99840
// defines = { WARPS_M = 2, LANES_M = 4, READ_AHEAD = 1, STAGES = 3, BLOCKS = 1, SNAKE = 1, SPREAD = 8, IDLE = 1, SLICES = 1 }
//
// [[variant]]
// name = "early"
// threads = [256, 1]
// tile = [128, 256, 8]
// shared_bytes = 66560
// defines = { WARPS_M = 2, LANES_M = 4, READ_AHEAD = 1, STAGES = 4, BLOCKS = 1, SNAKE = 1, SPREAD = 1, IDLE = 1, SLICES = 1 }
//
// [[variant]]
// name = "noidle"
// threads = [256, 1]
// tile = [128, 256, 8]
// shared_bytes = 66560
// defines = { WARPS_M = 2, LANES_M = 4, READ_AHEAD = 1, STAGES = 4, BLOCKS = 1, SNAKE = 1, SPREAD = 4, IDLE = 0, SLICES = 1 }
//
// [[variant]]
// name = "noidle8x16"
// threads = [256, 1]
// tile = [128, 256, 8]
// shared_bytes = 66560
// defines = { WARPS_M = 2, LANES_M = 8, READ_AHEAD = 1, STAGES = 4, BLOCKS = 1, SNAKE = 1, SPREAD = 4, IDLE = 0, SLICES = 1 }
//
// [[variant]]
// name = "lazy"
// threads = [256, 1]
// tile = [128, 256, 8]
// shared_bytes = 66560
// defines = { WARPS_M = 2, LANES_M = 4, READ_AHEAD = 0, STAGES = 4, BLOCKS = 1, SNAKE = 1, SPREAD = 4, IDLE = 1, SLICES = 1 }
//
// [[variant]]
// name = "128"
// threads = [128, 1]
// tile = [128, 128, 8]
// shared_bytes = 66560
// defines = { WARPS_M = 2, LANES_M = 4, READ_AHEAD = 1, STAGES = 4, BLOCKS = 2, SNAKE = 1, SPREAD = 4, IDLE = 1, SLICES = 1 }
//
// [[variant]]
// name = "256x128"
// threads = [256, 1]
// tile = [256, 128, 8]
// shared_bytes = 82944
// defines = { WARPS_M = 4, LANES_M = 4, READ_AHEAD = 1, STAGES = 4, BLOCKS = 1, SNAKE = 1, SPREAD = 4, IDLE = 1, SLICES = 1 }
//
// [[variant]]
// name = "64"
// threads = [128, 1]
// tile = [64, 64, 8]
// shared_bytes = 34816
// defines = { WARPS_M = 2, LANES_M = 8, READ_AHEAD = 1, STAGES = 4, BLOCKS = 3, SNAKE = 1, SPREAD = 4, IDLE = 1, SLICES = 1 }
//
// [[variant]]
// name = "sliced"
// threads = [256, 1]
// tile = [128, 64, 16]
// shared_bytes = 83968
// defines = { WARPS_M = 2, LANES_M = 8, READ_AHEAD = 1, STAGES = 4, BLOCKS = 1, SNAKE = 1, SPREAD = 4, IDLE = 1, SLICES = 2 }
//
// [[variant]]
// name = "sliced64"
// threads = [128, 1]
// tile = [64, 64, 16]
// shared_bytes = 69632
// defines = { WARPS_M = 1, LANES_M = 8, READ_AHEAD = 1, STAGES = 4, BLOCKS = 2, SNAKE = 1, SPREAD = 4, IDLE = 1, SLICES = 2 }
// ///
#include "async_tile.cuh"
#include "register_tile.cuh"

// Sums of 8 x 16 doubles do not fit in the registers: the columns of such a tile are taken in two passes.
constexpr int PASSES = sizeof(T) == 8 ? 2 : 1, PASS_N = TILE_N / PASSES;
constexpr int AHEAD = sizeof(T) == 8 ? 0 : READ_AHEAD;
constexpr int WARPS_N = THREADS / 32 / WARPS_M / SLICES, SLICE_K = TILE_K / SLICES,
              LANES_N = 32 / LANES_M;
constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = PASS_N / WARPS_N;     // warp tile
constexpr int THREAD_M = WARP_M / LANES_M, THREAD_N = WARP_N / LANES_N; // thread tile
constexpr int STEP_M = LANES_M * VECTOR, STEP_N = LANES_N * VECTOR; // between a thread's vectors
// Four banks more than a multiple of 32: entries of 8 neighbouring k are written to different banks.
constexpr int LD_A = TILE_M + VECTOR, LD_B = PASS_N + VECTOR;
constexpr int A_STAGE = TILE_K * LD_A, STAGE = A_STAGE + TILE_K * LD_B;
using ATile = AsyncTile<TILE_M, TILE_K, LD_A>;
using BTile = AsyncTile<PASS_N, TILE_K, LD_B>;
using Mine = RegisterTile<THREAD_M, THREAD_N, STEP_M, STEP_N>;
static_assert(STAGES * STAGE * sizeof(T) <= SHARED_BYTES, "the stages fit");

// Where a thread's first vectors lie in the block's tile. Of the lane's bits, the lowest chooses a column
// and the next a row: of any four lanes two read the same vector of A and two the same of B, and the
// hardware then serves a read of 16 bytes per lane in two passes over the banks in place of four.
struct Position {
  int row, col, slice;

  __device__ __forceinline__ Position() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int lane_row = (lane >> 1 & 1) | (lane >> 2 & LANES_M - 2);
    const int lane_col = (lane & 1) | (lane >> 1 & 2) | (LANES_N == 8 ? lane >> 2 & 4 : 0);
    slice = warp / (WARPS_M * WARPS_N);
    row = warp / WARPS_N % WARPS_M * WARP_M + lane_row * VECTOR;
    col = warp % WARPS_N * WARP_N + lane_col * VECTOR;
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

// A thread's copies are spread over the first steps of a stage.
template <int ENTRIES, class AnyTile>
__device__ __forceinline__ void copy_some(AnyTile &tile, T *stage, int step) {
  constexpr int EACH = (ENTRIES + SPREAD - 1) / SPREAD;
#pragma unroll
  for (int e = step * EACH; e < step * EACH + EACH && e < ENTRIES; ++e) tile.copy(stage, e);
}

// Adds the sums of all slices to those of the first.
__device__ __forceinline__ void add_slices(Mine &mine, T *shared, int slice) {
  constexpr int GROUP = THREADS / SLICES;
  static_assert(SLICES == 1 || TILE_M * PASS_N * sizeof(T) <= SHARED_BYTES,
                "sums fit where stages were");
  T *const place = shared + threadIdx.x % GROUP;
#pragma unroll
  for (int s = 1; s < SLICES; ++s) {
    __syncthreads(); // nobody needs what is there
#pragma unroll
    for (int e = 0; slice == s && e < THREAD_M * THREAD_N; ++e)
      place[e * GROUP] = mine.sums[e / THREAD_N][e % THREAD_N];
    __syncthreads(); // the sums of this slice are there
#pragma unroll
    for (int e = 0; slice == 0 && e < THREAD_M * THREAD_N; ++e)
      mine.sums[e / THREAD_N][e % THREAD_N] += place[e * GROUP];
  }
}

// Computes the part of C from (row, col) on.
__device__ __forceinline__ void compute(const Problem &p, T *shared, index_t row, index_t col,
                                        index_t batch) {
  const Position at;
  const T *a = p.a.data + batch * p.a.batch_stride, *b = p.b.data + batch * p.b.batch_stride;
  ATile a_tile(a, p.a.row_stride, p.a.col_stride, row, p.m);
  BTile b_tile(b, p.b.col_stride, p.b.row_stride, col, p.n);
  const unsigned steps = unsigned((p.k + TILE_K - 1) / TILE_K);
  const int left_over = int(p.k - index_t(TILE_K) * (steps - 1));
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    if (stage == 0 && steps > 0) {
      a_tile.copy_first(shared, left_over, p.a.col_stride);
      b_tile.copy_first(shared + A_STAGE, left_over, p.b.row_stride);
    } else if (stage < steps) {
      a_tile.copy_all(shared + stage * STAGE);
      b_tile.copy_all(shared + stage * STAGE + A_STAGE);
    }
    cp_async_commit();
  }
  cp_async_wait<STAGES - 2>();
  __syncthreads(); // the first stage is there

  // A warp whose tile lies outside C takes part in copies and barriers alone.
  const bool busy =
      !IDLE || (row + at.row / WARP_M * WARP_M < p.m && col + at.col / WARP_N * WARP_N < p.n);
  Mine mine;
  Mine::Fragments fragments[2];
  int reading = 0, writing = (STAGES - 1) * STAGE;
  const T *const my_a = shared + at.slice * SLICE_K * LD_A + at.row;
  const T *const my_b = shared + at.slice * SLICE_K * LD_B + at.col + A_STAGE;
  if (AHEAD) fragments[0].read(my_a, my_b);

  for (unsigned step = 0; step < steps; ++step) {
    if (step + STAGES - 1 >= steps) a_tile.inside = b_tile.inside = 0; // no more stages to copy
    if (busy) {
#pragma unroll
      for (int i = 0; i < SLICE_K - AHEAD; ++i) {
        const int next = i + AHEAD;
        fragments[next % 2].read(my_a + reading + next * LD_A, my_b + reading + next * LD_B);
        copy_some<ATile::ENTRIES>(a_tile, shared + writing, i);
        copy_some<BTile::ENTRIES>(b_tile, shared + writing + A_STAGE, i);
        mine.multiply(fragments[i % 2]);
      }
    } else {
      a_tile.copy_all(shared + writing);
      b_tile.copy_all(shared + writing + A_STAGE);
    }
    cp_async_commit();
    cp_async_wait<STAGES - 2>();
    __syncthreads(); // the next stage is there, and nobody reads this one any more
    writing = reading;
    reading = reading + STAGE == STAGES * STAGE ? 0 : reading + STAGE;
    if (AHEAD && busy) {
      fragments[0].read(my_a + reading, my_b + reading);
      mine.multiply(fragments[1]);
    }
  }
  add_slices(mine, shared, at.slice);
  T *const c = p.c.data + batch * p.c.batch_stride;
  if (at.slice == 0) mine.store(p, c, row + at.row, col + at.col);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) warp_tile(const Problem p) {
  extern __shared__ int4 dynamic[];
  const Tile tile = edges_last(p);
#pragma unroll 1
  for (int pass = 0; pass < PASSES; ++pass) {
    const index_t col = tile.col + pass * PASS_N;
    if (col >= p.n) break;
    if (pass > 0) __syncthreads(); // the sums of slices have been read
    compute(p, (T *)dynamic, tile.row, col, tile.batch);
  }
}
