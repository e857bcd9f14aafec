// Copies tiles of an operand to shared memory, whatever its size and alignment: zeros outside it, nothing
// read outside it.
//
// Wide: 16-byte cp.async, where address and leading dimension are multiples of 16 bytes. Narrow: cp.async
// copies no less than 4 bytes, so wider entries go one by one. 16-bit ones pass through registers: begin()
// loads the two aligned vectors that a chunk of 16 bytes lies in, end() shifts it out of them and stores it.
#pragma once

#include "cp_async.cuh"
#include "opaque.cuh"
#include "problem.cuh"
#include "shifted.cuh"

// The part of an operand that a CTA needs, as it lies in memory: rows of neighbours, `ld` apart.
struct Source {
  const T *data;
  index_t ld, rows, columns;
};

// Rows `first` to `extent` of A: M x K. Give B with its strides exchanged: N x K. K_INNER: k_stride is 1.
template <bool K_INNER>
__device__ __forceinline__ Source operand_source(const Operand &o, index_t stride, index_t k_stride,
                                                 index_t first, index_t extent, index_t k,
                                                 index_t batch) {
  const T *data = o.data + batch * o.batch_stride + first * stride;
  if (K_INNER) return {data, stride, extent - first, k};
  return {data, k_stride, k, extent - first};
}

__device__ __forceinline__ bool is_aligned(const Source &s, int bytes) {
  return ((unsigned long long)s.data | (unsigned long long)s.ld * sizeof(T)) % bytes == 0;
}

// `Tile` says where a chunk of 16 bytes goes in shared memory. A tile is copied in PARTS parts, so that a
// mainloop can spread them over its steps. DEPTH: of a tile along K.
template <class Tile, int DEPTH, int PARTS, bool WIDE> class TileCopy {
  static constexpr int SIZE = sizeof(T);
  static constexpr bool HOLDS = !WIDE && SIZE == 2;
  static constexpr int WIDTH = WIDE || HOLDS ? 16 : SIZE;     // bytes of a piece
  static constexpr int IN_ROW = Tile::COLUMNS * SIZE / WIDTH; // pieces
  static constexpr int STEP = THREADS / IN_ROW;               // rows between two pieces of a thread
  static constexpr int COUNT = Tile::ROWS / STEP, EACH = (COUNT + PARTS - 1) / PARTS;
  static_assert(THREADS % IN_ROW == 0 && Tile::ROWS % STEP == 0, "threads cover whole rows");
  static_assert(!HOLDS || STEP % 8 == 0, "all pieces of a thread begin equally far from 16 bytes");

  const T *from; // this thread's next piece
  index_t ld;
  int rows, columns; // what is left of the operand from its first piece of the next tile on
  unsigned to;       // where it goes in shared memory
  bool first = threadIdx.x == 0; // is its next piece one that nothing may precede?
  uint4 low[HOLDS ? EACH : 1], high[HOLDS ? EACH : 1];

public:
  // `stage`: where in shared memory the first tile goes.
  __device__ __forceinline__ TileCopy(const Source &s, unsigned stage) : ld(s.ld) {
    const int row = threadIdx.x / IN_ROW, place = threadIdx.x % IN_ROW * WIDTH;
    from = s.data + row * ld + place / SIZE;
    rows = at_most(s.rows) - row, columns = at_most(s.columns) - place / SIZE;
    to = stage + Tile::offset(row, place / 16) + place % 16;
  }

  // Starts part `part` of the next tile on its way. Parts are to be started in order.
  __device__ __forceinline__ void begin(unsigned char *shared, int part) {
    const int bytes = max(0, min(columns * SIZE, WIDTH));
    const index_t step = opaque(STEP * ld); // else a multiple of it would be kept for every piece
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
      const int i = part * EACH + j;
      if (i >= COUNT) continue;
      if constexpr (HOLDS)
        load(j, i);
      else
        cp_async<WIDTH>(shared + place(i), from, i * STEP < rows ? bytes : 0);
      from += step;
    }
  }
  // To be called after begin(), as late as the loads need.
  __device__ __forceinline__ void end(unsigned char *shared, int part) const {
    if constexpr (HOLDS) {
#pragma unroll
      for (int j = 0; j < EACH; ++j) {
        const int i = part * EACH + j;
        if (i < COUNT)
          *(uint4 *)(shared + place(i)) = quick(i) ? shifted(low[j], high[j], shift()) : low[j];
      }
    }
  }
  // To be called after the last part: on to the next tile, which goes `stage` bytes further. From there on
  // `k` entries of K are left.
  __device__ __forceinline__ void next(index_t k, int stage) {
    if (Tile::K_IS_INNER) from += DEPTH - Tile::ROWS * ld; // else the rows of the next tile follow
    (Tile::K_IS_INNER ? columns : rows) += at_most(k) - at_most(k + DEPTH);
    to += stage;
    first = false;
  }

private:
  // Exact where it matters: no tile is that large, and so many entries still are an int of bytes.
  static __device__ __forceinline__ int at_most(index_t left) {
    return int(left < (1 << 24) ? left : (1 << 24));
  }
  // Bytes from a multiple of 16 to a piece of this thread, the same for all of them.
  __device__ __forceinline__ unsigned shift() const { return (unsigned long long)from % 16; }
  // Are both vectors around piece i inside the operand? Before and behind a row lies another one, as a rule.
  __device__ __forceinline__ bool quick(int i) const {
    const int left = rows - i * STEP;
    return columns >= VECTOR && left > 0 && (columns >= 2 * VECTOR || left > 1) &&
           !(i == 0 && first);
  }
  // Piece i, the j-th of its part.
  __device__ __forceinline__ void load(int j, int i) {
    if (!quick(i)) {
      low[j] = one_by_one(from, i * STEP < rows ? max(0, min(columns, VECTOR)) : 0);
      return;
    }
    const uint4 *aligned = (const uint4 *)(from - shift() / SIZE);
    low[j] = __ldg(aligned);
    if (shift()) high[j] = __ldg(aligned + 1);
  }
  // Of piece i in shared memory.
  __device__ __forceinline__ unsigned place(int i) const { return Tile::further(to, i * STEP); }
};
