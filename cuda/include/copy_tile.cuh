// Brings tiles of a matrix to shared memory by cp.async in the shape they have in the matrix: HEIGHT x BREADTH,
// rows LD apart, zeros where the matrix ends. Threads run along the direction that is contiguous in memory, 16
// bytes at a time if that is the row and VECTORS and the alignment allow it, else entry by entry.
#pragma once
#include "cp_async.cuh"
#include "vector.cuh"

template <int HEIGHT, int BREADTH, int LD, bool VECTORS> struct CopyTile {
  static constexpr int PIECES = BREADTH / VECTOR; // of 16 bytes in a row
  static_assert(HEIGHT * BREADTH % THREADS == 0 && THREADS % BREADTH == 0 && THREADS % HEIGHT == 0,
                "every thread copies as many entries of a row or of a column");
  static_assert(!VECTORS || (THREADS % PIECES == 0 && HEIGHT * PIECES % THREADS == 0), "or vectors");

  const T *from; // this thread's first entry of the next tile
  index_t step;  // to its next entry
  int row, column, to;
  bool vectors, along_row;

  // Entry (i, j) is data[i * row_stride + j * column_stride].
  __device__ __forceinline__ CopyTile(const T *data, index_t row_stride, index_t column_stride) {
    along_row = column_stride == 1;
    vectors = VECTORS && along_row && aligned16(data, row_stride);
    const int thread = threadIdx.x, across = vectors ? PIECES : BREADTH;
    row = along_row ? thread / across : thread % HEIGHT;
    column = along_row ? thread % across * (vectors ? VECTOR : 1) : thread / HEIGHT;
    step = along_row ? THREADS / across * row_stride : THREADS / HEIGHT * column_stride;
    from = data + row * row_stride + column * column_stride;
    to = row * LD + column;
  }

  // Starts copying the next tile, of which `rows` x `columns` entries (or none) lie inside the matrix, and goes
  // `advance` entries on.
  __device__ __forceinline__ void copy(T *tile, index_t rows, index_t columns, index_t advance) {
    const int down = clamp(rows) - row, right = clamp(columns) - column;
    if (VECTORS && vectors)
      copy_by<VECTOR, THREADS / PIECES, 0>(tile + to, down, right);
    else if (along_row)
      copy_by<1, THREADS / BREADTH, 0>(tile + to, down, right);
    else
      copy_by<1, 0, THREADS / HEIGHT>(tile + to, down, right);
    from += advance;
  }

private:
  static __device__ __forceinline__ int clamp(index_t left) {
    return left < 0 ? 0 : left < HEIGHT + BREADTH ? int(left) : HEIGHT + BREADTH;
  }

  // WIDTH entries at a time, DOWN rows or RIGHT columns between them.
  template <int WIDTH, int DOWN, int RIGHT>
  __device__ __forceinline__ void copy_by(T *tile, int down, int right) const {
    const T *entry = from;
    constexpr int COUNT = DOWN ? HEIGHT / (DOWN ? DOWN : 1) : BREADTH / (RIGHT ? RIGHT : 1);
#pragma unroll
    for (int i = 0; i < COUNT; ++i, entry += step) {
      const int left = i * DOWN < down ? right - i * RIGHT : 0;
      const int entries = left < 0 ? 0 : left < WIDTH ? left : WIDTH;
      cp_async<WIDTH * sizeof(T)>(tile + i * (DOWN * LD + RIGHT), entries ? entry : from,
                                  entries * int(sizeof(T)));
    }
  }
};
