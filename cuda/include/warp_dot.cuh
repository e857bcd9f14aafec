// The dot product of a stretch of a row of A with x, by a number of threads side by side: 16 bytes at a time,
// LOADS accesses in flight in each thread. Bandwidth is bytes in flight over latency: on an H200 4.2 TB/s times
// about 0.7 us, some 22 KB for each of 132 SMs, which 512 threads with four 16-byte loads each go well beyond.
#pragma once
#include "l2_share.cuh"

// Adds LOADS pieces of a and x, STRIDE pieces apart: all of a is on its way before the first sum.
// CHECKED: only the pieces before `left` are there. ALIKE: x lies on a 16-byte boundary as a does; else its
// entries are read one by one, from L1, where the first of them has put the others.
template <int STRIDE, bool ALIKE, bool CHECKED, class Reads>
__device__ __forceinline__ void add_pieces(const Reads &reads, const T *a, const T *x, index_t left,
                                           Acc (&sums)[2]) {
  Vector parts[LOADS];
#pragma unroll
  for (int j = 0; j < LOADS; ++j)
    if (!CHECKED || j * STRIDE < left) parts[j] = reads.load(a + j * STRIDE * VECTOR);
#pragma unroll
  for (int j = 0; j < LOADS; ++j)
    if (!CHECKED || j * STRIDE < left)
      sums[j % 2] = dot(parts[j], load_vector(x + j * STRIDE * VECTOR, ALIKE), sums[j % 2]);
}

// The share of thread `me`, of STRIDE that work together, of `packs` whole pieces of a and x.
template <int STRIDE, bool ALIKE, class Reads>
__device__ __forceinline__ Acc packs_dot(const Reads &reads, const T *a, const T *x, index_t packs,
                                         int me) {
  Acc sums[2] = {};
  index_t left = packs - me;
  a += me * VECTOR, x += me * VECTOR;
  for (; left > (LOADS - 1) * STRIDE; left -= LOADS * STRIDE) {
    add_pieces<STRIDE, ALIKE, false>(reads, a, x, left, sums);
    a += LOADS * STRIDE * VECTOR, x += LOADS * STRIDE * VECTOR;
  }
  add_pieces<STRIDE, ALIKE, true>(reads, a, x, left, sums);
  return sums[0] + sums[1];
}

// The share of thread `me`, of STRIDE that work together, of a[0..count) . x[0..count), `a` being peeled to its first
// 16-byte boundary.
template <int STRIDE, class Reads>
__device__ __forceinline__ Acc row_dot_by(const Reads &reads, const T *a, const T *x, index_t count,
                                          int me) {
  index_t head = to_boundary(a);
  if (head > count) head = count;
  Acc sum = 0;
  for (int i = me; i < head; i += STRIDE) sum += load(a + i) * load(x + i);
  a += head, x += head, count -= head;

  const index_t packs = count / VECTOR;
  for (index_t i = packs * VECTOR + me; i < count; i += STRIDE) sum += load(a + i) * load(x + i);
  return sum + (to_boundary(x) == 0 ? packs_dot<STRIDE, true>(reads, a, x, packs, me)
                                    : packs_dot<STRIDE, false>(reads, a, x, packs, me));
}

template <int STRIDE>
__device__ __forceinline__ Acc row_dot(const Problem &p, const T *a, const T *x, index_t count,
                                       int me) {
  return keeps_share(p) ? row_dot_by<STRIDE>(KeepingShare(p), a, x, count, me)
                        : row_dot_by<STRIDE>(Streaming(p), a, x, count, me);
}

// The sum over COUNT neighbours, in the first of them; all 32 lanes of the warp must come here.
template <int COUNT = 32> __device__ __forceinline__ Acc lane_sum(Acc sum) {
#pragma unroll
  for (int step = COUNT / 2; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  return sum;
}
