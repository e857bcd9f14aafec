/* Memory between two unmapped pages: one byte too far is a fault. */
#ifndef GUARD_H
#define GUARD_H

#include "check.h"

#include <sys/mman.h>
#include <unistd.h>

/* Room for `bytes`, against the upper unmapped page or the lower one. */
static inline void *guarded(size_t bytes, bool at_end) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t inner = (bytes + page - 1) / page * page;
  char *all = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(all != MAP_FAILED, "mmap");
  CHECK(mprotect(all + page, inner, PROT_READ | PROT_WRITE) == 0, "mprotect");
  return all + page + (at_end ? inner - bytes : 0);
}

static inline void release(void *p, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *start = (char *)((uintptr_t)p / page * page);
  munmap(start - page, (bytes + page - 1) / page * page + 2 * page);
}

#endif
