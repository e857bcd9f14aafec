// The consumers of a ring of stages: what one warpgroup multiplies, and when it hands a stage back. A stage is a
// narrow tile (128 lines of M or N) and a wide one, 128 bytes deep along K, as wgmma.cuh and tma.cuh have them.
#pragma once
#include "fragments.cuh"

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

// Both operands from shared memory: 64 rows of the narrow tile, the left factor, by the whole wide one.
template <int wide, bool narrow_mn, bool wide_mn, int senders> struct FromShared {
  float sums[wide / 2];

  template <class Stages>
  __device__ __forceinline__ void multiply(Stages &s, unsigned stage, int consumer) {
    const auto left = descriptor(s.narrow[stage] + consumer * 64 * 128, BLOCK_BYTES);
    const auto right = descriptor(s.wide[stage], BLOCK_BYTES);
    // A step of K is 32 bytes along a K-major line, or 16 lines (of 16-bit entries).
    constexpr int left_step = narrow_mn ? 16 * 128 : 32, right_step = wide_mn ? 16 * 128 : 32;
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < 4; ++i)
      wgmma<narrow_mn, wide_mn>(sums, moved(left, i * left_step), moved(right, i * right_step));
    wgmma_commit();
  }

  // A stage is released when the group after the one that read it has been started.
  template <class Stages, class Ring>
  __device__ __forceinline__ void run(Stages &s, Ring &ring, unsigned k_tiles, int consumer) {
#pragma unroll
    for (int i = 0; i < wide / 2; ++i) sums[i] = 0.0f;
    unsigned last = 0;
    for (unsigned i = 0; i < k_tiles; ++i, ++ring) {
      s.full[ring.stage].wait(ring.phase);
      multiply(s, ring.stage, consumer);
      wgmma_wait<1>();
      if (i > 0) release<senders>(s.empty[last]);
      last = ring.stage;
    }
    wgmma_wait<0>();
    pin(sums);
    if (k_tiles > 0) release<senders>(s.empty[last]);
  }
};

#if defined(STORAGE_float32)
// The wide operand, MN-major in shared memory, through registers as the left factor: 128 rows of it by the narrow
// tile. While one step of K is multiplied, the next one's fragments are read into the other registers.
template <int senders> struct FromRegisters {
  float sums[2][64];

  __device__ __forceinline__ void multiply(const Fragments &left, unsigned long long right) {
    wgmma_fence();
    wgmma(sums[0], left.of[0], right);
    wgmma(sums[1], left.of[1], right);
    wgmma_commit();
  }

  template <class Stages, class Ring>
  __device__ __forceinline__ void run(Stages &s, Ring &ring, unsigned k_tiles, int consumer) {
#pragma unroll
    for (int i = 0; i < 128; ++i) sums[i / 64][i % 64] = 0.0f;
    if (k_tiles == 0) return;
    const int block = (consumer * 4 + threadIdx.x / 32 % 4) * BLOCK_BYTES;
    Fragments left[2];
    s.full[ring.stage].wait(ring.phase);
    left[0].load(s.wide[ring.stage] + block);
    unsigned last = 0;
    for (unsigned i = 0; i < k_tiles; ++i) {
      const unsigned stage = ring.stage;
      const char *lines = s.wide[stage] + block;
      const auto right = descriptor(s.narrow[stage], BLOCK_BYTES);
      ++ring;
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        multiply(left[step % 2], moved(right, step * 32));
        wgmma_wait<
            1>(); // the step before is complete: its registers, at step 0 also its stage, are free
        if (step == 0 && i > 0) release<senders>(s.empty[last]);
        if (step < 3) {
          left[(step + 1) % 2].load(lines + (step + 1) * 1024);
        } else if (i + 1 < k_tiles) {
          s.full[ring.stage].wait(ring.phase);
          left[0].load(s.wide[ring.stage] + block);
        }
      }
      last = stage;
    }
    wgmma_wait<0>();
    pin(sums[0]);
    pin(sums[1]);
    release<senders>(s.empty[last]);
  }
};
#endif
