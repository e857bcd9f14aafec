// The next tiles are on their way while these are multiplied: double buffering, a pipeline in software.
//
// In 05 a block waited for memory, computed, waited again. Here shared memory has room for STAGES pairs of
// tiles, and cp.async fills it without passing through registers: copies of one stage start before the
// multiplications of another, and are waited for after them. A third and fourth stage cover a latency that is
// longer than one stage takes to compute.
//
// /// kernel
// entry = "cp_async_gemm"
// op = "gemm"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// launcher = "grid2d"
// min_sm = 80
// teaches = "Copies that overlap with arithmetic, and a barrier less: wait, barrier, copy on, multiply."
//
// [[variant]]
// threads = [256, 1]
// tile = [128, 128, 8]
// shared_bytes = 33280
// defines = { STAGES = 2 }
//
// [[variant]]
// name = "multistage"
// threads = [256, 1]
// tile = [128, 128, 8]
// shared_bytes = 66560
// defines = { STAGES = 4 }
// ///
#include "async_tile.cuh"
#include "register_tile.cuh"

constexpr int ACROSS = 16; // threads along a row of the tile, and down a column
constexpr int STEP = ACROSS * VECTOR, LD = TILE_M + VECTOR;
constexpr int HALF = TILE_K * LD, STAGE = 2 * HALF; // A's tile, then B's
static_assert(TILE_M == TILE_N && TILE_M == 8 * ACROSS && THREADS == ACROSS * ACROSS,
              "8 x 8 sums a thread");
static_assert(STAGES * STAGE * sizeof(T) <= SHARED_BYTES, "the stages fit");

extern "C" __global__ void __launch_bounds__(THREADS) cp_async_gemm(const Problem p) {
  extern __shared__ int4 dynamic[];
  T *const shared = (T *)dynamic;

  const Tile tile = tile_of_block(p, TILE_M, TILE_N);
  const int row = threadIdx.x / ACROSS * VECTOR, col = threadIdx.x % ACROSS * VECTOR;
  const T *a = p.a.data + tile.batch * p.a.batch_stride;
  const T *b = p.b.data + tile.batch * p.b.batch_stride;
  AsyncTile<TILE_M, TILE_K, LD> a_tile(a, p.a.row_stride, p.a.col_stride, tile.row, p.m);
  AsyncTile<TILE_N, TILE_K, LD> b_tile(b, p.b.col_stride, p.b.row_stride, tile.col, p.n);
  const unsigned steps = unsigned((p.k + TILE_K - 1) / TILE_K);
  const int left_over = int(p.k - index_t(TILE_K) * (steps - 1));
  const auto copy = [&](unsigned step, int stage) { // always ends a group, though it may be empty
    if (step < steps) a_tile.copy_all(shared + stage * STAGE);
    if (step < steps) b_tile.copy_all(shared + stage * STAGE + HALF);
    cp_async_commit();
  };
  if (steps > 0) {
    a_tile.copy_first(shared, left_over, p.a.col_stride);
    b_tile.copy_first(shared + HALF, left_over, p.b.row_stride);
  }
  cp_async_commit();
  for (int stage = 1; stage < STAGES - 1; ++stage) copy(stage, stage);

  using Mine = RegisterTile<8, 8, STEP, STEP>;
  Mine mine;
  int reading = 0, writing = STAGES - 1;
  for (unsigned step = 0; step < steps; ++step) {
    cp_async_wait<STAGES - 2>();
    __syncthreads(); // this stage is there, what every thread copied of it; and the last one has been read
    copy(step + STAGES - 1, writing);
#pragma unroll
    for (int i = 0; i < TILE_K; ++i) {
      const T *part = shared + reading * STAGE + i * LD;
      Mine::Fragments fragments;
      fragments.read(part + row, part + HALF + col);
      mine.multiply(fragments);
    }
    writing = reading;
    reading = reading + 1 == STAGES ? 0 : reading + 1;
  }
  mine.store(p, p.c.data + tile.batch * p.c.batch_stride, tile.row + row, tile.col + col);
}
