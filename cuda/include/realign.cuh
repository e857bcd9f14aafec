// A launch before the product's own: operands that copy engine or 16-byte accesses cannot take are moved to where their
// lines begin at multiples of 16 bytes. Reads are 16 bytes wide all the same: two aligned vectors hold the entries of
// one that is not.
#pragma once
#include "next_launch.cuh"
#include "problem.cuh"
#include "shifted.cuh"

// `lines` lines of `entries` neighbours, `batch` times, strides in entries; none: nothing to move.
// turned (of B, in float32): entry (i, j) of `from` becomes (j, i) of `to`.
struct Move {
  const T *from;
  T *to;
  index_t lines, entries, batch, from_stride, to_stride, from_batch, to_batch, turned;
};

struct Moves {
  Move a, b;
};

constexpr int MOVE_THREADS = 256, MOVE_VECTOR = 16 / sizeof(T), MOVE_AT_ONCE = 4;

// One 16-byte piece on its way. The vectors around it are read whole where they lie in [begin, end), the operand.
struct Piece {
  const T *from;
  int valid;
  bool quick;
  uint4 low, high;

  __device__ __forceinline__ void load(const T *at, index_t exist, const T *begin, const T *end) {
    from = at, valid = int(max(index_t(0), min(exist, index_t(MOVE_VECTOR))));
    const unsigned bytes = (unsigned long long)from & 15;
    const char *aligned = (const char *)from - bytes;
    quick = valid == MOVE_VECTOR && aligned >= (const char *)begin &&
            aligned + (bytes ? 32 : 16) <= (const char *)end;
    low = high = {0, 0, 0, 0};
    if (quick) low = __ldg((const uint4 *)aligned);
    if (quick && bytes) high = __ldg((const uint4 *)aligned + 1);
  }
  __device__ __forceinline__ uint4 value() const {
    if (!quick) return one_by_one(from, valid);
    return shifted(low, high, (unsigned long long)from & 15);
  }
};

// A warp moves MOVE_EACH entries of a line at a time.
constexpr int MOVE_EACH = 32 * MOVE_VECTOR * MOVE_AT_ONCE;

__device__ __forceinline__ index_t parts_of(const Move &m) {
  return (m.entries + MOVE_EACH - 1) / MOVE_EACH;
}

// Part number `i` of all parts of all lines; Index is 32 bits wide where they suffice: divisions take time.
template <class Index> __device__ __forceinline__ void move_part(const Move &m, Index i) {
  const Index parts = Index(parts_of(m)), line = i / parts, batch = line / Index(m.lines);
  const index_t row = line - batch * Index(m.lines);
  const index_t first = index_t(i - line * parts) * MOVE_EACH + threadIdx.x % 32 * MOVE_VECTOR;
  const T *from = m.from + batch * m.from_batch + row * m.from_stride + first;
  const T *end = m.from + (m.batch - 1) * m.from_batch + (m.lines - 1) * m.from_stride + m.entries;
  T *to = m.to + batch * m.to_batch + row * m.to_stride + first;
  Piece pieces[MOVE_AT_ONCE];
#pragma unroll
  for (int j = 0; j < MOVE_AT_ONCE; ++j) {
    const int on = j * 32 * MOVE_VECTOR;
    pieces[j].load(from + on, m.entries - first - on, m.from, end);
  }
#pragma unroll
  for (int j = 0; j < MOVE_AT_ONCE; ++j)
    if (pieces[j].valid) *(uint4 *)(to + j * 32 * MOVE_VECTOR) = pieces[j].value();
}

// The parts of A and then those of B, as one row of work.
template <class Index>
__device__ __forceinline__ void move_lines(const Moves &moves, Index of_a, Index all) {
  constexpr int warps = MOVE_THREADS / 32;
  const Index step = Index(gridDim.x) * warps;
  for (Index i = Index(blockIdx.x) * warps + threadIdx.x / 32; i < all; i += step)
    if (i < of_a)
      move_part(moves.a, i);
    else
      move_part(moves.b, i - of_a);
}

// A block turns 32 x 32 entries at a time; the column more spreads them over the banks.
__device__ __forceinline__ void turn_lines(const Move &m, T (&tile)[32][33]) {
  const index_t rows = (m.lines + 31) / 32, columns = (m.entries + 31) / 32;
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  for (index_t i = blockIdx.x; i < rows * columns * m.batch; i += gridDim.x) {
    const index_t line = i / columns, batch = line / rows;
    const index_t row = (line - batch * rows) * 32, column = (i - line * columns) * 32;
    const T *from = m.from + batch * m.from_batch;
    T *to = m.to + batch * m.to_batch;
    for (int j = y; j < 32; j += MOVE_THREADS / 32)
      if (row + j < m.lines && column + x < m.entries)
        tile[j][x] = __ldg(from + (row + j) * m.from_stride + column + x);
    __syncthreads();
    for (int j = y; j < 32; j += MOVE_THREADS / 32)
      if (column + j < m.entries && row + x < m.lines)
        to[(column + j) * m.to_stride + row + x] = tile[x][j];
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(MOVE_THREADS, 3) realign(const Moves moves) {
  let_next_launch_begin();
  const index_t of_a = parts_of(moves.a) * moves.a.lines * moves.a.batch;
  const index_t of_b = moves.b.turned ? 0 : parts_of(moves.b) * moves.b.lines * moves.b.batch;
  if (of_a + of_b < 1ll << 30)
    move_lines(moves, unsigned(of_a), unsigned(of_a + of_b));
  else
    move_lines(moves, of_a, of_a + of_b);
  if constexpr (sizeof(T) == 4) {
    __shared__ T tile[32][33];
    if (moves.b.turned) turn_lines(moves.b, tile);
  }
}
