// Rows of A whose pitch is no multiple of 128 bytes begin in the middle of lines, and each line of a box then lies across
// two: L2, which has to read both, becomes the limit. But every `ways`-th row begins at the same place of a line. So the
// tiles of the first `rows` rows of C take every ways-th one of ways * tall rows; and their K begins where a line does, a
// `shift` before 0, where both factors are zero.
#pragma once
#include "tile_plan.cuh"
#include "tma.cuh"
#include "wgmma_epilogue.cuh"

struct alignas(64) Woven {
  TensorMap a, c; // of every ways-th row; their third dimension is which one is the first
  index_t rows;
  int ways;
};

// The rows of an item, whose tile is `tall` rows of a cluster: from `first` on, at `z` of the third dimension of the maps.
template <int tall, bool possible> struct WovenRows {
  bool woven;
  int first, z, shift;

  __device__ __forceinline__ WovenRows(const Item &at, const Problem &p, const Woven &w)
      : woven(possible && at.row < w.rows), first(int(at.row)), z(int(at.batch)), shift(0) {
    if (!woven) return;
    const unsigned row = unsigned(at.row), tile = row / tall;
    z = int(tile % unsigned(w.ways));
    first = int(tile / unsigned(w.ways) * tall + row % tall);
    shift = int(((unsigned long long)(p.a.data + z * p.a.row_stride) & 127) / sizeof(T));
  }

  // C as these rows have it.
  __device__ __forceinline__ Output output(const Problem &p, unsigned batch, const Woven &w) const {
    Output c(p, batch);
    if (!woven) return c;
    c.data += z * c.row_stride;
    c.row_stride *= w.ways;
    c.rows = w.rows / w.ways;
    return c;
  }
};
