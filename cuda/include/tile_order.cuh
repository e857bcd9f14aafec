// The order in which a persistent grid takes the tiles of C: in swaths of `group` tiles, so that the tiles
// worked on at one time form a near-square of C and share what they read through L2.
#pragma once

// Counts are 32-bit: the launcher refuses more than 2^31 - 1 tiles, and a swath is no higher than C.
struct TileOrder {
  unsigned rows, columns, count;

  __device__ __forceinline__ TileOrder(long long m, long long n, long long batch, int tile_m,
                                       int tile_n)
      : rows(unsigned((m + tile_m - 1) / tile_m)), columns(unsigned((n + tile_n - 1) / tile_n)),
        count(rows * columns * unsigned(batch)) {}

  struct Place {
    unsigned row, column, batch;
  };

  // Tile number `index`: down a swath of `group` rows, then the next column, then the next swath. Divisions by what the
  // compiler does not know take long, so the usual case goes without.
  template <int group> __device__ __forceinline__ Place operator()(unsigned index) const {
    const unsigned each = rows * columns, batch = index < each ? 0 : index / each,
                   most = min(unsigned(group), rows);
    const unsigned in_batch = index - batch * each, swath = in_batch / (most * columns);
    const unsigned in_swath = in_batch - swath * (most * columns);
    const unsigned height = min(most, rows - swath * most);
    const unsigned column = height == group ? in_swath / group : in_swath / height;
    return {swath * most + in_swath - column * height, column, batch};
  }
};
