/* The two roofs under which a product lies: FMAs from registers, and reading memory. Each thread counts what it
 * did until a common deadline, by its own clock, so a late one neither adds nor takes away. */
#include "internal.h"

#include <pthread.h>

enum { STEPS_PER_LOOK = 4096, BYTES_PER_LOOK = 1 << 18 };

typedef struct {
  const kernel *kn;
  const char *data; /* NULL: FMAs */
  ptrdiff_t bytes;
  double end;
  pthread_mutex_t lock;
  double rate; /* of all threads that took part */
  double sink; /* what was computed, so that it has to be */
} roof;

static double fma_until(const roof *r, double *sink) {
  double flops = 0;
  while (clock_seconds() < r->end) flops += r->kn->fma_chains(STEPS_PER_LOOK, sink);
  return flops;
}

static double read_until(const roof *r, int id, int count, double *sink) {
  const ptrdiff_t lines = r->bytes / CACHE_LINE;
  const ptrdiff_t first = lines * id / count, own = (lines * (id + 1) / count - first) * CACHE_LINE;
  const char *data = r->data + first * CACHE_LINE;
  double bytes = 0;
  ptrdiff_t at = 0;
  while (own > 0 && clock_seconds() < r->end)
    for (ptrdiff_t left = BYTES_PER_LOOK; left > 0;) {
      const ptrdiff_t part = min_of(left, own - at);
      *sink += r->kn->read_sum(data + at, part);
      at = at + part == own ? 0 : at + part;
      left -= part, bytes += (double)part;
    }
  return bytes;
}

static void work(void *arg, int id, int count) {
  roof *r = arg;
  double sink = 0;
  const double start = clock_seconds();
  const double done = r->data ? read_until(r, id, count, &sink) : fma_until(r, &sink);
  const double rate = done / (clock_seconds() - start);
  pthread_mutex_lock(&r->lock);
  r->rate += done > 0 ? rate : 0;
  r->sink += sink;
  pthread_mutex_unlock(&r->lock);
}

static int measure(roof *r, int threads, double seconds, double *rate) {
  if (threads < 1 || !(seconds > 0)) return GEMM_BAD_ARGUMENT;
  threads_used_reset();
  pthread_mutex_init(&r->lock, NULL);
  r->end = clock_seconds() + seconds;
  pool_run(work, r, (int)min_of(threads, gemm_threads_get()));
  pthread_mutex_destroy(&r->lock);
  *rate = r->rate;
  return GEMM_OK;
}

int gemm_roof_flops(int type, int threads, double seconds, double *flops_per_s) {
  if (type != GEMM_F32 && type != GEMM_F64) return GEMM_BAD_ARGUMENT;
  roof r = {.kn = dispatch_kernel(type)};
  return measure(&r, threads, seconds, flops_per_s);
}

int gemm_roof_read(const void *data, ptrdiff_t bytes, int threads, double seconds,
                   double *bytes_per_s) {
  if (!data || bytes < CACHE_LINE) return GEMM_BAD_ARGUMENT;
  roof r = {.kn = dispatch_kernel(GEMM_F32), .data = data, .bytes = bytes};
  threads = (int)min_of(threads, bytes / CACHE_LINE); /* each has a part to read */
  return measure(&r, threads, seconds, bytes_per_s);
}
