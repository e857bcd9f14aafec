/* Memory for packing: one block per calling thread, grown when needed, freed when the thread ends. */
#define _DEFAULT_SOURCE
#include "internal.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, PAGE = 4096 };

typedef struct {
  size_t bytes;
  void *memory;
} block;

static _Thread_local block mine;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* At a thread's end. Destructors that run after this one may still multiply: they get a new block. */
static void release(void *memory) {
  free(memory);
  mine = (block){0};
}

static void make_key(void) { pthread_key_create(&key, release); }

void *buffer_get(size_t bytes) {
  if (bytes <= mine.bytes) return mine.memory;
  const size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE;
  if (bytes > SIZE_MAX - unit) return NULL;
  pthread_once(&once, make_key);
  bytes = (bytes + unit - 1) / unit * unit;
  free(mine.memory);
  mine = (block){0};
  void *memory = aligned_alloc(unit, bytes);
  pthread_setspecific(key, memory);
  if (!memory) return NULL;
#ifdef MADV_HUGEPAGE
  if (unit == HUGE_PAGE) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  mine = (block){bytes, memory};
  return memory;
}
