// Goes through the items of tile_plan.cuh for every block of a grid, and counts how often each entry of C is computed.
#include <algorithm>
using std::min;
#define __device__
#define __forceinline__ inline
#define STORAGE_float32
struct Index {
  unsigned x;
};
static Index gridDim, blockIdx;
template <class X> X __ldg(const X *x) { return *x; }
#define __global__
#include "tile_plan.cuh"

template <int left, int right, int cluster, int group, int cuts>
static long long cover(index_t m, index_t n, index_t batch, unsigned blocks, unsigned char *counts,
                       double *work) {
  long long strange = 0;
  gridDim.x = blocks;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    work[blockIdx.x] = 0;
    TilePlan<left, right, cluster, group, cuts> plan(m, n, batch, blockIdx.x % cluster);
    for (; plan.more(); ++plan) {
      const Item at = plan.item();
      strange += at.width % 64 || at.width > right || at.batch >= batch;
      strange += at.width < 64 || (cluster == 1 && !at.shared);
      work[blockIdx.x] += double(at.width) / right;
      for (index_t i = at.row; i < std::min(m, at.row + left); ++i)
        for (index_t j = at.column; j < std::min(n, at.column + at.width); ++j)
          ++counts[(at.batch * m + i) * n + j];
    }
  }
  return strange;
}

#define COVER(left, right, cluster, group, cuts)                                                   \
  extern "C" long long cover_##left##_##right##_##cluster##_##cuts(                                \
      long long m, long long n, long long batch, unsigned blocks, unsigned char *counts,           \
      double *work) {                                                                              \
    return cover<left, right, cluster, group, cuts>(m, n, batch, blocks, counts, work);            \
  }
COVER(128, 256, 2, 8, 2)
COVER(128, 256, 1, 16, 2)
COVER(128, 128, 2, 8, 2)
COVER(128, 256, 4, 4, 4)
COVER(128, 128, 1, 12, 1)
