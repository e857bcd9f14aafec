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
  __device__ __forceinline__ unsigned offset(int i) const {
    return Tile::offset(row + i * STEP, place / 16) + place % 16;
  }
};

// TileK, TileOuter: where a chunk of 16 bytes goes in shared memory if K lies inner and if it does not.
// A tile is copied in PARTS parts, so that a mainloop can spread them over its steps.
template <class TileK, class TileOuter, int DEPTH, int PARTS> class TileCopy {
  static constexpr int SIZE = sizeof(T), NARROW = SIZE > 4 ? 8 : 4;
  static constexpr int HELD = (Pieces<TileK, NARROW>::COUNT + PARTS - 1) / PARTS;

  // The same for all threads: where the next tile begins and what is left of the operand from there on.
  const T *from;
  index_t ld;
  int rows, columns;
  bool k_inner, wide, hold;
  unsigned held[SIZE == 2 ? HELD : 1];

public:
  __device__ __forceinline__ TileCopy(const Source &s)
      : from(s.data), ld(s.ld), rows(at_most(s.rows)), columns(at_most(s.columns)),
        k_inner(s.k_inner), wide(is_aligned(s, 16)), hold(!is_aligned(s, NARROW)) {}

  // Starts part PART of the next tile on its way to `tile`.
  template <int PART> __device__ __forceinline__ void begin(unsigned char *tile) {
    if (k_inner)
      begin_tile<TileK, PART>(tile);
    else
      begin_tile<TileOuter, PART>(tile);
  }
  // To be called after begin(), as late as the loads need.
  template <int PART> __device__ __forceinline__ void end(unsigned char *tile) {
    if (SIZE != 2 || !hold) return;
    if (k_inner)
      store_pairs<TileK, PART>(tile);
    else
      store_pairs<TileOuter, PART>(tile);
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
  template <class Tile, int PART> __device__ __forceinline__ void begin_tile(unsigned char *tile) {
    if (wide)
      copy_pieces<Tile, 16, PART>(tile);
    else if (SIZE != 2 || !hold)
      copy_pieces<Tile, NARROW, PART>(tile);
    else
      load_pairs<Tile, PART>();
  }
  template <class Tile, int WIDTH, int PART>
  __device__ __forceinline__ void copy_pieces(unsigned char *tile) const {
    using P = Pieces<Tile, WIDTH>;
    constexpr int EACH = (P::COUNT + PARTS - 1) / PARTS, FIRST = PART * EACH;
    const P mine;
    const int left = max(0, min(columns * SIZE - mine.place, WIDTH));
    const index_t step = opaque(P::STEP * ld);
    const T *piece = from + (mine.row + FIRST * P::STEP) * ld + mine.place / SIZE;
#pragma unroll
    for (int i = FIRST; i < FIRST + EACH && i < P::COUNT; ++i, piece += step)
      cp_async<WIDTH>(tile + mine.offset(i), piece, mine.row + i * P::STEP < rows ? left : 0);
  }
  template <class Tile, int PART> __device__ __forceinline__ void load_pairs() {
    using P = Pieces<Tile, NARROW>;
    constexpr int FIRST = PART * HELD;
    const P mine;
    const int left = columns - mine.place / SIZE;
    const index_t step = opaque(P::STEP * ld);
    const T *piece = from + (mine.row + FIRST * P::STEP) * ld + mine.place / SIZE;
#pragma unroll
    for (int i = FIRST; i < FIRST + HELD && i < P::COUNT; ++i, piece += step) {
      const unsigned short *pair = (const unsigned short *)piece;
      const bool inside = mine.row + i * P::STEP < rows;
      const unsigned low = inside && left > 0 ? __ldg(pair) : 0;
      const unsigned high = inside && left > 1 ? __ldg(pair + 1) : 0;
      held[i - FIRST] = low | high << 16;
    }
  }
  template <class Tile, int PART>
  __device__ __forceinline__ void store_pairs(unsigned char *tile) const {
    using P = Pieces<Tile, NARROW>;
    constexpr int FIRST = PART * HELD;
    const P mine;
#pragma unroll
    for (int i = FIRST; i < FIRST + HELD && i < P::COUNT; ++i)
      *(unsigned *)(tile + mine.offset(i)) = held[i - FIRST];
  }
};
