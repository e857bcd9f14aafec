// A pipeline of COUNT stages in shared memory: cp.async fills the ones ahead while a block multiplies the oldest.
//
// Of the stages one is being multiplied, COUNT - 1 are on their way or there. Every copy() ends a group of
// cp.async, an empty one behind the last stage too, so that "at most COUNT - 2 groups are missing" always means
// that the oldest stage has come. One barrier a step is enough: behind it this stage is there, what every thread
// copied of it, and nobody reads the one before any more, which is the one to be filled next.
#pragma once
#include "async_tile.cuh"
#include "register_tile.cuh"

template <int COUNT, class ATile, class BTile> struct Pipeline {
  static constexpr int OF_A = ATile::STAGE, STAGE = OF_A + BTile::STAGE; // A's part, then B's
  static_assert(COUNT >= 2 && COUNT * STAGE * sizeof(T) <= SHARED_BYTES, "the stages fit");

  T *shared;
  ATile a;
  BTile b;
  unsigned steps = 0;

  __device__ __forceinline__ void copy(unsigned step, int stage) {
    if (step < steps) a.copy_all(shared + stage * STAGE);
    if (step < steps) b.copy_all(shared + stage * STAGE + OF_A);
    cp_async_commit();
  }

  // All stages but one, from the beginning of `k` entries of K on.
  __device__ __forceinline__ void start(index_t k) {
    steps = unsigned((k + TILE_K - 1) / TILE_K);
    const int left_over = int(k - index_t(TILE_K) * (steps - 1));
    if (steps > 0) {
      a.copy_first(shared, left_over);
      b.copy_first(shared + OF_A, left_over);
    }
    cp_async_commit();
    for (int stage = 1; stage < COUNT - 1; ++stage) copy(stage, stage);
  }

  // The thread's first row and column in the tile are `row` and `col`.
  template <class Mine> __device__ __forceinline__ void multiply(Mine &mine, int row, int col) {
    int reading = 0, writing = COUNT - 1;
    for (unsigned step = 0; step < steps; ++step) {
      cp_async_wait<COUNT - 2>();
      __syncthreads(); // this stage is there, and the one before has been read
      copy(step + COUNT - 1, writing);
#pragma unroll
      for (int k = 0; k < TILE_K; ++k) {
        const T *stage = shared + reading * STAGE;
        typename Mine::Fragments fragments;
        fragments.read(stage + k * ATile::PITCH + row, stage + OF_A + k * BTile::PITCH + col);
        mine.multiply(fragments);
      }
      writing = reading;
      reading = reading + 1 == COUNT ? 0 : reading + 1;
    }
  }
};
