// Reads the fragments of a warp tile from a swizzled tile in shared memory, for either storage order.
//
// Registers of all fragments lie in one array: group G of eight rows of A (columns of B) and half h of the
// K of one mma are at f[slot(G, h)]. For A two groups make an mma operand of four registers, for B one of
// two.
//
// 16-bit entries, and tf32 with K inner: ldmatrix, which also transposes 16-bit entries on the way.
// tf32 with M or N inner: ldmatrix would tear the floats apart. A lane reads 16 bytes, four neighbours along M,
//   and calls them rows g of four different groups: which row of C that is, only the epilogue has to know.
// fp64: entry by entry, each to its register; 16 bytes at once would have to be moved about behind the read.
#pragma once

#include "ldmatrix.cuh"
#include "mma.cuh"
#include "swizzle.cuh"
#include "vector.cuh"

// Which row of the warp tile row g of group `group` is.
template <bool K_INNER> __device__ __forceinline__ int row_of(int group, int g) {
  if (sizeof(T) != 4 || K_INNER) return 8 * group + g;
  return group / VECTOR * (8 * VECTOR) + VECTOR * g + group % VECTOR;
}

struct alignas(16) Chunk {
  Reg at[16 / sizeof(Reg)];
};

// WARP: extent of the warp tile along M (IS_A) or N.
template <class Tile, int WARP, bool IS_A> struct Fragments {
  static constexpr int GROUPS = WARP / 8, COUNT = 2 * GROUPS; // registers
  static constexpr int PASS = 8 * VECTOR;                     // entries in 128 bytes
  static_assert((WARP & (WARP - 1)) == 0 && WARP >= 16, "chunks of a warp tile are reached by ^");
  static_assert(sizeof(T) != 4 || Tile::K_IS_INNER || WARP % PASS == 0,
                "whole passes of the banks");

  // Where this lane reads first in the tile at hand. What else it reads is reached by ^ and +: a tile begins
  // at a multiple of 128 bytes. It moves on with the stages.
  unsigned lane;

  // `first`: where the warp tile begins in the CTA tile; `tile`: where in shared memory that is.
  __device__ __forceinline__ Fragments(int first, unsigned tile)
      : lane(tile + lane_offset(threadIdx.x % 32, first)) {}

  static __device__ __forceinline__ unsigned lane_offset(int lane, int first) {
    if (Tile::LDMATRIX) {
      // The order of the four matrices is that of the registers: for A rows before halves of K, for B after.
      const bool straight = IS_A == Tile::K_IS_INNER;
      const int row = straight ? lane % 16 : lane % 8 + lane / 16 * 8;
      const int chunk = straight ? lane / 16 : lane / 8 % 2;
      return Tile::K_IS_INNER ? Tile::offset(first + row, chunk)
                              : Tile::offset(row, first / VECTOR + chunk);
    }
    const int g = lane / 4, t = lane % 4;
    if (sizeof(T) == 4) return Tile::offset(t, first / VECTOR + g);
    return Tile::K_IS_INNER ? Tile::offset(first + g, t / 2) + t % 2 * 8
                            : Tile::offset(t, first / 2 + g / 2) + g % 2 * 8;
  }

  static __device__ __forceinline__ int slot(int group, int half) {
    return IS_A ? group / 2 * 4 + group % 2 + 2 * half : group * 2 + half;
  }

  // Fragments of K step `step`, groups FIRST to FIRST + GROUPS_READ - 1.
  template <int FIRST = 0, int GROUPS_READ = GROUPS>
  __device__ __forceinline__ void read(Reg (&f)[COUNT], const unsigned char *shared,
                                       int step) const {
    if constexpr (Tile::LDMATRIX) {
#pragma unroll
      for (int i = FIRST / 2; i < (FIRST + GROUPS_READ) / 2; ++i) {
        if constexpr (Tile::K_IS_INNER)
          ldmatrix(f + 4 * i, shared + (lane ^ step * 32) + i * 16 * Tile::ROW_BYTES);
        else
          ldmatrix_transposed(f + 4 * i, shared + (lane ^ i * 32) + step * MMA_K * Tile::ROW_BYTES);
      }
    } else if constexpr (sizeof(T) ==
                         8) { // half a K of four is two chunks with K inner, else four rows
#pragma unroll
      for (int group = FIRST; group < FIRST + GROUPS_READ; ++group)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const unsigned at =
              Tile::K_IS_INNER ? (lane ^ (step * 64 + half * 32)) + group * 8 * Tile::ROW_BYTES
                               : (lane ^ group * 64) + (step * MMA_K + half * 4) * Tile::ROW_BYTES;
          f[slot(group, half)] = *(const Reg *)(shared + at);
        }
    } else { // tf32: row t + 4 half of K, as ldmatrix has it
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int pass = FIRST / VECTOR; pass < (FIRST + GROUPS_READ) / VECTOR; ++pass) {
          const int row = step * MMA_K + half * 4;
          const Chunk some = *(const Chunk *)(shared + lane + row * Tile::ROW_BYTES + pass * 128);
#pragma unroll
          for (int i = 0; i < VECTOR; ++i) f[slot(pass * VECTOR + i, half)] = some.at[i];
        }
    }
  }

  // To be called for what read() brought, before it is multiplied, as late as possible: it waits for it.
  template <int FIRST = 0, int GROUPS_READ = GROUPS>
  static __device__ __forceinline__ void convert(Reg (&f)[COUNT]) {
#pragma unroll
    for (int i = 0; i < 2 * GROUPS_READ; ++i) f[2 * FIRST + i] = to_operand(f[2 * FIRST + i]);
  }
};
