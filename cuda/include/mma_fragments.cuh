// Reads the fragments of a warp tile from a swizzled tile in shared memory, for either storage order.
//
// Registers of all fragments lie in one array: group G of eight rows of A (columns of B) and half h of the K of
// one mma are at f[slot(G, h)]. For A two groups make an mma operand of four registers, for B one of two.
//
// 16-bit entries, and tf32 with K inner: ldmatrix, which also transposes 16-bit entries on the way.
// tf32 with M or N inner: ldmatrix would tear the floats apart. A lane reads 16 bytes, four neighbours along M,
//   and calls them rows g of four different groups: which row of C that is, only the epilogue has to know.
// fp64: a lane reads 16 bytes; with K inner they are its entries of both halves, else rows of two groups.
#pragma once

#include "ldmatrix.cuh"
#include "mma.cuh"
#include "opaque.cuh"
#include "swizzle.cuh"
#include "vector.cuh"

// Which row of the warp tile row g of group `group` is.
__device__ __forceinline__ int row_of(bool k_inner, int group, int g) {
  if (sizeof(T) == 2 || k_inner) return 8 * group + g;
  return group / VECTOR * (8 * VECTOR) + VECTOR * g + group % VECTOR;
}

struct alignas(16) Chunk {
  Reg at[16 / sizeof(Reg)];
};
__device__ __forceinline__ Chunk read_chunk(const unsigned char *from) {
  return *(const Chunk *)from;
}

// WARP: extent of the warp tile along M (IS_A) or N.
template <class Tile, int WARP, bool IS_A> struct FragmentReader {
  static constexpr int GROUPS = WARP / 8, COUNT = 2 * GROUPS; // registers
  static constexpr int PASS = 8 * VECTOR; // entries in 128 bytes
  static_assert((WARP & (WARP - 1)) == 0 && WARP >= 16, "chunks of a warp tile are reached by ^");
  static_assert(Tile::LDMATRIX || Tile::K_IS_INNER || WARP % PASS == 0, "whole passes of the banks");

  // Where in a tile a lane reads first; `first`: where the warp tile begins in the CTA tile.
  static __device__ __forceinline__ unsigned lane_offset(int lane, int first) {
    if (Tile::LDMATRIX) {
      // The order of the four matrices is that of the registers: for A rows before halves of K, for B after.
      const bool straight = IS_A == Tile::K_IS_INNER;
      const int row = straight ? lane % 16 : lane % 8 + lane / 16 * 8;
      const int chunk = straight ? lane / 16 : lane / 8 % 2;
      return Tile::K_IS_INNER ? Tile::offset(first + row, chunk)
                              : Tile::offset(row, first / VECTOR + chunk);
    }
    if (Tile::K_IS_INNER) return Tile::offset(first + lane / 4, lane % 4);
    const int row = sizeof(T) == 8 ? 2 * (lane % 4) : lane % 4;
    return Tile::offset(row, first / VECTOR + lane / 4);
  }

  static __device__ __forceinline__ int slot(int group, int half) {
    return IS_A ? group / 2 * 4 + group % 2 + 2 * half : group * 2 + half;
  }

  // Fragments of K step `step` of the tile at `tile`, groups FIRST to FIRST + GROUPS_READ - 1.
  template <int FIRST, int GROUPS_READ>
  static __device__ __forceinline__ void read(Reg (&f)[COUNT], const unsigned char *tile,
                                              unsigned lane_offset, int step) {
    if constexpr (Tile::LDMATRIX) {
#pragma unroll
      for (int i = FIRST / 2; i < (FIRST + GROUPS_READ) / 2; ++i) {
        if constexpr (Tile::K_IS_INNER)
          ldmatrix(f + 4 * i, tile + (lane_offset ^ step * 32) + i * 16 * Tile::ROW_BYTES);
        else
          ldmatrix_transposed(f + 4 * i,
                              tile + (lane_offset ^ i * 32) + step * MMA_K * Tile::ROW_BYTES);
      }
    } else if constexpr (Tile::K_IS_INNER) { // fp64: entries 2t and 2t + 1 of K are a lane's halves
#pragma unroll
      for (int group = FIRST; group < FIRST + GROUPS_READ; ++group) {
        const Chunk two =
            read_chunk(tile + (lane_offset ^ step * 64) + group * 8 * Tile::ROW_BYTES);
        f[slot(group, 0)] = two.at[0], f[slot(group, 1)] = two.at[1];
      }
    } else { // fp64: row 2t + half of K, as above; tf32: row t + 4 half, as ldmatrix has it
      constexpr int HALF = sizeof(T) == 8 ? 1 : 4;
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int pass = FIRST / VECTOR; pass < (FIRST + GROUPS_READ) / VECTOR; ++pass) {
          const int row = step * MMA_K + half * HALF;
          const Chunk some = read_chunk(tile + lane_offset + row * Tile::ROW_BYTES + pass * 128);
#pragma unroll
          for (int i = 0; i < VECTOR; ++i) f[slot(pass * VECTOR + i, half)] = some.at[i];
        }
    }
  }
};

// One operand of a warp: either storage order, found out at run time and the same for all threads of a block.
template <int EXTENT, int DEPTH, int WARP, bool IS_A> struct Fragments {
  using TileK = OperandTile<EXTENT, DEPTH, true>;
  using TileOuter = OperandTile<EXTENT, DEPTH, false>;
  using ReaderK = FragmentReader<TileK, WARP, IS_A>;
  using ReaderOuter = FragmentReader<TileOuter, WARP, IS_A>;
  static constexpr int COUNT = ReaderK::COUNT, BYTES = TileK::BYTES;

  bool k_inner;
  unsigned lane_offset;

  __device__ __forceinline__ Fragments(bool k_inner, int first) : k_inner(k_inner) {
    const int lane = threadIdx.x % 32;
    lane_offset =
        k_inner ? ReaderK::lane_offset(lane, first) : ReaderOuter::lane_offset(lane, first);
  }
  template <int FIRST = 0, int GROUPS_READ = WARP / 8>
  __device__ __forceinline__ void read(Reg (&f)[COUNT], const unsigned char *tile, int step) const {
    if (k_inner)
      ReaderK::template read<FIRST, GROUPS_READ>(f, tile, opaque(lane_offset), step);
    else
      ReaderOuter::template read<FIRST, GROUPS_READ>(f, tile, opaque(lane_offset), step);
#pragma unroll
    for (int group = FIRST; group < FIRST + GROUPS_READ; ++group)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Reg &x = f[ReaderK::slot(group, half)];
        x = to_operand(x);
      }
  }
};
