// What fragment_slab.cuh does for tensor cores, where K may have been cut into parts: sums in shared memory,
// a slab of each part, are added up and go to C row by row, 16 bytes a lane where C allows it.
#pragma once

#include "epilogue.cuh"

template <int WIDTH> struct alignas(WIDTH * sizeof(T)) Neighbours {
  T at[WIDTH];
};

template <int WIDTH> union NeighbourBits {
  Neighbours<WIDTH> piece;
  int4 bits;
};

// H x W sums, LD apart. Where K was cut there are PARTS such slabs, `apart` sums apart, to be added up.
template <int H, int W, int LD, int PARTS = 1> struct Slab {
  const Acc *sums;
  int apart;

  template <int WIDTH>
  __device__ __forceinline__ void read(Acc (&to)[WIDTH], int row, int col) const {
#pragma unroll
    for (int e = 0; e < WIDTH; ++e) {
      to[e] = sums[row * LD + col + e];
#pragma unroll
      for (int part = 1; part < PARTS; ++part) to[e] += sums[part * apart + row * LD + col + e];
    }
  }

  // Row r goes to row row_in_warp(r) of what begins at `c`, of which `rows` x `columns` entries, or none, are
  // inside C. A lane takes BATCH pieces of WIDTH entries at a time. Nothing but accesses of C is conditional: no
  // branch stands between one piece's latency and the next one's.
  template <int WIDTH, int BATCH, bool ADD, class Rows>
  __device__ __forceinline__ void store(const Problem &p, T *c, int rows, int columns,
                                        Rows row_in_warp) const {
    constexpr int BESIDE = W / WIDTH < 32 ? W / WIDTH : 32, DOWN = 32 / BESIDE; // lanes
    constexpr int ACROSS = W / WIDTH / BESIDE, EACH = H / DOWN * ACROSS;        // pieces of a lane
    constexpr int MANY = EACH < BATCH ? EACH : ACROSS < BATCH ? BATCH : ACROSS;
    constexpr int STEP = MANY / ACROSS * DOWN;
    static_assert(W % (WIDTH * BESIDE) == 0 && H % STEP == 0, "lanes have equal shares");
    const int first = threadIdx.x % 32 / BESIDE, col = threadIdx.x % 32 % BESIDE * WIDTH;
    const index_t row_bytes = p.c.row_stride * sizeof(T);
    const index_t hop = WIDTH * BESIDE * (WIDTH > 1 ? 1 : p.c.col_stride);
    c += WIDTH > 1 ? col : col * p.c.col_stride;
#pragma unroll 1
    for (int row = first; row < H; row += STEP) {
      Neighbours<WIDTH> out[MANY];
      T *to[MANY];
      bool inside[MANY];
#pragma unroll
      for (int b = 0; b < MANY; ++b) {
        const int r = row + b / ACROSS * DOWN, s = b % ACROSS * BESIDE * WIDTH;
        const unsigned at = row_in_warp(r);
        inside[b] = int(at) < rows && col + s < columns;
        to[b] = (T *)((char *)c + at * row_bytes) + b % ACROSS * hop;
        if (ADD && inside[b]) out[b] = *(const Neighbours<WIDTH> *)to[b];
        finish<WIDTH, ADD>(p, out[b], r, col + s);
      }
#pragma unroll
      for (int b = 0; b < MANY; ++b) write_if(inside[b], to[b], out[b]);
    }
  }

  template <int WIDTH>
  static __device__ __forceinline__ void write_if(bool inside, T *to,
                                                  const Neighbours<WIDTH> &piece) {
    if constexpr (sizeof(piece) == 16) {
      if (inside)
        __stwb((int4 *)to, NeighbourBits<WIDTH>{piece}.bits); // = makes four stores of it here
    } else {
      if (inside) *(Neighbours<WIDTH> *)to = piece;
    }
  }

  // Epilogue of WIDTH neighbours; with ADD, `piece` is what C holds.
  template <int WIDTH, bool ADD>
  __device__ __forceinline__ void finish(const Problem &p, Neighbours<WIDTH> &piece, int row,
                                         int col) const {
    Acc sums[WIDTH];
    read(sums, row, col);
#pragma unroll
    for (int e = 0; e < WIDTH; ++e) {
      Acc result = Acc(p.alpha) * sums[e];
      if (ADD) result += Acc(p.beta) * to_acc(piece.at[e]);
      from_acc(result, piece.at[e]);
    }
  }
};

// The slab's first entry is (row, col) of C number `batch`. Called by a whole warp that has met at a barrier
// since the sums were written.
template <int BATCH, int H, int W, int LD, int PARTS, class Rows>
__device__ __forceinline__ void store_slab(const Problem &p, const Slab<H, W, LD, PARTS> &slab,
                                           index_t row, index_t col, index_t batch,
                                           Rows row_in_warp) {
  T *c = p.c.data + batch * p.c.batch_stride;
  const bool vectors = W % VECTOR == 0 && p.n % VECTOR == 0 && c_takes_vectors(p, c);
  c += row * p.c.row_stride + col * p.c.col_stride;
  const int rows = int(min(p.m - row, index_t(1 << 30))), columns = int(min(p.n - col, index_t(W)));
  if (vectors && p.beta != 0)
    slab.template store<VECTOR, BATCH, true>(p, c, rows, columns, row_in_warp);
  else if (vectors)
    slab.template store<VECTOR, BATCH, false>(p, c, rows, columns, row_in_warp);
  else if (p.beta != 0)
    slab.template store<1, BATCH, true>(p, c, rows, columns, row_in_warp);
  else
    slab.template store<1, BATCH, false>(p, c, rows, columns, row_in_warp);
}
