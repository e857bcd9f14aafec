/* Every thread computes rectangles of C by itself, with all of rung 06.
 *
 * /// rung
 * title = "threaded"
 * idea = "C is cut into as many rectangles as there are threads; nobody writes what another one reads."
 * changes = "Rung 06 runs on rectangles of C, on the threads of the library's pool."
 * look_at = """
 * Compare the gain with the number of threads. At 64 waking a thread costs more than it can do. At large sizes
 * every row of rectangles packs B again, and every column A: the grid is the one that packs least. The library
 * packs once for all threads, and uses only as many as the work pays for."""
 * builds = ["vector"]
 * threaded = true
 *
 * [flops_per_entry]
 * registers = "2 * MR * NR / (MR + NR)"
 * block = "2 * KC * NC / (KC + 2 * NC)"
 * ///
 */
#define rung packed
#include "06_packed.c"
#undef rung

typedef struct {
  ptrdiff_t M, N, K;
  T alpha;
  const T *A;
  ptrdiff_t lda;
  const T *B;
  ptrdiff_t ldb;
  T *C;
  ptrdiff_t ldc;
  ptrdiff_t down, across; /* the grid of rectangles */
  atomic_long taken;
  atomic_int status;
} job;

/* Where part `index` of `parts` begins, on a tile's edge. */
static ptrdiff_t cut(ptrdiff_t whole, ptrdiff_t unit, ptrdiff_t parts, ptrdiff_t index) {
  return index == parts ? whole : ceil_div(whole, unit) * index / parts * unit;
}

/* Who comes first takes the next rectangle. */
static void work(void *arg, int id, int count) {
  job *w = arg;
  (void)id, (void)count;
  for (long t; (t = atomic_fetch_add(&w->taken, 1)) < w->down * w->across;) {
    const ptrdiff_t i = cut(w->M, MR, w->down, t / w->across);
    const ptrdiff_t j = cut(w->N, NR, w->across, t % w->across);
    const ptrdiff_t m = cut(w->M, MR, w->down, t / w->across + 1) - i;
    const ptrdiff_t n = cut(w->N, NR, w->across, t % w->across + 1) - j;
    const int status = packed(m, n, w->K, w->alpha, w->A + i * w->lda, w->lda, w->B + j, w->ldb,
                              w->C + i * w->ldc + j, w->ldc);
    if (status != GEMM_OK) atomic_store(&w->status, status);
  }
}

static int rung(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, T alpha, const T *A, ptrdiff_t lda,
                const T *B, ptrdiff_t ldb, T *C, ptrdiff_t ldc) {
  const int threads = gemm_threads_get();
  job w = {M, N, K, alpha, A, lda, B, ldb, C, ldc, 1, threads, 0, GEMM_OK};
  for (ptrdiff_t down = 2; down <= threads; down++)
    if (threads % down == 0 && down * N + threads / down * M < w.down * N + w.across * M)
      w.down = down, w.across = threads / down;
  pool_run(work, &w, threads);
  return w.status;
}
