// How a tile of an operand lies in shared memory, without padding and without bank conflicts.
//
// A row of the tile is a run of entries that are neighbours in the caller's memory, in chunks of 16 bytes.
// Eight chunks pass all 32 banks, so a column of chunks would lie in four banks only. Chunk c of row r is
// kept at place c ^ s(r) instead: rows stay whole, and s is chosen so that the lanes of one phase of a read
// (128 bytes) meet eight different places modulo 8. Who reads together depends on the type (mma_fragments.cuh),
// and so does s.
#pragma once

#include "problem.cuh"

// EXTENT along M or N, DEPTH along K; K_INNER: K is the direction in which neighbours lie.
template <int EXTENT, int DEPTH, bool K_INNER> struct OperandTile {
  static constexpr bool K_IS_INNER = K_INNER;
  static constexpr int ROWS = K_INNER ? EXTENT : DEPTH, COLUMNS = K_INNER ? DEPTH : EXTENT;
  static constexpr int ROW_BYTES = COLUMNS * int(sizeof(T)), BYTES = ROWS * ROW_BYTES;
  static constexpr bool LDMATRIX = sizeof(T) == 2 || (sizeof(T) == 4 && K_INNER);
  static_assert(ROW_BYTES % 128 == 0 || (ROW_BYTES == 64 && LDMATRIX), "whole passes of the banks");

  static __device__ __forceinline__ int swizzle(int row) {
    if (LDMATRIX) // eight rows, the same chunk; two rows of 64 bytes share a pass of the banks
      return ROW_BYTES == 64 ? row / 2 % 4 : row % 8;
    return row % 4 * 2; // four rows, two chunks
  }
  // In bytes. Chunks that differ in bits where `chunk` has zeros may be reached by ^ with 16 times those
  // bits.
  static __device__ __forceinline__ unsigned offset(int row, int chunk) {
    return row * ROW_BYTES + (chunk ^ swizzle(row)) * 16;
  }
  // `rows` rows behind the place `offset` of a row whose number has no bits in common with `rows`.
  static __device__ __forceinline__ unsigned further(unsigned offset, int rows) {
    return (offset ^ swizzle(rows) * 16) + rows * ROW_BYTES;
  }
};
