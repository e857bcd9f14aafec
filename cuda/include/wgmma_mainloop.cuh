// The consumers of a ring of stages: what one warpgroup multiplies, and when it hands a stage back. A stage is a
// tile of the left factor, 64 rows for each consumer, and one of the right factor, both 128 bytes deep along K.
#pragma once
#include "wgmma.cuh"
#include "wgmma_fragment.cuh"

// Where in the ring, and which phase of that stage's barriers.
template <int stages> struct Ring {
  unsigned stage = 0, phase = 0;
  __device__ __forceinline__ void operator++() {
    if (++stage == stages) stage = 0, phase ^= 1;
  }
};

// This warp reads the stage no more; each of the `senders` CTAs that write to it is told.
template <int senders> __device__ __forceinline__ void release(Barrier &empty) {
  const unsigned lane = threadIdx.x % 32;
  if constexpr (senders > 1) {
    if (lane < senders) empty.arrive_in(lane);
  } else if (lane == 0) {
    empty.arrive();
  }
}

constexpr int BLOCK_BYTES = 128 / sizeof(T) * 128; // the lines of one MN-major block

// Hands the stages of a tile on without a look at them: a consumer whose rows all lie outside C.
template <int senders, class Stages, class Ring>
__device__ __forceinline__ void pass_over(Stages &s, Ring &ring, unsigned k_tiles) {
  for (unsigned i = 0; i < k_tiles; ++i, ++ring) {
    s.full[ring.stage].wait(ring.phase);
    release<senders>(s.empty[ring.stage]);
  }
}

// Both factors from shared memory. `run` leaves the sums of `columns` columns in the first columns / 2 of `sums`.
template <int most, bool left_mn, bool right_mn, int senders> struct FromShared {
  static constexpr bool ROWS_MN = false; // the order of rows in the sums: see Fragment
  float sums[most / 2];

  template <int columns, class Stages>
  __device__ __forceinline__ void multiply(Stages &s, unsigned stage, int consumer) {
    const auto left = descriptor(s.left[stage] + consumer * 64 * 128, BLOCK_BYTES);
    const auto right = descriptor(s.right[stage], BLOCK_BYTES);
    // A step of K is 32 bytes along a K-major line, or 16 lines (of 16-bit entries).
    constexpr int left_step = left_mn ? 16 * 128 : 32, right_step = right_mn ? 16 * 128 : 32;
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < 4; ++i)
      wgmma<left_mn, right_mn>(first_of<columns / 2>(sums), moved(left, i * left_step),
                               moved(right, i * right_step));
    wgmma_commit();
  }

  // A stage is released when the group after the one that read it has been started.
  template <int columns, class Stages, class Ring>
  __device__ __forceinline__ void run(Stages &s, Ring &ring, unsigned k_tiles, int consumer) {
#pragma unroll
    for (int i = 0; i < columns / 2; ++i) sums[i] = 0.0f;
    unsigned last = 0;
    for (unsigned i = 0; i < k_tiles; ++i, ++ring) {
      s.full[ring.stage].wait(ring.phase);
      multiply<columns>(s, ring.stage, consumer);
      wgmma_wait<1>();
      if (i > 0) release<senders>(s.empty[last]);
      last = ring.stage;
    }
    wgmma_wait<0>();
    pin(first_of<columns / 2>(sums));
    if (k_tiles > 0) release<senders>(s.empty[last]);
  }
};

#if defined(STORAGE_float32)
// The left factor, MN-major in shared memory, through registers. While one step of K is multiplied, the next one's
// fragment is read into the other registers.
template <int most, int senders> struct FromRegisters {
  static constexpr bool ROWS_MN = true;
  float sums[most / 2];

  template <int columns, class Stages, class Ring>
  __device__ __forceinline__ void run(Stages &s, Ring &ring, unsigned k_tiles, int consumer) {
#pragma unroll
    for (int i = 0; i < columns / 2; ++i) sums[i] = 0.0f;
    if (k_tiles == 0) return;
    const int rows = consumer * 64 * 128;
    Fragment<true> left[2];
    s.full[ring.stage].wait(ring.phase);
    left[0].load(s.left[ring.stage] + rows, 0);
    unsigned last = 0;
    for (unsigned i = 0; i < k_tiles; ++i) {
      const unsigned stage = ring.stage;
      const auto right = descriptor(s.right[stage], 0);
      ++ring;
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        wgmma_fence();
        wgmma(first_of<columns / 2>(sums), left[step % 2].of, moved(right, step * 32));
        wgmma_commit();
        wgmma_wait<
            1>(); // the step before is complete: its registers, at step 0 its stage, are free
        if (step == 0 && i > 0) release<senders>(s.empty[last]);
        if (step < 3) {
          left[(step + 1) % 2].load(s.left[stage] + rows, step + 1);
        } else if (i + 1 < k_tiles) {
          s.full[ring.stage].wait(ring.phase);
          left[0].load(s.left[ring.stage] + rows, 0);
        }
      }
      last = stage;
    }
    wgmma_wait<0>();
    pin(first_of<columns / 2>(sums));
    release<senders>(s.empty[last]);
  }
};
#endif
