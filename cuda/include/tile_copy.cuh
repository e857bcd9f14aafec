// Copies tiles of an operand to shared memory, whatever its layout, size and alignment: zeros outside it,
// nothing read outside it. Which way is the same for all threads of a block, and looked up again for every part of
// a tile: one mainloop serves all of them, where one compiled for each would take minutes to compile.
//
// Wide: 16-byte cp.async, where address and leading dimension are multiples of 16 bytes. Narrow: cp.async copies no
// less than 4 bytes, so wider entries go one by one, 16-bit ones in pairs where these lie on 4 bytes. Held: else
// pairs of 16-bit entries pass through registers: begin() loads, end() stores.
#pragma once

#include "cp_async.cuh"
#include "opaque.cuh"
#include "problem.cuh"

// The part of an operand that a CTA needs, as it lies in memory: rows of neighbours, `ld` apart.
struct Source {
  const T *data;
  index_t ld, rows, columns;
  bool k_inner; // K is the direction in which neighbours lie
};

// Rows `first` to `extent` of A: M x K. Give B with its strides exchanged: N x K.
__device__ __forceinline__ Source operand_source(const Operand &o, index_t stride, index_t k_stride,
                                                 index_t first, index_t extent, index_t k,
                                                 index_t batch) {
  const T *data = o.data + batch * o.batch_stride + first * stride;
  if (k_stride == 1) return {data, stride, extent - first, k, true};
  return {data, k_stride, k, extent - first, false};
}

__device__ __forceinline__ bool is_aligned(const Source &s, int bytes) {
  return ((unsigned long long)s.data | (unsigned long long)s.ld * sizeof(T)) % bytes == 0;
}

// A thread's share of a tile in pieces of WIDTH bytes: COUNT of them, STEP rows apart. Worked out anew each time:
// the sums need the registers.
template <class Tile, int WIDTH> struct Pieces {
  static constexpr int IN_ROW = Tile::COLUMNS * int(sizeof(T)) / WIDTH;
  static constexpr int STEP = THREADS / IN_ROW, COUNT = Tile::ROWS / STEP;
  static_assert(THREADS % IN_ROW == 0 && Tile::ROWS % STEP == 0, "threads cover whole rows");

  int row, place; // of the first one; `place` in bytes

  __device__ __forceinline__ Pieces() {
    const unsigned thread = opaque(threadIdx.x);
    row = thread / IN_ROW, place = thread % IN_ROW * WIDTH;
  }
};

// TileK, TileOuter: where a chunk of 16 bytes goes in shared memory if K lies inner and if it does not.
// A tile is copied in PARTS parts, so that a mainloop can spread them over its steps.
template <class TileK, class TileOuter, int DEPTH, int PARTS> class TileCopy {
  static constexpr int SIZE = sizeof(T), NARROW = SIZE > 4 ? 8 : 4;
  using NarrowK = Pieces<TileK, NARROW>;
  using NarrowOuter = Pieces<TileOuter, NARROW>;
  static constexpr int COUNT = NarrowK::COUNT, EACH = (COUNT + PARTS - 1) / PARTS;
  static_assert(COUNT == NarrowOuter::COUNT, "the same bytes");

  // The same for all threads: where the next tile begins and what is left of the operand from there on.
  const T *from;
  index_t ld;
  int rows, columns;
  bool k_inner, wide, hold;
  unsigned held[SIZE == 2 ? EACH : 1];

public:
  __device__ __forceinline__ TileCopy(const Source &s)
      : from(s.data), ld(s.ld), rows(at_most(s.rows)), columns(at_most(s.columns)),
        k_inner(s.k_inner), wide(is_aligned(s, 16)), hold(!is_aligned(s, NARROW)) {}

  // Starts part `part` of the next tile on its way to `tile`.
  __device__ __forceinline__ void begin(unsigned char *tile, int part) {
    if (!wide)
      begin_narrow(tile, part);
    else if (k_inner)
      copy_wide<TileK>(tile, part);
    else
      copy_wide<TileOuter>(tile, part);
  }
  // To be called after begin(), as late as the loads need.
  __device__ __forceinline__ void end(unsigned char *tile, int part) const {
    if (SIZE != 2 || !hold) return;
    const Narrow mine(k_inner);
#pragma unroll
    for (int j = 0; j < EACH; ++j)
      if (part * EACH + j < COUNT)
        *(unsigned *)(tile + mine.offset(k_inner, part * EACH + j)) = held[j];
  }
  // To be called after the last part: on to the next tile; `k` entries of K are left from its beginning on.
  __device__ __forceinline__ void next(index_t k) {
    from += k_inner ? DEPTH : DEPTH * ld;
    (k_inner ? columns : rows) = at_most(k);
  }

private:
  // Exact where it matters: no tile is that large.
  static __device__ __forceinline__ int at_most(index_t left) {
    return int(left < (1 << 30) ? left : (1 << 30));
  }

  template <class Tile> __device__ __forceinline__ void copy_wide(unsigned char *tile, int part) const {
    using P = Pieces<Tile, 16>;
    constexpr int N = (P::COUNT + PARTS - 1) / PARTS;
    const P mine;
    const int bytes = max(0, min(columns * SIZE - mine.place, 16));
    const index_t step = opaque(P::STEP * ld);
    const T *piece = from + (mine.row + part * N * P::STEP) * ld + mine.place / SIZE;
#pragma unroll
    for (int j = 0; j < N; ++j, piece += step) {
      const int row = mine.row + (part * N + j) * P::STEP;
      if (part * N + j < P::COUNT)
        cp_async<16>(tile + Tile::offset(row, mine.place / 16), piece, row < rows ? bytes : 0);
    }
  }

  // Pieces of NARROW bytes for either storage order: slower, but half the code.
  struct Narrow {
    int row, place, step;

    __device__ __forceinline__ Narrow(bool k_inner) {
      const NarrowK a;
      const NarrowOuter b;
      row = k_inner ? a.row : b.row, place = k_inner ? a.place : b.place;
      step = k_inner ? NarrowK::STEP : NarrowOuter::STEP;
    }
    __device__ __forceinline__ unsigned offset(bool k_inner, int i) const {
      const unsigned a = TileK::offset(row + i * step, place / 16);
      const unsigned b = TileOuter::offset(row + i * step, place / 16);
      return (k_inner ? a : b) + place % 16;
    }
  };
  __device__ __forceinline__ void begin_narrow(unsigned char *tile, int part) {
    const Narrow mine(k_inner);
    const int left = columns - mine.place / SIZE;
    const int bytes = max(0, min(left * SIZE, NARROW));
    const index_t step = opaque(mine.step * ld);
    const T *piece = from + (mine.row + part * EACH * mine.step) * ld + mine.place / SIZE;
#pragma unroll
    for (int j = 0; j < EACH; ++j, piece += step) {
      const int i = part * EACH + j;
      if (i >= COUNT) continue;
      const bool inside = mine.row + i * mine.step < rows;
      if (SIZE == 2 && hold)
        held[j] = inside ? load_pair((const unsigned short *)piece, left) : 0;
      else
        cp_async<NARROW>(tile + mine.offset(k_inner, i), piece, inside ? bytes : 0);
    }
  }
  static __device__ __forceinline__ unsigned load_pair(const unsigned short *pair, int left) {
    const unsigned low = left > 0 ? __ldg(pair) : 0, high = left > 1 ? __ldg(pair + 1) : 0;
    return low | high << 16;
  }
};
