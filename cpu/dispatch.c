/* Which instruction set runs: what the CPU and the operating system offer, at most what GEMM_ISA says. */
#include "internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernel_table.h" /* written by CMake: `kernels`, the compiled ones in the order of `order` */

static const char *const order[] = {"portable", "avx2", "avx512"};
enum { SETS = sizeof order / sizeof order[0] };

static int rank_of(const char *name) {
  for (int i = 0; i < SETS; i++)
    if (strcmp(name, order[i]) == 0) return i;
  return -1;
}

#if defined(__x86_64__)
enum { XCR0_AVX = 0x6, XCR0_AVX512 = 0xe6 };

static unsigned long long xcr0(void) {
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | (unsigned long long)high << 32;
}

static bool has(unsigned word, unsigned bits) { return (word & bits) == bits; }

static int cpu_rank(void) {
  unsigned a, b, c, d, b7, c7, d7;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, bit_OSXSAVE | bit_AVX | bit_FMA)) return 0;
  if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) || !has(b7, bit_AVX2)) return 0;
  if ((xcr0() & XCR0_AVX) != XCR0_AVX) return 0;
  const unsigned skylake_x = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
  return has(b7, skylake_x) && (xcr0() & XCR0_AVX512) == XCR0_AVX512 ? 2 : 1;
}
#else
static int cpu_rank(void) { return 0; }
#endif

static const kernel *best(int type, int rank) {
  for (; rank >= 0; rank--)
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
      if (kernels[i]->type == type && strcmp(kernels[i]->isa, order[rank]) == 0) return kernels[i];
  abort(); /* the portable kernels are always compiled */
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int usable_rank, ceiling; /* what runs here; what GEMM_ISA leaves of it */
static atomic_int active_rank;
_Atomic(const kernel *) dispatch_ready_table[TYPES];
static const kernel *table[SETS][TYPES];
static blocking blocks_of[SETS][TYPES];
static char compiled_text[64], usable_text[64];

/* KC: as long as a micro-panel of A and one of B fill the first-level cache, or what the kernel says, with B in
 * the second level. Measured: AVX-512 best at 1024 with 48 KB and 2 MB (5 % over 512 at 1024 and 2048), AVX2 at
 * 512 with 32 and 512 KB (2 to 4 % over 256 and 320 at 512 to 1024). */
static blocking blocks_for(const kernel *kn) {
  const ptrdiff_t row = kn->nr * kn->size, l2 = cache_bytes(2);
  const ptrdiff_t fits = cache_bytes(1) * 7 / 8 / ((kn->mr + kn->nr) * kn->size);
  const ptrdiff_t kc = max_of(64, min_of(max_of(fits, kn->kc), l2 / 8 / row)) / 8 * 8;
  const ptrdiff_t mc = l2 * 2 / 5 / (kc * kn->size) / kn->mr * kn->mr;
  const ptrdiff_t share = min_of(cache_bytes(3), 16 << 20) / 2;
  const ptrdiff_t nc = share / (kc * kn->size) / kn->nr * kn->nr;
  return (blocking){max_of(mc, kn->mr), kc, max_of(nc, kn->nr)};
}

static void append(char *text, const char *word) {
  if (*text) strcat(text, " ");
  strcat(text, word);
}

static void describe(void) {
  for (int rank = 0; rank < SETS; rank++) {
    for (int type = 0; type < TYPES; type++) {
      table[rank][type] = best(type, rank);
      blocks_of[rank][type] = blocks_for(table[rank][type]);
    }
    if (strcmp(table[rank][0]->isa, order[rank]) != 0) continue;
    append(compiled_text, order[rank]);
    if (rank <= cpu_rank()) append(usable_text, order[rank]), usable_rank = rank;
  }
}

static void activate(int rank) {
  atomic_store_explicit(&active_rank, rank, memory_order_relaxed);
  for (int type = 0; type < TYPES; type++)
    atomic_store_explicit(&dispatch_ready_table[type], table[rank][type], memory_order_release);
}

static void choose(void) {
  ceiling = usable_rank;
  const char *wanted = getenv("GEMM_ISA");
  if (!wanted || !*wanted) return;
  const int rank = rank_of(wanted);
  if (rank < 0)
    warn_add("GEMM_ISA=%.20s is unknown and ignored: use one of %s. ", wanted, usable_text);
  else if (rank > usable_rank)
    warn_add("GEMM_ISA=%s cannot run here: %s is used. ", wanted, order[usable_rank]);
  else
    ceiling = rank;
}

static void start(void) {
  describe();
  choose();
  activate(ceiling);
}

static int rank_now(void) {
  pthread_once(&once, start);
  return atomic_load_explicit(&active_rank, memory_order_relaxed);
}

const kernel *dispatch_kernel(int type) { return table[rank_now()][type]; }

bool dispatch_allows(const char *isa) { return rank_of(isa) <= rank_now(); }

blocking dispatch_blocks(const kernel *kn) { return blocks_of[rank_of(kn->isa)][kn->type]; }

const char *gemm_isa_compiled(void) {
  rank_now();
  return compiled_text;
}

const char *gemm_isa_usable(void) {
  rank_now();
  return usable_text;
}

const char *gemm_isa(void) { return table[rank_now()][0]->isa; }

int gemm_isa_set(const char *name) {
  rank_now();
  const int rank = rank_of(name);
  if (rank < 0 || rank > ceiling) return GEMM_BAD_ARGUMENT;
  activate(rank);
  return GEMM_OK;
}

const char *gemm_kernel(int type) {
  return type >= 0 && type < TYPES ? dispatch_kernel(type)->name : "";
}

void gemm_blocks(int type, ptrdiff_t *blocks) {
  const blocking b = blocks_of[rank_now()][type == GEMM_F64];
  blocks[0] = b.mc, blocks[1] = b.kc, blocks[2] = b.nc;
}
