/* Data cache sizes: from the C library, which asks cpuid or the kernel; sane sizes where it knows none. */
#include "internal.h"

#include <unistd.h>

static ptrdiff_t asked(int level) {
#ifdef _SC_LEVEL1_DCACHE_SIZE
  static const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  return sysconf(names[level - 1]);
#else
  (void)level;
  return 0;
#endif
}

ptrdiff_t cache_bytes(int level) {
  static const ptrdiff_t usual[] = {32 << 10, 512 << 10, 4 << 20};
  static _Atomic ptrdiff_t known[3]; /* asking may run cpuid, which a virtual machine traps */
  ptrdiff_t bytes = atomic_load_explicit(&known[level - 1], memory_order_relaxed);
  if (bytes > 0) return bytes;
  bytes = asked(level);
  if (bytes <= 0) bytes = usual[level - 1];
  atomic_store_explicit(&known[level - 1], bytes, memory_order_relaxed);
  return bytes;
}
