/* What the parts of the library know of each other. Sizes and strides count elements, ptrdiff_t
 * throughout; pointers are bytes, so that the drivers serve every element type. */
#ifndef GEMM_INTERNAL_H
#define GEMM_INTERNAL_H

#include "gemm.h"

#include <limits.h> /* defines __GLIBC__ where that is the C library */
#include <stdatomic.h>
#include <stdbool.h>

#define MAX_MR       16
#define MAX_NR       32
#define MAX_NR_BYTES 128

/* A call to __tls_get_addr costs as much as a product of 3 x 3. */
#ifdef __GLIBC__
#define TLS_MODEL __attribute__((tls_model("initial-exec")))
#else
#define TLS_MODEL
#endif

enum { CACHE_LINE = 64, TYPES = 2, PREFETCH_STEPS = 8 };

/* One micro-tile: C[0:m, 0:n] = alpha * A B + beta * C, m <= MR, n <= NR, unit column strides of B
 * and C. beta == 0 does not read C. Nothing outside the given extents is read or written. */
typedef struct {
  ptrdiff_t m, n, k;
  const void *a;
  ptrdiff_t rs_a, cs_a;
  const void *b;
  ptrdiff_t rs_b;
  void *c;
  ptrdiff_t rs_c;
  double alpha, beta;
  /* Will be read soon: so many rows of NR elements, `ahead_step` bytes apart. Brought near by whole packed
   * tiles, one row every PREFETCH_STEPS steps of k. */
  const char *ahead;
  ptrdiff_t ahead_step, ahead_rows;
} tile;

/* y[i] = alpha * (A x)[i] + beta * y[i]; x contiguous. */
typedef struct {
  ptrdiff_t m, n;
  const void *a;
  ptrdiff_t rs_a, cs_a;
  const void *x;
  void *y;
  ptrdiff_t inc_y;
  double alpha, beta;
  bool far; /* A lies beyond the second-level cache, and is to be read in streams for that */
} matvec;

/* Packs a `valid` x k strip into a micro-panel: dst[p * width + w] = src[w * ws + p * ks]. Places with
 * w >= valid get any value: their products are never stored. */
typedef void pack_fn(ptrdiff_t valid, ptrdiff_t k, const void *src, ptrdiff_t ws, ptrdiff_t ks,
                     void *dst);

/* Everything one instruction set offers for one type; a ukr_*.c file defines one of these. */
typedef struct {
  const char *name, *isa;
  int type, mr, nr;
  ptrdiff_t size; /* bytes of an element */
  /* Measured on processors of this instruction set. So long may K be that a tile of C is fetched and stored
   * seldom enough; 0: as what fills the first-level cache. A is read in place up to so many times four fifths
   * of the second-level cache. A short K makes a block of A at most so many times as tall. Does a panel of B that does not stay in the first-level cache cost more than
   * packing it? Is a matrix beyond the second-level cache read faster in many streams that are prefetched? */
  ptrdiff_t kc;
  int parts_in_place, mc_growth;
  bool panel_in_l1, far_streams;
  void (*multiply)(const tile *t);
  pack_fn *pack_a, *pack_b;                              /* widths MR and NR */
  void (*dot_rows)(const matvec *v);                     /* cs_a == 1 */
  void (*add_columns)(const matvec *v);                  /* rs_a == 1 */
  double (*fma_chains)(ptrdiff_t steps, double *sink);   /* roof_body.h: returns FLOP done */
  double (*read_sum)(const void *data, ptrdiff_t bytes); /* a multiple of the cache line */
  /* A whole product read in place: sizes from 1 to 2^24, batch 1, a unit column stride of C, and of B or,
   * up to QUICK_TURNED_BYTES, a unit row stride; alpha not 0. */
  void (*multiply_small)(const gemm_call *g);
  void (*multiply_batch)(const gemm_call *g); /* the same for a batch of any size */
} kernel;

/* One product with everything resolved. */
typedef struct {
  const kernel *kn;
  double alpha, beta;
  ptrdiff_t m, n, k;
  const char *a;
  ptrdiff_t rs_a, cs_a;
  const char *b;
  ptrdiff_t rs_b, cs_b;
  char *c;
  ptrdiff_t rs_c, cs_c;
} product;

/* Its block of C that begins at row i and column j, m x n, with all of K. */
static inline product block_of(const product *p, ptrdiff_t i, ptrdiff_t j, ptrdiff_t m,
                               ptrdiff_t n) {
  product block = *p;
  const ptrdiff_t size = p->kn->size;
  block.m = m, block.n = n;
  block.a += i * p->rs_a * size;
  block.b += j * p->cs_b * size;
  block.c += (i * p->rs_c + j * p->cs_c) * size;
  return block;
}

typedef struct {
  ptrdiff_t mc, kc, nc;
} blocking;

static inline ptrdiff_t min_of(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
static inline ptrdiff_t max_of(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
static inline ptrdiff_t ceil_div(ptrdiff_t a, ptrdiff_t b) { return (a + b - 1) / b; }
static inline ptrdiff_t round_up(ptrdiff_t a, ptrdiff_t b) { return ceil_div(a, b) * b; }

/* Do `rows` rows this far apart compete for one set of the first-level cache? */
enum { WAY_BYTES = 4096 };
static inline bool rows_collide(ptrdiff_t rows, ptrdiff_t stride, ptrdiff_t size) {
  return rows > 1 && stride != 0 && stride * size % WAY_BYTES == 0;
}

/* dispatch.c: the kernels in force (type is GEMM_F32 or GEMM_F64), and their block sizes. */
const kernel *dispatch_kernel(int type);
extern _Atomic(const kernel *) dispatch_ready_table[TYPES];
static inline const kernel *dispatch_ready(int type) { /* the same, or NULL before the first call */
  return atomic_load_explicit(&dispatch_ready_table[type], memory_order_acquire);
}
blocking dispatch_blocks(const kernel *kn);
bool dispatch_allows(const char *isa); /* is it the one in force, or a lower one? */

/* cache.c: data cache sizes in bytes of level 1, 2 and 3 (3: what one core may count on). */
ptrdiff_t cache_bytes(int level);

/* limits.c: processors allowed, and a thread count from an environment value (0: unusable). */
int limits_processors(void);
int limits_quota(const char *proc_cgroup, const char *mount);
int limits_parse_threads(const char *text);

/* clock.c: wall time in seconds, from anywhere. */
double clock_seconds(void);

/* warnings.c */
void warn_add(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* pool.c: runs work(arg, id, count) on the caller, id 0, and on those of count - 1 workers that wake up in
 * time; returns how many took part. A worker that comes too late never starts, so `work` must share out what
 * there is to do by a worklist, and never wait for a particular id. */
typedef void pool_work(void *arg, int id, int count);
int pool_run(pool_work *work, void *arg, int want);
extern _Thread_local int threads_used TLS_MODEL;
static inline void threads_used_reset(void) { threads_used = 1; }
void pool_relax(int spins); /* in a loop that waits: pauses, later yields */

/* worklist.c: items 0 .. items - 1, each given to one taker: first those of the taker's own range (so that the
 * same thread meets the same data again), then what is left of the others'. */
typedef struct {
  _Alignas(CACHE_LINE) atomic_long value;
} counter;
typedef struct {
  counter
      *counters; /* zeroed: how many items are finished, then for each owner how many are taken */
  ptrdiff_t items;
  int owners;
} worklist;
static inline ptrdiff_t worklist_counters(int owners) { return owners + 1; }
ptrdiff_t worklist_take(const worklist *w, int id); /* -1: none left */
void worklist_finish(const worklist *w);            /* one item is done */
void worklist_wait(const worklist *w);              /* until all are */

/* buffer.c: at least `bytes` for packing, aligned to a page, owned by the calling thread and kept
 * for its next call; NULL without memory. */
void *buffer_get(size_t bytes);

/* Can multiply_small take this call as it is? Nothing to pack, to share or to scale: sizes from 1, but n from
 * 2, to QUICK, and alpha is not 0 in float32 either. */
enum { QUICK = 64, QUICK_TURNED_BYTES = 64 };
static inline bool quick_fits(const gemm_call *g) {
  if (((size_t)(g->m - 1) | (size_t)(g->n - 2) | (size_t)(g->k - 1)) >= QUICK) return false;
  if (g->cs_c != 1 || g->batch != 1) return false;
  if (g->cs_b != 1) { /* in float64, packing was faster from 12 on */
    const ptrdiff_t longest = max_of(g->m, max_of(g->n, g->k));
    if (g->rs_b != 1 || longest << (g->type == GEMM_F32 ? 2 : 3) > QUICK_TURNED_BYTES) return false;
  }
  return g->alpha > 1e-30 || g->alpha < -1e-30;
}

/* gemm.c, batch.c, blocked.c, blocked_shared.c, small.c, small_shared.c, split_k.c, gemv.c: GEMM_OK or
 * GEMM_NO_MEMORY. `threads`: at most so many. */
int gemm_product(const product *p, int threads);
int gemm_batch(const kernel *kn, const gemm_call *call);
int threads_worth(ptrdiff_t batch, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k);
product product_from(const kernel *kn, const gemm_call *g);
int gemm_blocked(const product *p, blocking blocks, int threads);
int blocked_alone(const product *p, blocking blocks);
bool small_fits(const product *p);
void small_product(const product *p);
/* false: not done, A is to be packed (gemm_blocked) */
bool shared_product(const product *p, int threads, int *status);
bool split_k_fits(const product *p);
int split_k_product(const product *p, int threads);
int gemv_product(const product *p);
void scale_c(const product *p);

/* tile.c: one micro-tile with any strides of C. */
void tile_store(const kernel *kn, tile *t, char *c, ptrdiff_t rs_c, ptrdiff_t cs_c);

#endif
