// y = alpha * A x + beta * y with A stored by columns (the transposed product): neighbouring threads take
// neighbouring entries of y, 16 bytes each, and K is shared out among groups of threads and among blocks.
//
// Entry (row, k) of A lies at k * ld + row, so a group of threads that takes every so many-th k, a multiple of
// VECTOR, meets the same misalignment each time (VECTOR entries times any ld are whole 16-byte pieces): what lies
// before the first boundary and behind the last one is the same few rows all along, and costs a narrow load per k.
//
// The tile decides between two costs. A narrow one (32) leaves enough tiles for every SM from 4096 rows on, and no
// block meets another; with wide ones K is cut as well, which smaller matrices need to fill the GPU, and which
// costs some 2 us for the meeting in L2. A short K (256) wants few blocks with much to read in each row.
//
// /// kernel
// entry = "gemv_columns"
// op = "gemv"
// dtypes = ["float32", "float64", "float16", "bfloat16"]
// math = ["fp32", "fp64", "fp16", "bf16"]
// transposes = ["t"]
// launcher = "split_k"
// min_sm = 50
// teaches = "The layout chooses the parallel direction; who shares a result meets in shared memory, then in L2."
//
// [[variant]]
// threads = [256, 1]
// tile = [128, 1, 64]
// defines = { LOADS = 4, BLOCKS_PER_SM = 3, STREAM = 1 }
//
// [[variant]]
// name = "32"
// threads = [512, 1]
// tile = [32, 1, 256]
// defines = { LOADS = 8, BLOCKS_PER_SM = 1, STREAM = 1 }
//
// [[variant]]
// name = "256"
// threads = [256, 1]
// tile = [256, 1, 32]
// defines = { LOADS = 4, BLOCKS_PER_SM = 3, STREAM = 1 }
// ///
#include "pieces.cuh"
#include "split.cuh"

constexpr int GROUP = TILE_M / VECTOR; // threads that read the TILE_M entries of one k
constexpr int ODD = 2 * VECTOR - 2;    // entries of one k that may lie outside whole pieces
constexpr int SINGLES = (ODD + GROUP - 1) / GROUP; // of them, those of a thread
static_assert(THREADS % GROUP == 0 && TILE_K % (THREADS / GROUP) == 0, "groups share K evenly");
static_assert(THREADS / GROUP % VECTOR == 0, "a group meets one misalignment only");

// How the entries of one k are shared by a group of `size` threads: `head` entries before the first boundary,
// `packs` whole pieces of 16 bytes, and those from `rest` on.
struct Share {
  int size, groups, me, group, head, packs, rest, width;

  __device__ __forceinline__ Share(index_t rows, index_t first) {
    size =
        GROUP; // fewer threads for a matrix that is narrower than the tile: more values of k at once
    while (size > 1 && rows * 2 <= size * VECTOR && min(rows, index_t(ODD)) * 2 <= size * SINGLES)
      size /= 2;
    groups = THREADS / size, me = threadIdx.x % size, group = threadIdx.x / size;
    width = int(min(rows - first, index_t(TILE_M)));
  }
  __device__ __forceinline__ void cut(const T *a) {
    head = min(to_boundary(a), width);
    packs = (width - head) / VECTOR, rest = head + packs * VECTOR;
  }
  // Threads 0, 1, ... of the group take the entries before the first piece and behind the last one.
  __device__ __forceinline__ int single(int e) const {
    const int at = me + e * size;
    return at < head ? at : rest + at - head;
  }
};

// Adds the pieces of LOADS values of k: all of them are on their way before the first sum.
// CHECKED: only those before `left` are there.
template <bool CHECKED>
__device__ __forceinline__ void add_pieces(const T *a, const T *x, index_t step, int groups,
                                           index_t left, Acc (&sums)[VECTOR]) {
  Vector parts[LOADS];
#pragma unroll
  for (int j = 0; j < LOADS; ++j, a += step)
    if (!CHECKED || j * groups < left) parts[j] = load_once(a);
#pragma unroll
  for (int j = 0; j < LOADS; ++j, x += groups) {
    if (CHECKED && j * groups >= left) break;
    const Acc factor = load(x);
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) sums[v] += to_acc(parts[j].at[v]) * factor;
  }
}

// The same for an entry outside the whole pieces; few threads have one, and only in a ragged matrix.
__device__ __forceinline__ void add_singles(const T *a, const T *x, index_t step, int groups,
                                            index_t left, Acc &sum) {
#pragma unroll
  for (int j = 0; j < LOADS; ++j, a += step, x += groups)
    if (j * groups < left) sum += load(a) * load(x);
}

// partial[g * width + i], g = 0 ... groups - 1, added up over g in a fixed order, in two steps: first every
// thread adds up some of the groups for one i, then one thread what these have left.
__device__ __forceinline__ void add_groups(Acc *partial, int groups, int width) {
  const int chunks = min(groups, max(1, min(16, THREADS / width)));
  for (int e = threadIdx.x; e < chunks * width; e += THREADS)
    for (int at = e + chunks * width; at < groups * width; at += chunks * width)
      partial[e] += partial[at];
  __syncthreads();
  for (int e = threadIdx.x; e < width; e += THREADS)
    for (int c = 1; c < chunks; ++c) partial[e] += partial[e + c * width];
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) gemv_columns(const Problem p) {
  __shared__ Acc partial[THREADS * VECTOR];
  const Part part = part_of_block(p, TILE_K);
  const index_t row = index_t(part.tile) * TILE_M, ld = p.a.col_stride;
  Share share(p.m, row);
  const T *a = p.a.data + row + (part.begin + share.group) * ld;
  const T *x = p.b.data + part.begin + share.group;
  share.cut(a);
  const bool whole = share.me < share.packs;
  const T *wide = a + share.head + share.me * VECTOR;

  Acc sums[VECTOR] = {}, odd[SINGLES] = {};
  const int groups = share.groups;
  const index_t step = groups * ld;
  index_t left =
      part.end - part.begin - share.group; // the next k of this group is there if left > 0
  for (; left > 0; left -= LOADS * groups) {
    if (whole && left > (LOADS - 1) * groups)
      add_pieces<false>(wide, x, step, groups, left, sums);
    else if (whole)
      add_pieces<true>(wide, x, step, groups, left, sums);
#pragma unroll
    for (int e = 0; e < SINGLES; ++e)
      if (share.single(e) < share.width)
        add_singles(a + share.single(e), x, step, groups, left, odd[e]);
    wide += LOADS * step, a += LOADS * step, x += LOADS * groups;
  }

  Acc *mine = partial + share.group * share.width;
  if (whole)
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) mine[share.head + share.me * VECTOR + v] = sums[v];
#pragma unroll
  for (int e = 0; e < SINGLES; ++e)
    if (share.single(e) < share.width) mine[share.single(e)] = odd[e];
  __syncthreads(); // no thread has returned: the barrier needs all of them
  add_groups(partial, groups, share.width);
  __syncthreads();

  constexpr int EACH = (TILE_M + THREADS - 1) / THREADS, HOLDERS = TILE_M / EACH;
  Acc total[EACH];
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int at = threadIdx.x + e * HOLDERS;
    total[e] = threadIdx.x < HOLDERS && at < share.width ? partial[at] : Acc(0);
  }
  if (!add_parts<EACH, HOLDERS>(p, part, total) || threadIdx.x >= HOLDERS) return;
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int at = threadIdx.x + e * HOLDERS;
    if (at < share.width) store_result(p, p.c.data + (row + at) * p.c.row_stride, total[e]);
  }
}
