// What every kernel is given, and the few lines all of them share: one struct, so that the host packs the
// arguments once and a launch passes a pointer. The loader defines STORAGE_<dtype>; T is how an entry is
// stored, Acc what products are summed in. The only rounding to T is the one that stores the result.
#pragma once

#if defined(STORAGE_float64)
using T = double;
using Acc = double;
#elif defined(STORAGE_float32)
using T = float;
using Acc = float;
#elif defined(STORAGE_float16)
#include <cuda_fp16.h>
using T = __half;
using Acc = float;
#elif defined(STORAGE_bfloat16)
#include <cuda_bf16.h>
using T = __nv_bfloat16;
using Acc = float;
#else
#error "define STORAGE_float64, STORAGE_float32, STORAGE_float16 or STORAGE_bfloat16"
#endif

// 64 bits everywhere: 46341 x 46341 entries already overflow 32.
using index_t = long long;

// Entry (i, j) of product number z is data[z * batch_stride + i * row_stride + j * col_stride].
// One of row_stride and col_stride is 1; which one says whether the matrix is stored transposed.
struct Operand {
  T *data;
  index_t row_stride, col_stride, batch_stride;
};

// C = alpha * A * B + beta * C with A m x k, B k x n, C m x n, `batch` times.
// gemv: n = 1 and k = the length of x = B. vector_add, copy: n entries, m = k = 1.
// beta = 0 never reads C. The host sets k = 0 when alpha = 0, so A and B are not read then.
// splits, workspace and tickets are for launcher "split_k", see split.cuh; 1 and null without it.
struct Problem {
  Operand a, b, c;
  index_t m, n, k, batch;
  double alpha, beta;
  index_t splits;
  Acc *workspace;
  unsigned *tickets;
};

__device__ __forceinline__ double to_acc(double x) { return x; }
__device__ __forceinline__ float to_acc(float x) { return x; }
__device__ __forceinline__ void from_acc(double x, double &out) { out = x; }
__device__ __forceinline__ void from_acc(float x, float &out) { out = x; }
#if defined(STORAGE_float16)
__device__ __forceinline__ float to_acc(__half x) { return __half2float(x); }
__device__ __forceinline__ void from_acc(float x, __half &out) { out = __float2half_rn(x); }
#elif defined(STORAGE_bfloat16)
__device__ __forceinline__ float to_acc(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void from_acc(float x, __nv_bfloat16 &out) {
  out = __float2bfloat16_rn(x);
}
#endif

// Reads an entry of A or B. They never change during a kernel, so the read-only path may serve them.
__device__ __forceinline__ Acc load(const T *entry) { return to_acc(__ldg(entry)); }

// Epilogue of one entry of C: beta = 0 does not read C (whole vectors: epilogue.cuh, wgmma_epilogue.cuh).
__device__ __forceinline__ void store_result(const Problem &p, T *c, Acc sum) {
  const Acc alpha = Acc(p.alpha), beta = Acc(p.beta);
  Acc result = alpha * sum;
  if (beta != Acc(0)) result += beta * to_acc(*c);
  from_acc(result, *c);
}

// Upper left corner of the CTA tile this block computes, and the product it belongs to.
struct Tile {
  index_t row, col, batch;
};

// Tile number `index`, counted row by row, product after product.
// All three counts are below 2^31 (the launcher refuses more), so the divisions can be 32-bit ones.
__device__ __forceinline__ Tile tile_at(const Problem &p, int tile_m, int tile_n, unsigned index) {
  const unsigned rows = unsigned((p.m + tile_m - 1) / tile_m);
  const unsigned columns = unsigned((p.n + tile_n - 1) / tile_n);
  const unsigned row = index / columns, column = index - row * columns;
  return {index_t(row % rows) * tile_m, index_t(column) * tile_n, index_t(row / rows)};
}

// A block for every tile, along gridDim.x alone: it may reach 2^31 - 1, y and z only 65535.
__device__ __forceinline__ Tile tile_of_block(const Problem &p, int tile_m, int tile_n) {
  return tile_at(p, tile_m, tile_n, blockIdx.x);
}

// Launched in place of the kernel to measure what a launch costs with nothing behind it.
extern "C" __global__ void empty_kernel(const Problem) {}
