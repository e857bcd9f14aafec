/* Many products in one call: threads over the batch, each product on one thread, so that nothing but the list
 * of what is left is shared. A few products that are each large enough for all threads come one by one. */
#include "internal.h"

enum { ITEMS_PER_THREAD = 8, MAX_OWNERS = 64 };

typedef struct {
  const kernel *kn;
  const gemm_call *call;
  ptrdiff_t each; /* products of an item */
  worklist list;
  atomic_int status;
} job;

static void advance(gemm_call *one, const gemm_call *call, ptrdiff_t products, ptrdiff_t size) {
  one->a = (const char *)one->a + products * call->bs_a * size;
  one->b = (const char *)one->b + products * call->bs_b * size;
  one->c = (char *)one->c + products * call->bs_c * size;
}

/* Products `from` to `to`, each on at most that many threads. */
static int multiply_range(const kernel *kn, const gemm_call *call, ptrdiff_t from, ptrdiff_t to,
                          int threads) {
  gemm_call one = *call;
  one.batch = 1;
  advance(&one, call, from, kn->size);
  if (quick_fits(&one)) {
    one.batch = to - from;
    kn->multiply_batch(&one);
    return GEMM_OK;
  }
  for (ptrdiff_t i = from; i < to; i++) {
    const product p = product_from(kn, &one);
    const int status = gemm_product(&p, threads);
    if (status != GEMM_OK) return status;
    if (i + 1 < to) advance(&one, call, 1, kn->size);
  }
  return GEMM_OK;
}

static void work(void *arg, int id, int count) {
  job *w = arg;
  (void)count;
  for (ptrdiff_t item; (item = worklist_take(&w->list, id)) >= 0;) {
    const ptrdiff_t from = item * w->each, to = min_of(from + w->each, w->call->batch);
    const int status = multiply_range(w->kn, w->call, from, to, 1);
    if (status != GEMM_OK) atomic_store_explicit(&w->status, status, memory_order_relaxed);
  }
}

static int share(const kernel *kn, const gemm_call *call, int threads) {
  counter counters[MAX_OWNERS + 1];
  const int owners = (int)min_of(threads, MAX_OWNERS);
  for (int i = 0; i <= owners; i++) atomic_init(&counters[i].value, 0);
  job w = {.kn = kn, .call = call};
  w.each = ceil_div(call->batch, (ptrdiff_t)threads * ITEMS_PER_THREAD);
  w.list = (worklist){counters, ceil_div(call->batch, w.each), owners};
  pool_run(work, &w, threads);
  return atomic_load(&w.status);
}

int gemm_batch(const kernel *kn, const gemm_call *call) {
  const int alone = threads_worth(1, call->m, call->n, call->k);
  const int threads = threads_worth(call->batch, call->m, call->n, call->k);
  if (threads == 1 || call->batch < alone) return multiply_range(kn, call, 0, call->batch, alone);
  return share(kn, call, (int)min_of(threads, call->batch));
}
