// Many small products: a group of TILE_N threads, a warp or a part of one, computes a product, each thread a
// column of it, and a block takes PRODUCTS of them.
//
// A block for every 8 x 8 product would have 64 threads with 8 multiplications each, and the GPU would spend
// its time on starting blocks. Here all threads of a warp work, on several products. Of a product of n x n with
// 2 n^3 operations 3 n^2 entries are moved: n / 6 operations a byte in float32, so that memory is the limit
// up to n = 64 and beyond, if the rows of A that all threads of a group want are read 16 bytes at a time.
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
// defines = { PRODUCTS = 8, BLOCKS_PER_SM = 6 }
//
// [[variant]]
// name = "4"
// threads = [128, 1]
// tile = [4, 4, 4]
// defines = { PRODUCTS = 32, BLOCKS_PER_SM = 8 }
//
// [[variant]]
// name = "8"
// threads = [128, 1]
// tile = [8, 8, 8]
// defines = { PRODUCTS = 16, BLOCKS_PER_SM = 6 }
//
// [[variant]]
// name = "32"
// threads = [128, 1]
// tile = [32, 32, 16]
// defines = { PRODUCTS = 4, BLOCKS_PER_SM = 5 }
//
// [[variant]]
// name = "64"
// threads = [128, 1]
// tile = [64, 64, 16]
// defines = { PRODUCTS = 2, BLOCKS_PER_SM = 3 }
// ///
#include "cp_async.cuh"
#include "vector.cuh"

// Entries (i, k) of A lie as a[i][k], so that a thread reads VECTOR of one row at once; B lies as b[k][j].
constexpr int LD_A = TILE_K + VECTOR;
struct Slice {
  T a[TILE_M][LD_A];
  T b[TILE_K][TILE_N];
  T pad[TILE_N]; // the slices of a warp's groups begin in different banks
};
static_assert(PRODUCTS * TILE_N == THREADS, "a thread for every column of every product");
static_assert(TILE_K % VECTOR == 0 && sizeof(T[LD_A]) % 16 == 0, "rows of A begin at 16 bytes");

// Copies `rows` x `columns` entries, zeros where either is at its end, to rows LD apart. Threads of a group
// run along the direction that is contiguous in memory.
template <int HEIGHT, int WIDTH, int LD>
__device__ __forceinline__ void copy_slice(T *to, const T *from, const Operand &o, int rows,
                                           int columns, int me) {
  const bool along_row = o.col_stride == 1;
  const int inner = along_row ? WIDTH : HEIGHT, outer = along_row ? HEIGHT : WIDTH;
  const index_t stride = along_row ? o.row_stride : o.col_stride;
#pragma unroll 4
  for (int i = 0; i < outer; ++i)
    for (int j = me; j < inner; j += TILE_N) {
      const int row = along_row ? i : j, column = along_row ? j : i;
      const bool inside = row < rows && column < columns;
      cp_async<sizeof(T)>(to + row * LD + column, inside ? from + i * stride + j : from,
                          inside ? int(sizeof(T)) : 0);
    }
}

__device__ __forceinline__ void multiply(const Slice &slice, int me, Acc (&sums)[TILE_M]) {
#pragma unroll(TILE_M > 16 ? 1 : 4)
  for (int k = 0; k < TILE_K; k += VECTOR) {
    Acc b[VECTOR];
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) b[v] = to_acc(slice.b[k + v][me]);
#pragma unroll
    for (int i = 0; i < TILE_M; ++i) { // the same address for the whole group: one read serves it
      const Vector a = *(const Vector *)&slice.a[i][k];
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) sums[i] += to_acc(a.at[v]) * b[v];
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM * 4 / sizeof(Acc))
    batched(const Problem p) {
  __shared__ Slice slices[PRODUCTS];
  const int me = threadIdx.x % TILE_N, group = threadIdx.x / TILE_N;
  const unsigned columns = unsigned((p.n + TILE_N - 1) / TILE_N),
                 rows = unsigned((p.m + TILE_M - 1) / TILE_M);
  const unsigned tiles = rows * columns, tile = blockIdx.x % tiles;
  const index_t row = index_t(tile / columns) * TILE_M, col = index_t(tile % columns) * TILE_N;
  const index_t product = index_t(blockIdx.x / tiles) * PRODUCTS + group;
  const bool mine = product < p.batch; // the others keep the barriers company
  const T *a = p.a.data + product * p.a.batch_stride + row * p.a.row_stride;
  const T *b = p.b.data + product * p.b.batch_stride + col * p.b.col_stride;
  const int height = p.m - row < TILE_M ? int(p.m - row) : TILE_M;
  const int width = p.n - col < TILE_N ? int(p.n - col) : TILE_N;

  Slice &slice = slices[group];
  Acc sums[TILE_M] = {};
  for (index_t k = 0; k < p.k; k += TILE_K) {
    const int depth = p.k - k < TILE_K ? int(p.k - k) : TILE_K;
    if (mine) {
      copy_slice<TILE_M, TILE_K, LD_A>(slice.a[0], a + k * p.a.col_stride, p.a, height, depth, me);
      copy_slice<TILE_K, TILE_N, TILE_N>(slice.b[0], b + k * p.b.row_stride, p.b, depth, width, me);
    }
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads(); // the slices are complete
    if (mine) multiply(slice, me, sums);
    __syncthreads(); // and read, before the next ones arrive
  }

  if (!mine || me >= width) return;
  T *c = p.c.data + product * p.c.batch_stride + row * p.c.row_stride + (col + me) * p.c.col_stride;
#pragma unroll
  for (int i = 0; i < TILE_M; ++i)
    if (i < height) store_result(p, c + i * p.c.row_stride, sums[i]);
}
