/* The roofs, written once over vec_*.h: FMAs that never leave the registers, and loads that nothing waits for.
 * Twelve chains: more than latency times units of any processor so far (4 cycles, 2 units on x86-64), and
 * with the two constants they fit 16 registers. */
#include "../internal.h"

enum { FMA_CHAINS = 12, READ_CHAINS = 8 };

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

/* Reads `bytes`, a multiple of the cache line, once; returns a sum that depends on all of them. */
static double read_sum(const void *data, ptrdiff_t bytes) {
  enum { STEP = READ_CHAINS * VL };
  const T *p = data, *end = p + bytes / (ptrdiff_t)sizeof(T);
  const V one = vset1(1);
  V sum[READ_CHAINS];
#pragma GCC unroll 8
  for (int i = 0; i < READ_CHAINS; i++) sum[i] = vzero();
  for (; end - p >= STEP; p += STEP)
#pragma GCC unroll 8
    for (int i = 0; i < READ_CHAINS; i++) sum[i] = vfma(vload(p + i * VL), one, sum[i]);
  for (; p < end; p += VL) sum[0] = vfma(vload(p), one, sum[0]);
#pragma GCC unroll 8
  for (int i = 1; i < READ_CHAINS; i++) sum[0] = vfma(sum[i], one, sum[0]);
  return vsum(sum[0]);
}
