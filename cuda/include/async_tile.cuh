// Brings the slices of A or B that a block multiplies into shared memory by cp.async, stage after stage.
//
// A stage holds DEPTH x EXTENT entries as [k][i], with i (the row of A, the column of B) contiguous, whichever
// way the matrix is stored: then a thread reads its entries of one k as vectors. LD is the distance between
// two k. Entries are copied one by one, each to its place. That turns a matrix that is contiguous along k, it
// works at any alignment, and costs little: a thread with 8 x 16 sums copies 12 entries for 1024 multiply-adds.
//
// The first stage takes what K leaves over, and is filled up with zeros, which add nothing to any sum; all
// others are whole. Beyond the edge along i nothing is copied: what lies there enters sums that C does not have.
#pragma once
#include "cp_async.cuh"
#include "problem.cuh"

// I_INNER: whoever compiles it knows that stride_i is 1. Then a thread's entries are at known distances, and
// one address serves them all.
template <int EXTENT, int DEPTH, int LD, bool I_INNER = false> struct AsyncTile {
  static constexpr int ACROSS = THREADS / DEPTH; // threads that copy entries of the same k
  static constexpr int ENTRIES = EXTENT / ACROSS;
  static constexpr int PITCH = LD, STAGE = DEPTH * LD; // of a stage in shared memory
  static_assert(THREADS % DEPTH == 0 && EXTENT % ACROSS == 0, "threads copy equally many entries");
#ifndef RUN_K
#define RUN_K 8
#endif
  static constexpr int RUN =
      DEPTH < RUN_K ? DEPTH : RUN_K; // neighbours along k: as many go to different banks

  const T *from;      // this thread's next entry
  index_t step, turn; // from an entry to the next, and from its last one to the next stage
  index_t next_k;     // from an entry to that of the next k
  int k, to, inside; // its place along k, its first place in a stage, how many of its entries exist

  // Entry (i, k) is data[i * stride_i + k * stride_k]; the block takes i from `first` on, of `extent`.
  __device__ __forceinline__ AsyncTile(const T *data, index_t stride_i, index_t stride_k,
                                       index_t first, index_t extent) {
    const bool along_k =
        !I_INNER && stride_k == 1; // neighbouring threads take neighbours in memory
    const int t = threadIdx.x;
    k = along_k ? t % RUN + t / (RUN * ACROSS) * RUN : t / ACROSS;
    const int i = along_k ? t / RUN % ACROSS : t % ACROSS;
    from = data + (first + i) * stride_i + k * stride_k;
    next_k = stride_k;
    step = I_INNER ? 0 : ACROSS * stride_i, turn = DEPTH * stride_k - (ENTRIES - 1) * step;
    to = k * LD + i;
    inside = (int(min(extent - first, index_t(EXTENT))) - i + ACROSS - 1) / ACROSS;
  }

  // Starts copying the first stage, in which `depth` <= DEPTH of the k exist.
  __device__ __forceinline__ void copy_first(T *stage, int depth) {
#pragma unroll
    for (int e = 0; e < ENTRIES; ++e)
      if (e < inside)
        cp_async<sizeof(T)>(stage + to + e * ACROSS, from + e * (I_INNER ? ACROSS : step),
                            k < depth ? int(sizeof(T)) : 0);
    from += depth * next_k;
  }

  // Starts copying entry e of this thread, in order from 0 to ENTRIES - 1.
  __device__ __forceinline__ void copy(T *stage, int e) {
    cp_async_if<sizeof(T)>(e < inside, stage + to + e * ACROSS, from + (I_INNER ? e * ACROSS : 0));
    if (I_INNER && e < ENTRIES - 1) return;
    from += e == ENTRIES - 1 ? turn : step;
    asm("" : "+l"(from)); // else it is found by multiplication each time
  }

  __device__ __forceinline__ void copy_all(T *stage) {
#pragma unroll
    for (int e = 0; e < ENTRIES; ++e) copy(stage, e);
  }
};
