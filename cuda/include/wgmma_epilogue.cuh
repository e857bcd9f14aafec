// From the sums of a warpgroup to C: alpha, beta, the bounds, and stores as wide as C's alignment allows.
// C is stored by rows.
#pragma once
#include "problem.cuh"
#include "wgmma_fragment.cuh"

// C of one product of the batch.
struct Output {
  T *data;
  index_t row_stride, rows, columns;
  float alpha, beta;

  __device__ __forceinline__ Output(const Problem &p, unsigned batch)
      : data(p.c.data + batch * p.c.batch_stride), row_stride(p.c.row_stride), rows(p.m),
        columns(p.n), alpha(float(p.alpha)), beta(float(p.beta)) {}

  // May `entries` neighbours in a row, from a multiple of `entries` on, be stored at once?
  template <int entries> __device__ __forceinline__ bool takes() const {
    return (unsigned long long)data % (entries * sizeof(T)) == 0 && row_stride % entries == 0;
  }

  __device__ __forceinline__ float scaled(index_t row, index_t column, float sum) const {
    float result = alpha * sum;
    if (beta != 0.0f && row < rows && column < columns)
      result += beta * to_acc(data[row * row_stride + column]);
    return result;
  }

  // Entries (row, column), (row, column + 1), ... of C from their sums.
  template <int entries>
  __device__ __forceinline__ void store(index_t row, index_t column, const float (&sums)[entries],
                                        bool at_once) const {
    if (row >= rows) return;
    struct alignas(entries * sizeof(T)) Vector {
      T entry[entries];
    } out;
#pragma unroll
    for (int i = 0; i < entries; ++i) from_acc(scaled(row, column + i, sums[i]), out.entry[i]);
    T *c = data + row * row_stride + column;
    if (at_once && column + entries <= columns) {
      *(Vector *)c = out;
      return;
    }
#pragma unroll
    for (int i = 0; i < entries; ++i)
      if (column + i < columns) c[i] = out.entry[i];
  }
};

// 64 x `width` sums of a warpgroup, in rows as Fragment<mn_major> has them, from (row, column) on: of C, or of C
// transposed, where two rows that are neighbours are neighbours in a row of C.
template <bool mn_major, bool transposed, int count>
__device__ __forceinline__ void store_sums(const Output &c, const float (&sums)[count], index_t row,
                                           index_t column, int width) {
  static_assert(mn_major || !transposed, "rows that are no neighbours");
  using Rows = Fragment<mn_major>;
  const bool pairs = c.takes<2>();
  const index_t at = column + threadIdx.x % 4 * 2;
#pragma unroll
  for (int j = 0; j < count; j += 4) {
    if (j % 32 == 0 && j * 2 >= width) break;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if constexpr (transposed)
        c.store(at + j * 2 + i, row + Rows::row(0), {sums[j + i], sums[j + i + 2]}, pairs);
      else
        c.store(row + Rows::row(i), at + j * 2, {sums[j + i * 2], sums[j + i * 2 + 1]}, pairs);
  }
}

// Can the copy engine write C? The host makes a map where address and strides allow it. And rows must end with 16 bytes:
// with 300 entries of 2 bytes in rows of 304 the 4 beside C were written, too (H200).
__device__ __forceinline__ bool takes_boxes(const Problem &p) {
  const index_t entries = p.n | p.c.row_stride | (p.batch > 1 ? p.c.batch_stride : 0);
  return ((unsigned long long)p.c.data | (unsigned long long)entries * sizeof(T)) % 16 == 0;
}

// What a warpgroup stores at once, by way of shared memory: 64 lines of 128 bytes in the copy engine's swizzle. It has
// room for two such slabs, so that one is read while the other is written. `number` is a CTA barrier of its own.
constexpr int SLAB_BYTES = 64 * 128;

// The first slab of a piece of work takes the first room, which may be the one that was sent last: the piece before may
// have had an odd number of slabs.
__device__ __forceinline__ void begin_slab(int number, bool first) {
  if (threadIdx.x % 128 == 0) {
    if (first)
      wait_stores_read<0>();
    else
      wait_stores_read<1>();
  }
  __syncwarp();
  synchronize(number, 128);
}

// Entries of a slab's line, and how many of its sums a thread has.
constexpr int SLAB_COLUMNS = 128 / sizeof(T), SLAB_SUMS = SLAB_COLUMNS / 2;

#if defined(STORAGE_float32)
// A thread's SLAB_SUMS sums into a slab, which is two boxes of 32 lines of 32 entries.
template <bool mn_major, bool transposed>
__device__ __forceinline__ void fill_slab(const Output &c, char *to, const float *sums, index_t row,
                                          index_t column) {
  using Rows = Fragment<mn_major>;
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int j = 0; j < 4; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float *s = sums + j * 4;
      if constexpr (transposed) {
        const int line = j * 8 + t * 2 + i, at = Rows::row(0);
        *(float2 *)(to + at / 32 * 4096 + swizzled(line, at % 32 / 4) +
                    at % 4 * 4) = {c.scaled(column + line, row + at, s[i]),
                                   c.scaled(column + line, row + at + 1, s[i + 2])};
      } else {
        const int line = Rows::row(i), at = j * 8 + t * 2;
        *(float2 *)(to + swizzled(line, at / 4) +
                    at % 4 * 4) = {c.scaled(row + line, column + at, s[i * 2]),
                                   c.scaled(row + line, column + at + 1, s[i * 2 + 1])};
      }
    }
}

// Called by the whole warpgroup for a slab that is complete.
template <bool transposed>
__device__ __forceinline__ void send_slab(const Output &, const TensorMap &map, bool,
                                          const char *slab, index_t row, index_t column,
                                          int batch) {
  if (threadIdx.x % 128 != 0) return;
  for (int box = 0; box < 2; ++box) {
    const index_t across = row + box * 32;
    store_box(map, slab + box * 4096, int(transposed ? across : column),
              int(transposed ? column : across), batch);
  }
  commit_stores();
}
#else
__device__ __forceinline__ unsigned packed(float x, float y) {
  struct alignas(4) {
    T x, y;
  } pair;
  from_acc(x, pair.x);
  from_acc(y, pair.y);
  return *(unsigned *)&pair;
}

// A thread's SLAB_SUMS sums into a slab; stmatrix puts 8 x 8 of a warp's at a time in their places.
template <bool mn_major, bool transposed>
__device__ __forceinline__ void fill_slab(const Output &c, char *to, const float *sums, index_t row,
                                          index_t column) {
  static_assert(!mn_major && !transposed, "16-bit factors come from shared memory");
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  // Lane l gives the address of row l % 8 of the 8 x 8 matrix l / 8: upper, lower; then 8 columns on.
  const int at_row = warp * 16 + (lane / 8 & 1) * 8 + lane % 8, at_chunk = lane / 16;
#pragma unroll
  for (int i = 0; i < 32; i += 8) {
    unsigned pairs[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int s = i + j * 2;
      const index_t r = row + warp * 16 + lane / 4 + (j & 1) * 8;
      const index_t k = column + s / 4 * 8 + lane % 4 * 2;
      pairs[j] = packed(c.scaled(r, k, sums[s]), c.scaled(r, k + 1, sums[s + 1]));
    }
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     shared_address(to) + swizzled(at_row, i / 4 + at_chunk)),
                 "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
                 : "memory");
  }
}

// For a C that takes no boxes: a slab's lines one by one, each by a warp, so that neighbours go together though entry by
// entry. Straight from registers a product of 2047 in bfloat16 took a fifth longer; in float32 it does not.
__device__ __forceinline__ void store_lines(const Output &c, const char *slab, index_t row,
                                            index_t column) {
#pragma unroll 4
  for (int i = threadIdx.x / 32 % 4; i < 64; i += 4)
#pragma unroll
    for (int j = threadIdx.x % 32; j < 64; j += 32)
      if (row + i < c.rows && column + j < c.columns)
        c.data[(row + i) * c.row_stride + column + j] =
            *(const T *)(slab + swizzled(i, j / 8) + j % 8 * sizeof(T));
}

// Called by the whole warpgroup for a slab that is complete.
template <bool transposed>
__device__ __forceinline__ void send_slab(const Output &c, const TensorMap &map, bool boxes,
                                          const char *slab, index_t row, index_t column,
                                          int batch) {
  if (!boxes) {
    store_lines(c, slab, row, column);
  } else if (threadIdx.x % 128 == 0) {
    store_box(map, slab, int(column), int(row), batch);
    commit_stores();
  }
}
#endif

// As store_sums, by way of slabs; in float32 for a C that takes boxes only.
template <bool mn_major, bool transposed, int count>
__device__ __forceinline__ void store_slabs(const Output &c, const TensorMap &map, bool boxes,
                                            char *slabs, int number, const float (&sums)[count],
                                            index_t row, index_t column, int width, int batch) {
#pragma unroll
  for (int slab = 0; slab < count / SLAB_SUMS; ++slab) {
    if (slab * SLAB_COLUMNS >= width) break;
    char *to = slabs + slab % 2 * SLAB_BYTES;
    const index_t first = column + slab * SLAB_COLUMNS;
    begin_slab(number, slab == 0);
    fill_slab<mn_major, transposed>(c, to, sums + slab * SLAB_SUMS, row, first);
    publish_to_async_proxy();
    synchronize(number, 128);
    send_slab<transposed>(c, map, boxes, to, row, first, batch);
  }
}
