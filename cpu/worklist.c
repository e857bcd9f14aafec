/* Work shared without a barrier: whoever is there takes the next item, nobody waits for who is not. */
#include "internal.h"

ptrdiff_t worklist_take(const worklist *w, int id) {
  for (int v = 0; v < w->owners; v++) {
    const int owner = (id + v) % w->owners;
    const ptrdiff_t first = w->items * owner / w->owners;
    const ptrdiff_t count = w->items * (owner + 1) / w->owners - first;
    atomic_long *taken = &w->counters[1 + owner].value;
    if (atomic_load_explicit(taken, memory_order_relaxed) >= count) continue;
    const long index = atomic_fetch_add_explicit(taken, 1, memory_order_relaxed);
    if (index < count) return first + index;
  }
  return -1;
}

void worklist_finish(const worklist *w) {
  atomic_fetch_add_explicit(&w->counters[0].value, 1, memory_order_release);
}

void worklist_wait(const worklist *w) {
  for (int spins = 0;; spins++) {
    if (atomic_load_explicit(&w->counters[0].value, memory_order_acquire) >= w->items) return;
    pool_relax(spins);
  }
}
