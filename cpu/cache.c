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
  const ptrdiff_t bytes = asked(level);
  return bytes > 0 ? bytes : usual[level - 1];
}
