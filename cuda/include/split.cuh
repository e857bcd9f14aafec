// Split K: several blocks add up parts of the same tile of C, and the block that arrives last adds the parts.
//
// A block leaves its partial sums in the workspace and takes a ticket; whoever draws the last one knows that
// all the others have written, reads their sums in the order of the parts (whatever the order of arrival, so
// that two runs give the same bits) and goes on with the total. Nobody waits, so no block needs another one to
// be resident. With more than SPLIT_FAN parts this happens twice, like a tree: the last of each group of
// neighbours adds that group, and the last group adds the groups.
#pragma once
#include "problem.cuh"

constexpr unsigned SPLIT_FAN = 16;

// The tile and the part [begin, end) of K that belong to this block. Parts are whole multiples of `step`.
struct Part {
  unsigned tile, number;
  index_t begin, end;
};

// All tiles of one part are neighbours, so that blocks that run together read the same rows of B.
__device__ __forceinline__ Part part_of_block(const Problem &p, int step) {
  const unsigned splits = unsigned(p.splits), tiles = gridDim.x / splits;
  if (splits == 1) return {blockIdx.x, 0, 0, p.k}; // two 64-bit divisions less
  const unsigned number = blockIdx.x / tiles;
  const index_t steps = (p.k + step - 1) / step;
  const index_t begin = steps * number / splits * step, end = steps * (number + 1) / splits * step;
  return {blockIdx.x - number * tiles, number, begin, end < p.k ? end : p.k};
}

// True in every thread of the block that is the last of `count` to come here. All that the others wrote
// before is then visible to it. The count goes back to 0 by itself, ready for the next launch.
__device__ __forceinline__ bool last_to_arrive(unsigned *ticket, unsigned count) {
  __threadfence();
  __syncthreads();
  const bool first = threadIdx.x == 0 && threadIdx.y == 0;
  const bool last = __syncthreads_or(first && atomicInc(ticket, count - 1) == count - 1);
  __threadfence();
  return last;
}

// The number of this thread, whatever the shape of the block.
__device__ __forceinline__ int thread_number() { return threadIdx.y * THREADS_X + threadIdx.x; }

// This thread's first partial sum of one part; the others follow HOLDERS apart, so that neighbouring threads
// lie side by side.
template <int COUNT, int HOLDERS>
__device__ __forceinline__ Acc *partial_sum(const Problem &p, const Part &part, unsigned number) {
  const index_t tile = index_t(part.tile) * p.splits + number;
  return p.workspace + tile * (COUNT * HOLDERS) + thread_number();
}

// Adds the sums of parts first, first + stride, ... (`count` of them) in this order.
// They are read past L1, which may hold what another launch left there.
template <int COUNT, int HOLDERS>
__device__ __forceinline__ void add_in_order(const Problem &p, const Part &part, unsigned first,
                                             unsigned stride, unsigned count, Acc (&sums)[COUNT]) {
  if (thread_number() >= HOLDERS) return;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) sums[i] = 0;
#pragma unroll(COUNT < 16 ? 16 / COUNT : 1) // loads of one thread in flight
  for (unsigned j = 0; j < count; ++j) {
    const Acc *from = partial_sum<COUNT, HOLDERS>(p, part, first + j * stride);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sums[i] += __ldcg(from + i * HOLDERS);
  }
}

template <int COUNT, int HOLDERS>
__device__ __forceinline__ void leave(const Problem &p, const Part &part, unsigned number,
                                      const Acc (&sums)[COUNT]) {
  if (thread_number() >= HOLDERS) return;
  Acc *to = partial_sum<COUNT, HOLDERS>(p, part, number);
#pragma unroll
  for (int i = 0; i < COUNT; ++i) to[i * HOLDERS] = sums[i];
}

// Given each thread's COUNT sums over this block's part; true in the one block that then holds the sums over
// all of K. Every thread of the block must come here, but only the first HOLDERS of them hold sums.
template <int COUNT, int HOLDERS = THREADS>
__device__ __forceinline__ bool add_parts(const Problem &p, const Part &part, Acc (&sums)[COUNT]) {
  static_assert(COUNT * HOLDERS <= TILE_M * TILE_N, "the workspace has room for one tile");
  const unsigned splits = unsigned(p.splits);
  if (splits == 1) return true;
  const unsigned groups = (splits + SPLIT_FAN - 1) / SPLIT_FAN, group = part.number / SPLIT_FAN;
  const unsigned first = group * SPLIT_FAN;
  const unsigned members = splits - first < SPLIT_FAN ? splits - first : SPLIT_FAN;
  unsigned *tickets =
      p.tickets + index_t(part.tile) * splits; // groups + 1 <= splits of them are used

  leave<COUNT, HOLDERS>(p, part, part.number, sums);
  if (!last_to_arrive(tickets + group, members)) return false;
  add_in_order<COUNT, HOLDERS>(p, part, first, 1, members, sums);
  if (groups == 1) return true;

  leave<COUNT, HOLDERS>(p, part, first,
                        sums); // in place of the group's first part, which nobody reads again
  if (!last_to_arrive(tickets + groups, groups)) return false;
  add_in_order<COUNT, HOLDERS>(p, part, 0, SPLIT_FAN, groups, sums);
  return true;
}
