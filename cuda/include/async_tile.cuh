// Brings the slices of A or B that a block multiplies into shared memory by cp.async, stage after stage.
//
// A stage holds DEPTH x EXTENT entries as [k][i], with i (the row of A, the column of B) contiguous, whichever
// way the matrix is stored: then a thread reads its entries of one k as vectors. LD is the distance between
// two k. A matrix that is contiguous along i is copied 16 bytes at a time if its alignment allows it. Anything
// else goes entry by entry, each to its place: that turns a matrix that is contiguous along k, and it works at
// any alignment, for one or two more instructions in a hundred.
#pragma once
#include "cp_async.cuh"
#include "vector.cuh"

template <int EXTENT, int DEPTH, int LD> struct AsyncTile {
  static constexpr int ACROSS = THREADS / DEPTH; // threads that copy entries of the same k
  static constexpr int ENTRIES = EXTENT / ACROSS;
  static_assert(THREADS % DEPTH == 0 && EXTENT % (ACROSS * VECTOR) == 0,
                "every thread copies the same number of vectors");

  const T *from;         // this thread's first entry of the next stage
  index_t step, advance; // to its next entry, to its first one of the next stage
  int edge;              // how many i are left from its own on
  int k, to;             // its place along k, the place of its first entry in a stage
  bool vectors, inner;   // whole vectors may be copied; no i of the block lies outside

  // Entry (i, k) is data[i * stride_i + k * stride_k]; the block takes i from `first` on, of `extent`.
  __device__ __forceinline__ AsyncTile(const T *data, index_t stride_i, index_t stride_k, index_t first,
                                       index_t extent) {
    const bool along_k = stride_k == 1;
    vectors = !along_k && stride_i == 1 && aligned16(data, stride_k);
    inner = extent - first >= EXTENT;
    const int thread = threadIdx.x, width = vectors ? VECTOR : 1;
    const int i = (along_k ? thread / DEPTH : thread % ACROSS) * width;
    k = along_k ? thread % DEPTH : thread / ACROSS;
    from = data + (first + i) * stride_i + k * stride_k;
    step = ACROSS * stride_i, advance = DEPTH * stride_k;
    edge = inner ? EXTENT - i : int(extent - first) - i;
    to = k * LD + i;
  }

  // Starts copying the next stage, of which `left` k lie inside the matrix: none, if it is behind the last.
  __device__ __forceinline__ void copy(T *stage, index_t left) {
    if (inner && left >= DEPTH)
      copy_inside(stage + to);
    else if (left > 0)
      copy_at_edge(stage + to, left);
    from += advance;
  }

  __device__ __forceinline__ void copy_inside(T *stage) const {
    const T *entry = from;
    if (vectors) {
#pragma unroll
      for (int i = 0; i < ENTRIES * ACROSS; i += ACROSS * VECTOR) cp_async<16>(stage + i, from + i);
    } else {
#pragma unroll
      for (int e = 0; e < ENTRIES; ++e, entry += step)
        cp_async<sizeof(T)>(stage + e * ACROSS, entry);
    }
  }

  // Beyond the last k the stage is filled with zeros, which add nothing to any sum. Beyond the edge along i
  // it is left as it is: what lies there enters sums that C does not have.
  __device__ __forceinline__ void copy_at_edge(T *stage, index_t left) const {
    const T *entry = from;
    const int room = k < left ? int(sizeof(T)) : 0;
    if (vectors) {
#pragma unroll
      for (int i = 0; i < ENTRIES * ACROSS; i += ACROSS * VECTOR)
        if (i < edge) cp_async<16>(stage + i, from + i, room * min(edge - i, VECTOR));
    } else {
#pragma unroll
      for (int e = 0; e < ENTRIES; ++e, entry += step)
        if (e * ACROSS < edge) cp_async<sizeof(T)>(stage + e * ACROSS, entry, room);
    }
  }
};
