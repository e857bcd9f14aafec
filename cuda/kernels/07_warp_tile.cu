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
// defines = { READ_AHEAD = 1, WARPS_M = 2, LANES_M = 8, STAGES = 4, BLOCKS = 1 }
//
// [[variant]]
// name = "deep"
// threads = [256, 1]
// tile = [128, 256, 16]
// shared_bytes = 99840
// defines = { READ_AHEAD = 1, WARPS_M = 2, LANES_M = 8, STAGES = 3, BLOCKS = 1 }
//
// [[variant]]
// name = "128"
// threads = [128, 1]
// tile = [128, 128, 8]
// shared_bytes = 50176
// defines = { READ_AHEAD = 1, WARPS_M = 2, LANES_M = 8, STAGES = 4, BLOCKS = 2 }
//
// [[variant]]
// name = "8x8"
// threads = [256, 1]
// tile = [128, 128, 8]
// shared_bytes = 50176
// defines = { READ_AHEAD = 1, WARPS_M = 4, LANES_M = 4, STAGES = 4, BLOCKS = 2 }
//
// [[variant]]
// name = "64"
// threads = [128, 1]
// tile = [64, 64, 8]
// shared_bytes = 34816
// defines = { READ_AHEAD = 1, WARPS_M = 2, LANES_M = 8, STAGES = 4, BLOCKS = 4 }
//
// [[variant]]
// name = "lazy"
// threads = [256, 1]
// tile = [128, 256, 8]
// shared_bytes = 66560
// defines = { READ_AHEAD = 0, WARPS_M = 2, LANES_M = 8, STAGES = 4, BLOCKS = 1 }
//
// [[variant]]
// name = "128lazy"
// threads = [128, 1]
// tile = [128, 128, 8]
// shared_bytes = 50176
// defines = { READ_AHEAD = 0, WARPS_M = 2, LANES_M = 8, STAGES = 4, BLOCKS = 2 }
//
// [[variant]]
// name = "8x8lazy"
// threads = [256, 1]
// tile = [128, 128, 8]
// shared_bytes = 50176
// defines = { READ_AHEAD = 0, WARPS_M = 4, LANES_M = 4, STAGES = 4, BLOCKS = 2 }
// ///
#include "async_tile.cuh"
#include "epilogue.cuh"

// Sums of 8 x 16 doubles do not fit in the registers: the columns of such a tile are taken in two passes.
constexpr int PASSES = sizeof(T) == 8 ? 2 : 1, PASS_N = TILE_N / PASSES;
constexpr int AHEAD = sizeof(T) == 8 ? 0 : READ_AHEAD;
constexpr int WARPS_N = THREADS / 32 / WARPS_M, LANES_N = 32 / LANES_M;
constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = PASS_N / WARPS_N;       // warp tile
constexpr int THREAD_M = WARP_M / LANES_M, THREAD_N = WARP_N / LANES_N;   // thread tile
constexpr int STEP_M = LANES_M * VECTOR, STEP_N = LANES_N * VECTOR;       // between a thread's vectors
// Four banks more than a multiple of 32: entries of 8 neighbouring k are written to different banks.
constexpr int LD_A = TILE_M + VECTOR, LD_B = PASS_N + VECTOR;
constexpr int STAGE = TILE_K * (LD_A + LD_B);
using ATile = AsyncTile<TILE_M, TILE_K, LD_A>;
using BTile = AsyncTile<PASS_N, TILE_K, LD_B>;
static_assert(THREAD_M % VECTOR == 0 && THREAD_N % VECTOR == 0, "threads read whole vectors");
static_assert(STAGES * STAGE * sizeof(T) <= SHARED_BYTES, "the stages fit");

// A thread's entries of one k.
struct Fragments {
  Acc a[THREAD_M], b[THREAD_N];

  __device__ __forceinline__ void read(const T *a_part, const T *b_part, int k) {
    read_vectors<THREAD_M, STEP_M>(a, a_part + k * LD_A);
    read_vectors<THREAD_N, STEP_N>(b, b_part + k * LD_B);
  }
};

__device__ __forceinline__ void multiply(Acc (&sums)[THREAD_M][THREAD_N], const Fragments &f) {
#pragma unroll
  for (int i = 0; i < THREAD_M; ++i)
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) sums[i][j] += f.a[i] * f.b[j];
}

// Where a thread's first vectors lie in the block's tile. Of the lane's bits, the lowest chooses a column
// and the next a row: of any four lanes two read the same vector of A and two the same of B, and the
// hardware then serves a read of 16 bytes per lane in two passes over the banks in place of four.
struct Position {
  int row, col;

  __device__ __forceinline__ Position() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int lane_row = (lane >> 1 & 1) | (lane >> 2 & 2) | (LANES_M == 8 ? lane >> 2 & 4 : 0);
    const int lane_col = (lane & 1) | (lane >> 1 & 2) | (LANES_N == 8 ? lane >> 2 & 4 : 0);
    row = warp / WARPS_N * WARP_M + lane_row * VECTOR;
    col = warp % WARPS_N * WARP_N + lane_col * VECTOR;
  }
};

__device__ __forceinline__ void store_tile(const Problem &p, T *c, index_t row, index_t col,
                                           const Acc (&sums)[THREAD_M][THREAD_N]) {
  const bool vectors = c_takes_vectors(p, c);
#pragma unroll
  for (int i = 0; i < THREAD_M; ++i) {
    const index_t at = row + i / VECTOR * STEP_M + i % VECTOR;
    if (at >= p.m) return;
#pragma unroll
    for (int j = 0; j < THREAD_N; j += VECTOR) {
      const index_t first = col + j / VECTOR * STEP_N;
      T *to = c + at * p.c.row_stride + first * p.c.col_stride;
      store_vector(p, to, p.n - first, vectors, sums[i], j);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) warp_tile(const Problem p) {
  extern __shared__ int4 dynamic[];
  T *const shared = (T *)dynamic;
  const Tile tile = tile_of_block(p, TILE_M, TILE_N);
  const T *a = p.a.data + tile.batch * p.a.batch_stride;
  const T *b = p.b.data + tile.batch * p.b.batch_stride;
  T *c = p.c.data + tile.batch * p.c.batch_stride;
  const Position at;

  for (int pass = 0; pass < PASSES; ++pass) {
    const index_t row = tile.row, col = tile.col + pass * PASS_N;
    if (col >= p.n) return; // the whole block leaves
    ATile a_tile(a, p.a.row_stride, p.a.col_stride, row, p.m);
    BTile b_tile(b, p.b.col_stride, p.b.row_stride, col, p.n);
    for (int stage = 0; stage < STAGES - 1; ++stage) {
      a_tile.copy(shared + stage * STAGE, p.k - stage * TILE_K);
      b_tile.copy(shared + stage * STAGE + TILE_K * LD_A, p.k - stage * TILE_K);
      cp_async_commit();
    }
    cp_async_wait<STAGES - 2>();
    __syncthreads(); // the first stage is there

    // A warp whose tile lies outside C takes part in copies and barriers alone.
    const bool busy = row + at.row / WARP_M * WARP_M < p.m && col + at.col / WARP_N * WARP_N < p.n;
    Acc sums[THREAD_M][THREAD_N] = {};
    Fragments fragments[2];
    int reading = 0, writing = STAGES - 1;
    const T *a_part = shared + at.row, *b_part = shared + TILE_K * LD_A + at.col;
    if (AHEAD) fragments[0].read(a_part, b_part, 0);

    for (index_t k = 0; k < p.k; k += TILE_K) {
      const index_t left = p.k - k - (STAGES - 1) * TILE_K;
      a_tile.copy(shared + writing * STAGE, left);
      b_tile.copy(shared + writing * STAGE + TILE_K * LD_A, left);
      cp_async_commit();
      if (busy) {
#pragma unroll
        for (int i = 0; i < TILE_K - AHEAD; ++i) {
          fragments[(i + AHEAD) % 2].read(a_part, b_part, i + AHEAD);
          multiply(sums, fragments[i % 2]);
        }
      }
      cp_async_wait<STAGES - 2>();
      __syncthreads(); // the next stage is there, and nobody reads this one any more
      writing = reading;
      reading = reading + 1 == STAGES ? 0 : reading + 1;
      a_part = shared + reading * STAGE + at.row;
      b_part = shared + reading * STAGE + TILE_K * LD_A + at.col;
      if (AHEAD && busy) {
        fragments[0].read(a_part, b_part, 0);
        multiply(sums, fragments[1]);
      }
    }
    cp_async_wait<0>(); // what is still on its way must not arrive in the next pass
    __syncthreads();
    store_tile(p, c, row + at.row, col + at.col, sums);
  }
}
