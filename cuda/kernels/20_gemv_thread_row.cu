// y = alpha * A x + beta * y with A stored by rows: a thread walks along one row of A, as a loop on a CPU does.
//
// /// kernel
// entry = "gemv_thread_row"
// op = "gemv"
// dtypes = ["float32", "float64"]
// math = ["fp32", "fp64"]
// transposes = ["n"]
// launcher = "rows"
// min_sm = 50
// teaches = "Where gemv begins: each of a warp's 32 reads falls into another line, and few threads have work."
//
// [[variant]]
// threads = [128, 1]
// tile = [128, 1, 1]
// ///
#include "problem.cuh"

static_assert(TILE_M == THREADS, "a thread for every row of the CTA tile");

extern "C" __global__ void __launch_bounds__(THREADS) gemv_thread_row(const Problem p) {
  const index_t row = index_t(blockIdx.x) * TILE_M + threadIdx.x;
  if (row >= p.m) return; // nothing below waits for this thread

  // Neighbouring threads read entries a whole row apart: 32 lines for 32 entries. The rest of each line is
  // used by the reads that follow, as long as the cache still has it.
  const T *a = p.a.data + row * p.a.row_stride;
  Acc sum = 0;
  for (index_t k = 0; k < p.k; ++k) sum += load(a + k) * load(p.b.data + k);
  store_result(p, p.c.data + row * p.c.row_stride, sum);
}
