// y = alpha * A x + beta * y with A stored by columns, as 20_gemv_columns, the entries on their way lying in shared
// memory: a thread has a queue of its own there, which cp.async fills and the thread alone empties.
//
// What is on its way needs a place to land. In registers that is few bytes, all asked for at one time and all waited
// for before the next are asked for. In a queue a chunk is asked for as soon as one has been used: the same bytes stay
// in flight from the first k to the last. No thread reads what another one copied, so there is no barrier.
//
// /// kernel
// entry = "gemv_queue"
// op = "gemv"
// dtypes = ["float32", "float64", "float16", "bfloat16"]
// math = ["fp32", "fp64", "fp16", "bf16"]
// transposes = ["t"]
// launcher = "split_k"
// min_sm = 80
// teaches = "Bytes in flight need a place to land: a queue in shared memory holds more of them than registers."
//
// [[variant]]
// threads = [512, 1]
// tile = [32, 1, 256]
// shared_bytes = 131072
// defines = { LOADS = 4, BLOCKS_PER_SM = 1, HINT = 0, KEPT = 0 }
//
// [[variant]]
// name = "128"
// threads = [256, 1]
// tile = [128, 1, 64]
// shared_bytes = 65536
// defines = { LOADS = 4, BLOCKS_PER_SM = 3, HINT = 0, KEPT = 0 }
//
// [[variant]]
// name = "1024"
// threads = [1024, 1]
// tile = [32, 1, 256]
// shared_bytes = 131072
// defines = { LOADS = 4, BLOCKS_PER_SM = 1, HINT = 0, KEPT = 0 }
// ///
#include "columns.cuh"
#include "cp_async.cuh"

constexpr int CHUNK = LOADS * THREADS;            // pieces of LOADS values of k, of all threads
constexpr int CHUNKS = SHARED_BYTES / 16 / CHUNK; // on their way at one time
static_assert(CHUNKS >= 2, "a chunk is used while another one arrives");

extern __shared__ int4 dynamic[];

// The values of k that a thread takes one after the other, LOADS at a time.
template <bool SINGLE> struct Values {
  const Share &s;
  const T *a, *x; // of the next chunk to be asked for; x and single entries follow a chunk behind
  index_t step, count;

  // Puts the pieces of the next LOADS values on their way; of those that do not exist nothing is read.
  __device__ __forceinline__ void ask(int chunk) {
    Vector *to = (Vector *)dynamic + chunk * CHUNK + threadIdx.x;
#pragma unroll
    for (int j = 0; j < LOADS; ++j, a += step)
      cp_async<16>(to + j * THREADS, a, j < count && s.whole() ? 16 : 0);
    cp_async_commit();
    count -= LOADS;
  }
};

struct Narrow { // x, and entries outside whole pieces, of LOADS values of k
  Acc x[LOADS];
  T singles[LOADS][SINGLES];
};

template <bool SINGLE>
__device__ __forceinline__ Narrow narrow(const Share &s, const T *a, index_t step, const T *x,
                                         index_t count) {
  Narrow found;
#pragma unroll
  for (int j = 0; j < LOADS; ++j, a += step, x += s.groups) {
    found.x[j] = j < count ? load(x) : Acc(0);
    if constexpr (SINGLE)
#pragma unroll
      for (int e = 0; e < SINGLES; ++e)
        found.singles[j][e] = j < count && s.single(e) < s.width ? __ldg(a + s.single(e)) : T{};
  }
  return found;
}

template <bool SINGLE>
__device__ __forceinline__ void add(Sums &sums, const Narrow &narrow, int chunk) {
  const Vector *from = (const Vector *)dynamic + chunk * CHUNK + threadIdx.x;
#pragma unroll
  for (int j = 0; j < LOADS; ++j) {
    const Vector piece = from[j * THREADS];
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) sums.whole[v] += to_acc(piece.at[v]) * narrow.x[j];
    if constexpr (SINGLE)
#pragma unroll
      for (int e = 0; e < SINGLES; ++e)
        sums.single[e] += to_acc(narrow.singles[j][e]) * narrow.x[j];
  }
}

template <bool SINGLE>
__device__ __forceinline__ void add_up(const Share &s, const T *a, index_t step, const T *x,
                                       index_t count, Sums &sums) {
  Values<SINGLE> ahead{
      s, s.whole() ? a + s.head + s.me * VECTOR : (const T *)((unsigned long long)a / 16 * 16), x,
      step, count};
  Narrow now = narrow<SINGLE>(s, a, step, x, count);
  for (int chunk = 0; chunk < CHUNKS; ++chunk) ahead.ask(chunk);
  for (int chunk = 0; count > 0; count -= LOADS) {
    a += LOADS * step, x += LOADS * s.groups;
    const Narrow next = narrow<SINGLE>(s, a, step, x, count - LOADS);
    cp_async_wait<CHUNKS - 1>(); // for the oldest chunk
    add<SINGLE>(sums, now, chunk);
    ahead.ask(chunk);
    now = next;
    chunk = chunk + 1 == CHUNKS ? 0 : chunk + 1;
  }
  cp_async_wait<0>();
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) gemv_queue(const Problem p) {
  __shared__ Acc partial[THREADS * VECTOR];
  const Part part = part_of_block(p, TILE_K);
  const index_t row = index_t(part.tile) * TILE_M, ld = p.a.col_stride;
  Share share(p.m, row);
  const T *a = p.a.data + row + (part.begin + share.group) * ld;
  const T *x = p.b.data + part.begin + share.group;
  share.cut(a);

  Sums sums;
  const index_t count = share.count(part.end - part.begin), step = share.groups * ld;
  if (aligned16(p.a.data + row, ld) && share.width % VECTOR == 0) // the same for all threads
    add_up<false>(share, a, step, x, count, sums);
  else
    add_up<true>(share, a, step, x, count, sums);
  add_and_store(p, part, share, sums, partial);
}
