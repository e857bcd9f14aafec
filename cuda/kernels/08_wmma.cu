// Tensor cores through nvcuda::wmma, as in a textbook: a warp computes one 16 x 16 tile of C and reads every
// fragment straight from the caller's matrix.
//
// load_matrix_sync wants fragments that begin at multiples of 32 bytes, rows a multiple of 16 bytes apart, and
// it reads all of them. A caller's matrix may offer none of that: such fragments, and those at an edge, are
// first copied to shared memory, entry by entry with zeros outside the matrix.
//
// Nothing is reused but what L1 holds by chance: 2 * 16 * 16 FLOP for 16 + 16 entries read, 16 each. On an H200
// that is 3.5 % of cuBLAS in fp16 at 4096.
//
// /// kernel
// entry = "wmma_gemm"
// op = "gemm"
// dtypes = ["float16", "bfloat16", "float32", "float64"]
// math = ["fp16", "bf16", "tf32", "fp64"]
// launcher = "grid2d"
// min_sm = 80
// by_layout = true
// teaches = "Tensor core fragments and their alignment rules; fed from far away, tensor cores mostly wait."
//
// [[variant]]
// threads = [256, 1]
// tile = [32, 64, 16]
// ///
#include "fragment_layout.cuh"
#include "fragment_slab.cuh"
#include "layout.cuh"

using namespace nvcuda;

constexpr int TILE = 16; // of a warp
constexpr int WARPS = THREADS / 32, WARPS_N = TILE_N / TILE;
static_assert(TILE_M / TILE * WARPS_N == WARPS, "a warp for every 16 x 16 tile");

#if defined(STORAGE_float64)
constexpr int FRAGMENT = 8, FRAGMENT_K = 4;
using Input = double;
#elif defined(STORAGE_float32)
constexpr int FRAGMENT = 16, FRAGMENT_K = 8;
using Input = wmma::precision::tf32;
#else
constexpr int FRAGMENT = 16, FRAGMENT_K = 16;
using Input = T;
#endif
constexpr int PARTS = TILE / FRAGMENT; // fragments along one side of the warp's tile

using FragmentA = wmma::fragment<wmma::matrix_a, FRAGMENT, FRAGMENT, FRAGMENT_K, Input,
                                 FragmentLayout<A_K_INNER>>;
using FragmentB = wmma::fragment<wmma::matrix_b, FRAGMENT, FRAGMENT, FRAGMENT_K, Input,
                                 FragmentLayout<!B_K_INNER>>;
using Part = wmma::fragment<wmma::accumulator, FRAGMENT, FRAGMENT, FRAGMENT_K, Acc>;
using Sums = Part[PARTS][PARTS];

// A matrix as it lies in memory: rows of neighbours, `ld` apart.
struct Stored {
  const T *data;
  index_t ld, rows, columns;
  bool aligned; // as load_matrix_sync wants it

  __device__ Stored(const T *data, index_t ld, index_t rows, index_t columns)
      : data(data), ld(ld), rows(rows), columns(columns),
        aligned((unsigned long long)data % 32 == 0 && ld * sizeof(T) % 16 == 0) {}
};

// H x W entries from (row, col) on into shared memory, by one warp; zeros outside the matrix.
template <int H, int W> __device__ void stage(T *to, const Stored &from, index_t row, index_t col) {
  __syncwarp(); // the fragment before has been read
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < H * W; i += 32) {
    const index_t r = row + i / W, c = col + i % W;
    T entry;
    from_acc(Acc(0), entry);
    if (r < from.rows && c < from.columns) entry = __ldg(from.data + r * from.ld + c);
    to[i] = entry;
  }
  __syncwarp();
}

// H x W: a fragment as it lies in memory. `staged`: the warp's own shared memory.
template <int H, int W, class F>
__device__ void read(F &fragment, const Stored &from, index_t row, index_t col, T *staged) {
  if (from.aligned && row + H <= from.rows && col + W <= from.columns) {
    wmma::load_matrix_sync(fragment, from.data + row * from.ld + col, unsigned(from.ld));
  } else {
    stage<H, W>(staged, from, row, col);
    wmma::load_matrix_sync(fragment, staged, W);
  }
#if defined(STORAGE_float32)
  for (int i = 0; i < fragment.num_elements; ++i)
    fragment.x[i] = wmma::__float_to_tf32(fragment.x[i]);
#endif
}

// The fragment from entry `first` along M or N and entry k along K on.
template <bool K_INNER, class F>
__device__ void read_at(F &fragment, const Stored &from, index_t first, index_t k, T *staged) {
  if constexpr (K_INNER)
    read<FRAGMENT, FRAGMENT_K>(fragment, from, first, k, staged);
  else
    read<FRAGMENT_K, FRAGMENT>(fragment, from, k, first, staged);
}

// A (or B with its strides exchanged) of product number `batch`: M x K.
template <bool K_INNER>
__device__ Stored stored(const Operand &o, index_t stride, index_t k_stride, index_t extent,
                         index_t k, index_t batch) {
  const T *data = o.data + batch * o.batch_stride;
  return K_INNER ? Stored(data, stride, extent, k) : Stored(data, k_stride, k, extent);
}

// The sums of a warp's tile, whose first entry is (row, col) of C.
__device__ __forceinline__ void multiply(Sums &sums, const Stored &a, const Stored &b, index_t row,
                                         index_t col, index_t k_end, T *staged) {
#pragma unroll
  for (int i = 0; i < PARTS * PARTS; ++i) wmma::fill_fragment(sums[i / PARTS][i % PARTS], Acc(0));
#pragma unroll 1
  for (index_t k = 0; k < k_end; k += FRAGMENT_K) {
    FragmentA a_part[PARTS];
    FragmentB b_part;
#pragma unroll
    for (int i = 0; i < PARTS; ++i) read_at<A_K_INNER>(a_part[i], a, row + i * FRAGMENT, k, staged);
#pragma unroll
    for (int j = 0; j < PARTS; ++j) {
      read_at<B_K_INNER>(b_part, b, col + j * FRAGMENT, k, staged);
#pragma unroll
      for (int i = 0; i < PARTS; ++i) wmma::mma_sync(sums[i][j], a_part[i], b_part, sums[i][j]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) wmma_gemm(const Problem p) {
  constexpr int LD = TILE + 4;
  alignas(32) __shared__ T staged[WARPS][FRAGMENT * FRAGMENT_K];
  alignas(32) __shared__ Acc slab[WARPS][TILE * LD];

  const int warp = threadIdx.x / 32;
  const Tile tile = tile_of_block(p, TILE_M, TILE_N);
  const index_t row = tile.row + warp / WARPS_N * TILE, col = tile.col + warp % WARPS_N * TILE;
  if (row >= p.m || col >= p.n) return; // the whole warp: no barrier below is of more than a warp

  const Stored a = stored<A_K_INNER>(p.a, p.a.row_stride, p.a.col_stride, p.m, p.k, tile.batch);
  const Stored b = stored<B_K_INNER>(p.b, p.b.col_stride, p.b.row_stride, p.n, p.k, tile.batch);
  Sums sums;
  multiply(sums, a, b, row, col, p.k, staged[warp]);

  // Which thread holds which entry of a fragment is not specified: it reaches C by way of shared memory.
#pragma unroll
  for (int i = 0; i < PARTS * PARTS; ++i)
    wmma::store_matrix_sync(slab[warp] + (i / PARTS * LD + i % PARTS) * FRAGMENT,
                            sums[i / PARTS][i % PARTS], LD, wmma::mem_row_major);
  __syncwarp();
  store_slab<TILE, TILE, LD>(p, slab[warp], row, col, tile.batch, [](int r) { return r; });
}
