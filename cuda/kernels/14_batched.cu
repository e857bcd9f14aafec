// Many small products: a group of threads, a warp or a part of one, computes a product, each thread ROWS x COLUMNS
// entries of it, and a block takes PRODUCTS of them.
//
// A block for every 8 x 8 product would have 64 threads with 8 multiplications each, and the GPU would spend
// its time on starting blocks. Here all threads of a warp work, on several products. Of a product of n x n with
// 2 n^3 operations 3 n^2 entries are moved: n / 6 operations a byte in float32, so memory is the limit up to
// n = 64 and beyond, if a thread reads few enough entries from shared memory for each multiplication.
//
// /// kernel
// entry = "batched"
// op = "gemm"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// launcher = "batched"
// min_sm = 80
// teaches = "Parallelism across products in place of within one: what a warp does for one large row it does for many."
//
// [[variant]]
// threads = [128, 1]
// tile = [16, 16, 16]
// defines = { PRODUCTS = 8, ROWS = 16, COLUMNS = 1, SLICES = 1, BLOCKS_PER_SM = 6 }
//
// [[variant]]
// name = "4"
// threads = [128, 1]
// tile = [4, 4, 4]
// defines = { PRODUCTS = 32, ROWS = 4, COLUMNS = 1, SLICES = 1, BLOCKS_PER_SM = 8 }
//
// [[variant]]
// name = "8"
// threads = [128, 1]
// tile = [8, 8, 8]
// defines = { PRODUCTS = 16, ROWS = 8, COLUMNS = 1, SLICES = 1, BLOCKS_PER_SM = 5 }
//
// [[variant]]
// name = "32"
// threads = [128, 1]
// tile = [32, 32, 16]
// defines = { PRODUCTS = 4, ROWS = 8, COLUMNS = 4, SLICES = 1, BLOCKS_PER_SM = 5 }
//
// [[variant]]
// name = "64"
// threads = [128, 1]
// tile = [64, 64, 16]
// defines = { PRODUCTS = 2, ROWS = 8, COLUMNS = 8, SLICES = 2, BLOCKS_PER_SM = 3 }
// ///
#include "cp_async.cuh"
#include "epilogue.cuh"

// Entry (i, k) of A lies as a[i][k], so that a thread reads VECTOR of one row at once; B lies as b[k][j].
constexpr int LD_A = TILE_K + VECTOR;
struct alignas(16) Slice {
  T a[TILE_M][LD_A];
  T b[TILE_K][TILE_N];
  T pad[TILE_N]; // the slices of a warp's groups begin in different banks
};
constexpr int STAGES = sizeof(T) == 4 ? SLICES : 1; // doubles would need too much shared memory
constexpr int DOWN = TILE_M / ROWS, ACROSS = TILE_N / COLUMNS, GROUP = DOWN * ACROSS;
constexpr bool WIDE =
    COLUMNS % VECTOR == 0; // a thread's columns come in vectors, ACROSS of them apart
static_assert(PRODUCTS * GROUP == THREADS,
              "a thread for every ROWS x COLUMNS entries of every product");
static_assert(TILE_K % VECTOR == 0 && sizeof(T[LD_A]) % 16 == 0, "rows of A begin at 16 bytes");

// Copies `rows` x `columns` entries, zeros where either is at its end, to rows LD apart. Threads of a group
// run along the direction that is contiguous in memory, 16 bytes at a time where that is the row and they may.
template <int HEIGHT, int WIDTH, int LD>
__device__ __forceinline__ void copy_slice(T *to, const T *from, const Operand &o, int rows,
                                           int columns, int me) {
  const bool along_row = o.col_stride == 1;
  const index_t stride = along_row ? o.row_stride : o.col_stride;
  if (along_row && aligned16(from, stride)) {
    constexpr int ACROSS = WIDTH / VECTOR;
#pragma unroll 8
    for (int e = me; e < HEIGHT * ACROSS; e += GROUP) {
      const int row = e / ACROSS, column = e % ACROSS * VECTOR;
      const int left = row < rows ? min(columns - column, VECTOR) : 0;
      cp_async<16>(to + row * LD + column, left > 0 ? from + row * stride + column : from,
                   left > 0 ? left * int(sizeof(T)) : 0);
    }
    return;
  }
#pragma unroll 8
  for (int e = me; e < HEIGHT * WIDTH; e += GROUP) {
    const int row = along_row ? e / WIDTH : e % HEIGHT, column = along_row ? e % WIDTH : e / HEIGHT;
    const bool inside = row < rows && column < columns;
    const T *entry = along_row ? from + row * stride + column : from + column * stride + row;
    cp_async<sizeof(T)>(to + row * LD + column, inside ? entry : from, inside ? int(sizeof(T)) : 0);
  }
}

// A thread's part of a product: rows DOWN apart, columns side by side in vectors or ACROSS apart.
struct Thread {
  int row, across;
  Acc sums[ROWS][COLUMNS] = {};

  __device__ __forceinline__ Thread(int me) : row(me / ACROSS), across(me % ACROSS) {}
  __device__ __forceinline__ int column(int j) const {
    return WIDE ? (j / VECTOR * ACROSS + across) * VECTOR + j % VECTOR : j * ACROSS + across;
  }

  __device__ __forceinline__ void multiply(const Slice &slice) {
#pragma unroll 2
    for (int k = 0; k < TILE_K; k += VECTOR) {
      Vector a[ROWS];
#pragma unroll
      for (int i = 0; i < ROWS; ++i) a[i] = *(const Vector *)&slice.a[row + i * DOWN][k];
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) {
        Acc b[COLUMNS];
        if constexpr (WIDE)
          read_vectors<COLUMNS, ACROSS * VECTOR>(b, &slice.b[k + v][across * VECTOR]);
        else
#pragma unroll
          for (int j = 0; j < COLUMNS; ++j) b[j] = to_acc(slice.b[k + v][column(j)]);
#pragma unroll
        for (int i = 0; i < ROWS; ++i)
#pragma unroll
          for (int j = 0; j < COLUMNS; ++j) sums[i][j] += to_acc(a[i].at[v]) * b[j];
      }
    }
  }

  // c: the first entry of the tile, of which height x width lie inside the matrix.
  __device__ __forceinline__ void store(const Problem &p, T *c, int height, int width) const {
    const bool vectors = WIDE && c_takes_vectors(p, c);
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      const int at = row + i * DOWN;
      if (at >= height) break;
      T *line = c + at * p.c.row_stride;
#pragma unroll
      for (int j = 0; j < COLUMNS; j += WIDE ? VECTOR : 1) {
        T *to = line + column(j) * p.c.col_stride;
        if constexpr (WIDE)
          store_vector(p, to, width - column(j), vectors, sums[i], j);
        else if (column(j) < width)
          store_result(p, to, sums[i][j]);
      }
    }
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM * 4 / sizeof(Acc))
    batched(const Problem p) {
  __shared__ Slice slices[STAGES][PRODUCTS];
  const int me = threadIdx.x % GROUP, group = threadIdx.x / GROUP;
  const unsigned rows = unsigned((p.m + TILE_M - 1) / TILE_M);
  const unsigned columns = unsigned((p.n + TILE_N - 1) / TILE_N);
  const unsigned tiles = rows * columns, tile = blockIdx.x % tiles;
  const index_t row = index_t(tile / columns) * TILE_M, col = index_t(tile % columns) * TILE_N;
  const index_t product = index_t(blockIdx.x / tiles) * PRODUCTS + group;
  const bool mine = product < p.batch; // the others keep the barriers company
  const T *a = p.a.data + product * p.a.batch_stride + row * p.a.row_stride;
  const T *b = p.b.data + product * p.b.batch_stride + col * p.b.col_stride;
  const int height = int(min(p.m - row, index_t(TILE_M)));
  const int width = int(min(p.n - col, index_t(TILE_N)));

  const auto copy = [&](index_t k, Slice &to) { // always ends a group, though it may be empty
    const int depth = int(min(p.k - k, index_t(TILE_K)));
    if (mine && depth > 0) {
      copy_slice<TILE_M, TILE_K, LD_A>(to.a[0], a + k * p.a.col_stride, p.a, height, depth, me);
      copy_slice<TILE_K, TILE_N, TILE_N>(to.b[0], b + k * p.b.row_stride, p.b, depth, width, me);
    }
    cp_async_commit();
  };
  Thread thread(me);
  int reading = 0, writing = STAGES - 1;
  if (STAGES == 2) copy(0, slices[0][group]);
  for (index_t k = 0; k < p.k; k += TILE_K) {
    copy(k + (STAGES - 1) * TILE_K, slices[writing][group]);
    cp_async_wait<STAGES - 1>();
    __syncthreads(); // the slices are complete
    if (mine) thread.multiply(slices[reading][group]);
    __syncthreads(); // and read, before the next ones arrive
    writing = reading, reading = (reading + 1) % STAGES;
  }

  T *c = p.c.data + product * p.c.batch_stride + row * p.c.row_stride + col * p.c.col_stride;
  if (mine) thread.store(p, c, height, width);
}
