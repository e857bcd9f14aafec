// Tall A times a skinny B of N = 1 ... 256 columns, as when a model decodes for N users: A is read once, from
// device memory, and everything else is arranged so that nothing slower than that stands in the way.
//
// Of 2 M N K operations on M K entries of A (B and C are small) each byte of A takes part in N / 2 in float32.
// Below the ridge, where N / 2 is less than operations per byte of the GPU (15 on an H200: N = 31), the time is
// that of reading A, whatever N: the first columns are free. Above it the time grows with N.
//
// Rows of 256 bytes a stage, and as wide a tile as B: measured on an H200 at 8192 x 8192, N = 1 to 8 take 83 us
// (3.2 TB/s), 16 take 93, 32 take 161, 128 take 465. cuBLAS: 90 to 245, 137, 137, 345.
//
// /// kernel
// entry = "skinny"
// op = "gemm"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// launcher = "split_k"
// min_sm = 80
// teaches = "Below the ridge further columns cost nothing; the tile is as wide as B, so that A is read once."
//
// [[variant]]
// threads = [128, 1]
// tile = [64, 8, 64]
// shared_bytes = 81920
// defines = { ROWS = 8, COLUMNS = 8, BLOCKS_PER_SM = 2 }
//
// [[variant]]
// name = "16"
// threads = [128, 1]
// tile = [64, 16, 64]
// shared_bytes = 98304
// defines = { ROWS = 8, COLUMNS = 8, BLOCKS_PER_SM = 2 }
//
// [[variant]]
// name = "32"
// threads = [256, 1]
// tile = [128, 32, 32]
// shared_bytes = 98304
// defines = { ROWS = 8, COLUMNS = 8, BLOCKS_PER_SM = 2 }
//
// [[variant]]
// name = "64"
// threads = [256, 1]
// tile = [128, 64, 16]
// shared_bytes = 81920
// defines = { ROWS = 8, COLUMNS = 8, BLOCKS_PER_SM = 2 }
//
// [[variant]]
// name = "128"
// threads = [256, 1]
// tile = [128, 128, 16]
// shared_bytes = 81920
// defines = { ROWS = 8, COLUMNS = 8, BLOCKS_PER_SM = 1 }
// ///
#include "copy_tile.cuh"
#include "epilogue.cuh"
#include "split.cuh"

constexpr int DOWN = TILE_M / ROWS,
              ACROSS = TILE_N / COLUMNS;                    // threads of a team: it covers the tile
constexpr int TEAM = DOWN * ACROSS, TEAMS = THREADS / TEAM; // teams share the k of a stage
constexpr int LD_A = TILE_K + VECTOR, LD_B = TILE_N + VECTOR;
constexpr int OF_A = TILE_M * LD_A, STAGE = OF_A + TILE_K * LD_B;
constexpr int STAGES = SHARED_BYTES / (STAGE * sizeof(T)); // as many as there is room for
static_assert(TEAM * TEAMS == THREADS && (TEAMS & (TEAMS - 1)) == 0, "1, 2, 4, ... teams");
static_assert(TILE_K % (TEAMS * VECTOR) == 0, "every team multiplies whole vectors along K");
static_assert(STAGES >= 2, "one stage is multiplied while another one arrives");
static_assert(TEAMS == 1 || THREADS / 2 * ROWS * COLUMNS * sizeof(Acc) <= SHARED_BYTES,
              "half of the teams can leave their sums");

struct Thread {
  int team, row, col; // its first entry of the tile
  Acc sums[ROWS][COLUMNS] = {};

  __device__ __forceinline__ Thread() {
    const int member = threadIdx.x % TEAM;
    team = threadIdx.x / TEAM, row = member / ACROSS, col = member % ACROSS * VECTOR;
  }

  // VECTOR values of k at once: A lies as [row][k], so a vector of A is one row's.
  __device__ __forceinline__ void multiply(const T *a, const T *b) {
    Vector rows[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) rows[i] = *(const Vector *)(a + i * DOWN * LD_A);
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) {
      Acc columns[COLUMNS];
      read_vectors<COLUMNS, ACROSS * VECTOR>(columns, b + v * LD_B);
#pragma unroll
      for (int i = 0; i < ROWS; ++i)
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) sums[i][j] += to_acc(rows[i].at[v]) * columns[j];
    }
  }

  // Adds the sums of all teams, always in the same order; the first team then holds them.
  __device__ __forceinline__ void add_teams(Acc *shared) {
#pragma unroll
    for (int half = TEAMS / 2; half > 0; half /= 2) {
      __syncthreads(); // the last stage, or the sums before these, have been read
      Acc *place = shared + threadIdx.x % (half * TEAM);
#pragma unroll
      for (int i = 0; i < ROWS * COLUMNS; ++i)
        if (team >= half && team < 2 * half)
          place[i * half * TEAM] = sums[i / COLUMNS][i % COLUMNS];
      __syncthreads();
#pragma unroll
      for (int i = 0; i < ROWS * COLUMNS; ++i)
        if (team < half) sums[i / COLUMNS][i % COLUMNS] += place[i * half * TEAM];
    }
  }

  __device__ __forceinline__ void store(const Problem &p, const Tile &tile) const {
    T *c = p.c.data + tile.batch * p.c.batch_stride;
    const bool vectors = c_takes_vectors(p, c);
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      const index_t at = tile.row + row + i * DOWN;
      if (at >= p.m) return;
#pragma unroll
      for (int j = 0; j < COLUMNS; j += VECTOR) {
        const index_t first = tile.col + col + j * ACROSS;
        T *to = c + at * p.c.row_stride + first * p.c.col_stride;
        store_vector(p, to, p.n - first, vectors, sums[i], j);
      }
    }
  }
};

// Brings the slices of A and B that one part of K needs to shared memory, stage after stage.
struct Stages {
  T *const shared;
  CopyTile<TILE_M, TILE_K, LD_A, true> a;
  CopyTile<TILE_K, TILE_N, LD_B, false> b;
  index_t a_advance, b_advance, rows, columns;
  index_t left; // of K, from the next stage on

  __device__ __forceinline__ Stages(const Problem &p, const Part &part, const Tile &tile, T *shared)
      : shared(shared), a(p.a.data + tile.batch * p.a.batch_stride + tile.row * p.a.row_stride +
                              part.begin * p.a.col_stride,
                          p.a.row_stride, p.a.col_stride),
        b(p.b.data + tile.batch * p.b.batch_stride + tile.col * p.b.col_stride +
              part.begin * p.b.row_stride,
          p.b.row_stride, p.b.col_stride),
        a_advance(TILE_K * p.a.col_stride), b_advance(TILE_K * p.b.row_stride),
        rows(p.m - tile.row), columns(p.n - tile.col), left(part.end - part.begin) {}

  // Ends a group of copies for every stage, though it may be empty.
  __device__ __forceinline__ void copy(int stage) {
    T *to = shared + stage * STAGE;
    if (left > 0) {
      a.copy(to, rows, left, a_advance);
      b.copy(to + OF_A, left, columns, b_advance);
    }
    cp_async_commit();
    left -= TILE_K;
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM * 4 / sizeof(Acc))
    skinny(const Problem p) {
  extern __shared__ int4 dynamic[];
  T *const shared = (T *)dynamic;
  const Part part = part_of_block(p, TILE_K);
  const Tile tile = tile_at(p, TILE_M, TILE_N, part.tile);
  Stages stages(p, part, tile, shared);
#pragma unroll 1 // the code of a copy is long
  for (int stage = 0; stage < STAGES - 1; ++stage) stages.copy(stage);

  Thread mine;
  int reading = 0, writing = STAGES - 1;
  for (index_t k = part.begin; k < part.end; k += TILE_K) {
    cp_async_wait<STAGES - 2>();
    __syncthreads(); // this stage is there, and the one before has been read by all
    stages.copy(writing);
    const T *stage = shared + reading * STAGE;
#pragma unroll
    for (int i = 0; i < TILE_K; i += TEAMS * VECTOR) {
      const int at = i + mine.team * VECTOR;
      mine.multiply(stage + mine.row * LD_A + at, stage + OF_A + at * LD_B + mine.col);
    }
    writing = reading;
    reading = reading + 1 == STAGES ? 0 : reading + 1;
  }
  cp_async_wait<0>();

  mine.add_teams((Acc *)dynamic);
  auto &sums = reinterpret_cast<Acc(&)[ROWS * COLUMNS]>(mine.sums);
  if (add_parts<ROWS * COLUMNS, TEAM>(p, part, sums) && mine.team == 0) mine.store(p, tile);
}
