// Brings tiles of a matrix to shared memory by cp.async in the shape they have in the matrix: HEIGHT x BREADTH,
// rows LD apart, zeros where the matrix ends. The matrix may be contiguous along rows or columns, and threads run
// along that direction: 16 bytes at a time if it is the row and VECTORS and the alignment allow it, else entry by
// entry, of 4 bytes or more (16-bit entries, and tiles that lie as their matrix does: tile_copy.cuh).
#pragma once
#include "cp_async.cuh"
#include "vector.cuh"

template <int HEIGHT, int BREADTH, int LD, bool VECTORS> struct CopyTile {
  enum Way { WHOLE, ALONG_ROW, ALONG_COLUMN };
  static_assert(HEIGHT * BREADTH % THREADS == 0, "threads copy equally many entries");
  static_assert(THREADS % HEIGHT == 0, "whole columns at a time");

  const T *from; // this thread's first entry of the next tile
  index_t step;  // to its next entry
  int row, column, to;
  Way way;

  // Entry (i, j) is data[i * row_stride + j * column_stride].
  __device__ __forceinline__ CopyTile(const T *data, index_t row_stride, index_t column_stride) {
    way = column_stride != 1                       ? ALONG_COLUMN
          : VECTORS && aligned16(data, row_stride) ? WHOLE
                                                   : ALONG_ROW;
    const int thread = threadIdx.x, width = way == WHOLE ? VECTOR : 1;
    const int across = BREADTH / width;
    row = way == ALONG_COLUMN ? thread % HEIGHT : thread / across;
    column = way == ALONG_COLUMN ? thread / HEIGHT : thread % across * width;
    step = way == ALONG_COLUMN ? THREADS / HEIGHT * column_stride : THREADS / across * row_stride;
    from = data + row * row_stride + column * column_stride;
    to = row * LD + column;
  }

  // Starts copying the next tile, of which `rows` x `columns` entries (or none) lie inside the matrix, and goes
  // `advance` entries on.
  __device__ __forceinline__ void copy(T *tile, index_t rows, index_t columns, index_t advance) {
    const int down = clamp(rows) - row, right = clamp(columns) - column;
    if (VECTORS && way == WHOLE)
      copy_by<VECTOR, true>(tile + to, down, right);
    else if (way == ALONG_ROW)
      copy_by<1, true>(tile + to, down, right);
    else
      copy_by<1, false>(tile + to, down, right);
    from += advance;
  }

private:
  static __device__ __forceinline__ int clamp(index_t left) {
    return left < 0 ? 0 : left < HEIGHT + BREADTH ? int(left) : HEIGHT + BREADTH;
  }

  // WIDTH entries at a time.
  template <int WIDTH, bool ALONG>
  __device__ __forceinline__ void copy_by(T *tile, int down, int right) const {
    constexpr int ACROSS = BREADTH / WIDTH, ALL = HEIGHT * ACROSS;
    constexpr int COUNT = ALL < THREADS ? 1 : ALL / THREADS;
    constexpr int DOWN = ALONG ? THREADS / ACROSS : 0, RIGHT = ALONG ? 0 : THREADS / HEIGHT;
    static_assert(!ALONG || DOWN > 0, "a row has no more pieces than the block has threads");
    static_assert(ALL % THREADS == 0 || ALL < THREADS, "threads copy equally many pieces");
    if (ALL < THREADS && ALONG && row >= HEIGHT) return;
    const T *entry = from;
#pragma unroll(COUNT < 32 ? COUNT : 16)
    for (int i = 0; i < COUNT; ++i, entry += step) {
      const int left = i * DOWN < down ? right - i * RIGHT : 0;
      const int entries = left < 0 ? 0 : left < WIDTH ? left : WIDTH;
      cp_async<WIDTH * sizeof(T)>(tile + i * (DOWN * LD + RIGHT), entries ? entry : from,
                                  entries * int(sizeof(T)));
    }
  }
};
