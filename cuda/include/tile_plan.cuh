// Which parts of C each cluster of a persistent grid computes, and in which order, so that the last round is short.
//
// Whole tiles come first, one for each cluster in a round. What remains is dealt out in pieces: tiles of an incomplete
// last round are cut along N (into CUTS at most) if a round takes all their pieces; and edges of C that fill no more
// than a part of a tile. At 4104 a tile of 256 x 256 has 33 such edges of 8, which would cost a fifth round of tiles.
// No sum is cut: a piece adds up all of K, so entries do not depend on which piece they are in.
#pragma once
#include "problem.cuh"
#include "tile_order.cuh"

struct Item {
  index_t row, column; // of C, or of C transposed; for this CTA
  unsigned batch;
  int width; // columns that its CTAs multiply
  bool
      shared; // by the CTAs of the cluster: those columns, at rows one below the other. Else: rows, columns side by side
};

// `left` rows and `right` columns are a CTA's whole tile; a cluster's are one below the other.
template <int left, int right, int cluster, int group, int cuts> struct TilePlan {
  static constexpr int TALL = left * cluster, NARROWEST = 64;
  // Edges up to so many rows or columns are pieces.
  static constexpr int SHORT = cluster > 1 ? left : 0, NARROW = cuts > 1 ? right / 2 : 0;
  static constexpr unsigned SPARE = 2; // pieces that take about as long as a whole tile

  index_t m, n;
  TileOrder order; // of the tiles that are no edges
  unsigned clusters, id, rank, beside, below, turn = 0;
  // Whole tiles: of all clusters, of this one, and of an incomplete last round; how often the others are halved.
  unsigned whole, tiles, late, halvings = 0;

  __device__ __forceinline__ TilePlan(index_t rows, index_t columns, index_t batch, unsigned rank)
      : m(rows), n(columns), order(m - SHORT, n - NARROW, batch, TALL, right),
        clusters(gridDim.x / cluster), id(blockIdx.x / cluster), rank(rank) {
    const unsigned rounds = order.count / clusters, rest = order.count - rounds * clusters;
    while (1 << halvings < cuts && rest << (halvings + 1) <= clusters) ++halvings;
    late = halvings ? 0 : rest;
    whole = rounds * clusters + late;
    tiles = rounds + (id < late);
    beside = n > index_t(order.columns) * right ? order.rows * unsigned(batch) : 0;
    below = m > index_t(order.rows) * TALL ? across() * unsigned(batch) : 0;
  }

  __device__ __forceinline__ unsigned across() const { return unsigned((n + right - 1) / right); }

  __device__ __forceinline__ unsigned pieces() const { return (order.count - whole) << halvings; }
  __device__ __forceinline__ bool more() const {
    return number() < whole + pieces() + beside + below;
  }
  __device__ __forceinline__ void operator++() { ++turn; }

  // Whole tiles, then pieces. Clusters that the last round of whole tiles leaves idle are the first to take some.
  __device__ __forceinline__ unsigned number() const {
    if (turn < tiles) return turn * clusters + id;
    const unsigned idle = late ? clusters - late : 0;
    unsigned i = turn - tiles;
    if (idle && id >= late) {
      if (i < SPARE) return whole + i * idle + id - late;
      i -= SPARE;
    }
    return whole + SPARE * idle + i * clusters + id;
  }

  __device__ __forceinline__ Item item() const {
    unsigned i = number();
    if (i < whole) return tile(i, right, 0);
    i -= whole;
    if (i < pieces()) {
      const int width = right >> halvings, piece = int(i & ((1u << halvings) - 1));
      return tile(whole + (i >> halvings), width, piece * width);
    }
    i -= pieces();
    return i < beside ? beside_all(i) : below_all(i - beside);
  }

private:
  __device__ __forceinline__ Item tile(unsigned index, int width, int on) const {
    const TileOrder::Place at = order.template operator()<group>(index);
    return {index_t(at.row) * TALL + rank * left, index_t(at.column) * right + on, at.batch, width,
            true};
  }
  __device__ __forceinline__ Item beside_all(unsigned i) const {
    const unsigned batch = i / order.rows;
    const index_t column = index_t(order.columns) * right;
    const int width = n - column <= NARROWEST ? NARROWEST : right / 2;
    return {index_t(i - batch * order.rows) * TALL + rank * left, column, batch, width, true};
  }
  // No more rows than one CTA computes: those of a cluster have columns of their own.
  __device__ __forceinline__ Item below_all(unsigned i) const {
    constexpr int width = right / cluster;
    const unsigned batch = i / across();
    return {index_t(order.rows) * TALL, index_t(i - batch * across()) * right + rank * width, batch,
            width, cluster == 1};
  }
};
