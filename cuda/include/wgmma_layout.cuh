// Which factor of wgmma each operand is, and how it lies. tf32 is read from shared memory K-major only: so where A and
// B both lie by rows, C' = B' * A' is computed, B being the left factor, which can go through registers.
#pragma once
#include "layout.cuh"
#include "problem.cuh"
#include "tile_plan.cuh"

constexpr bool TF32 = sizeof(T) == 4;
static_assert(!TF32 || TRANS_B || !TRANS_A, "the loader turns B");
constexpr bool SWAPPED = TF32 && !TRANS_A && !TRANS_B;
constexpr bool LEFT_MN = TRANS_A || SWAPPED, RIGHT_MN = !TRANS_B && !SWAPPED;
constexpr int LINE = 128 / sizeof(T); // entries: the K of a stage, the width of an MN-major block
constexpr int LEFT_BOX = LEFT_MN ? LINE : 128; // rows of C that a box belongs to

__device__ __forceinline__ unsigned k_tiles_of(const Problem &p) {
  return unsigned((p.k + LINE - 1) / LINE);
}

// What this cluster computes.
template <class Plan> __device__ __forceinline__ Plan plan_of(const Problem &p, unsigned rank) {
  return Plan(SWAPPED ? p.n : p.m, SWAPPED ? p.m : p.n, p.batch, rank);
}
