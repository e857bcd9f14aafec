/* The roofs, written once over vec_*.h: FMAs that never leave the registers, and loads that nothing waits for.
 * Twelve chains: more than latency times units of any processor so far (4 cycles, 2 units on x86-64), and
 * with the two constants they fit 16 registers. */
#include "../internal.h"

enum { FMA_CHAINS = 12, STREAMS = 4, AHEAD = 1024 };

/* Each chain runs towards 2: no overflow, no denormals. Returns the floating-point operations done. */
static double fma_chains(ptrdiff_t steps, double *sink) {
  const V half = vset1((T)0.5), one = vset1(1);
  V chain[FMA_CHAINS];
#pragma GCC unroll 12
  for (int i = 0; i < FMA_CHAINS; i++) chain[i] = vset1((T)i);
  for (ptrdiff_t s = 0; s < steps; s++)
#pragma GCC unroll 12
    for (int i = 0; i < FMA_CHAINS; i++) chain[i] = vfma(chain[i], half, one);
#pragma GCC unroll 12
  for (int i = 0; i < FMA_CHAINS; i++) *sink += vsum(chain[i]);
  return 2.0 * VL * FMA_CHAINS * (double)steps;
}

typedef long long whole __attribute__((vector_size(sizeof(V))));

static inline __attribute__((always_inline)) void add_line(const char *line, whole sum[]) {
#pragma GCC unroll 8
  for (size_t at = 0; at < CACHE_LINE; at += sizeof(V))
    sum[at / sizeof(V) % 2] += (whole)vload((const T *)(line + at));
}

/* Reads `bytes`, a multiple of the cache line, once; returns the sum of the 64-bit integers there, so that all
 * of them have to be read. (As floats some would be denormal, and each of those takes 100 cycles.) Four
 * streams, prefetched: 19 GB/s from memory on one thread where a single one reached 15. */
static double read_sum(const void *data, ptrdiff_t bytes) {
  const char *p = data, *end = p + bytes;
  const ptrdiff_t apart = bytes / (STREAMS * CACHE_LINE) * CACHE_LINE;
  whole sum[STREAMS][2] = {{{0}}};
  for (const char *stop = p + apart; p < stop; p += CACHE_LINE)
#pragma GCC unroll 4
    for (int i = 0; i < STREAMS; i++) {
      __builtin_prefetch(p + i * apart + AHEAD);
      add_line(p + i * apart, sum[i]);
    }
  for (p += (STREAMS - 1) * apart; p < end; p += CACHE_LINE) add_line(p, sum[0]);
#pragma GCC unroll 4
  for (int i = 1; i < STREAMS; i++) sum[0][0] += sum[i][0], sum[0][1] += sum[i][1];
  sum[0][0] += sum[0][1];
  long long total = 0;
  for (size_t i = 0; i < sizeof(V) / sizeof total; i++) total += sum[0][0][i];
  return (double)total;
}
