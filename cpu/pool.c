/* The thread pool. Workers spin for a short while after a job and then sleep; a job wakes only those it needs.
 *
 * A job is an offer: the caller begins at once, a worker joins when it wakes, and the caller takes back the
 * offers that nobody has followed when its own work is done. So a worker that the operating system does not
 * let run delays nobody. (With a barrier in its place, a 128 x 128 product took 250 us instead of 25 on two
 * processors that others were using.)
 *
 * One caller at a time owns the pool; a second one finds it busy and runs alone on its own thread. After
 * fork() the child starts with an empty pool (its parent's workers do not exist there). */
#define _GNU_SOURCE
#include "internal.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SPIN_NS = 200000, SPINS_PER_LOOK = 64, SPINS_BEFORE_YIELD = 512 };

enum { IDLE, OFFERED, RUNNING };

typedef struct {
  _Alignas(CACHE_LINE) atomic_int state;
  atomic_bool asleep;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  int id;
} worker;

static struct {
  pthread_mutex_t busy; /* held by the caller that owns the pool */
  worker **workers;
  int started, capacity; /* changed by the owner alone */
  pool_work *work;
  void *arg;
  int count;
  atomic_bool parked;
} pool = {.busy = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int limit; /* threads in force */
static atomic_int maximum;
_Thread_local int threads_used TLS_MODEL = 1;

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* --- how many ----------------------------------------------------------------------------------- */

static int from_environment(const char *name) {
  const char *text = getenv(name);
  if (!text || !*text) return 0;
  const int n = limits_parse_threads(text);
  if (n == 0)
    warn_add("%s=%.20s is no thread count (a whole number from 1) and is ignored. ", name, text);
  return n;
}

static void forget_workers(void) {
  pthread_mutex_init(&pool.busy, NULL);
  pool.workers = NULL; /* lost on purpose: their threads live in the parent only */
  pool.started = pool.capacity = 0;
  atomic_store(&pool.parked, false);
}

static void start(void) {
  maximum = limits_processors();
  int n = from_environment("GEMM_NUM_THREADS");
  if (n == 0) n = from_environment("OMP_NUM_THREADS");
  limit = n > 0 && n < maximum ? n : maximum;
  pthread_atfork(NULL, NULL, forget_workers);
}

int gemm_threads_get(void) {
  pthread_once(&once, start);
  return atomic_load_explicit(&limit, memory_order_relaxed);
}

int gemm_threads_max(void) {
  pthread_once(&once, start);
  return atomic_load_explicit(&maximum, memory_order_relaxed);
}

int gemm_threads_set(int n) {
  if (n < 1) return 0;
  pthread_once(&once, start);
  const int most = limits_processors();
  atomic_store_explicit(&maximum, most, memory_order_relaxed);
  n = n < most ? n : most;
  atomic_store_explicit(&limit, n, memory_order_relaxed);
  return n;
}

int gemm_threads_used(void) { return threads_used; }

/* --- workers ------------------------------------------------------------------------------------ */

static bool spin_for_offer(worker *w) {
  const long long end = now_ns() + SPIN_NS;
  while (now_ns() < end) {
    if (atomic_load_explicit(&pool.parked, memory_order_relaxed)) return false;
    for (int i = 0; i < SPINS_PER_LOOK; i++) {
      if (atomic_load_explicit(&w->state, memory_order_relaxed) == OFFERED) return true;
      relax();
    }
    sched_yield(); /* woken on the caller's own processor, it kept the caller waiting for all of SPIN_NS */
  }
  return false;
}

/* Returns when woken, be the offer still there or not. `asleep` is set before the last look at the state, and
 * the caller looks at it after making the offer, both sequentially consistent: one of them sees the other. */
static void sleep_for_offer(worker *w) {
  pthread_mutex_lock(&w->lock);
  atomic_store(&w->asleep, true);
  if (atomic_load(&w->state) == OFFERED) atomic_store(&w->asleep, false);
  while (atomic_load(&w->asleep)) pthread_cond_wait(&w->wake, &w->lock);
  pthread_mutex_unlock(&w->lock);
}

static void *live(void *arg) {
  worker *w = arg;
  for (;;) {
    int offered = OFFERED;
    if (!spin_for_offer(w)) sleep_for_offer(w);
    if (!atomic_compare_exchange_strong(&w->state, &offered, RUNNING)) continue;
    pool.work(pool.arg, w->id, pool.count);
    atomic_store_explicit(&w->state, IDLE, memory_order_release);
  }
  return NULL;
}

static void offer(worker *w) {
  atomic_store(&w->state, OFFERED);
  if (!atomic_load(&w->asleep)) return;
  pthread_mutex_lock(&w->lock);
  atomic_store(&w->asleep, false);
  pthread_cond_signal(&w->wake);
  pthread_mutex_unlock(&w->lock);
}

/* Did this worker take part? Returns when it has finished, or now that it can no longer begin. */
static bool took_part(worker *w) {
  int offered = OFFERED;
  if (atomic_compare_exchange_strong(&w->state, &offered, IDLE)) return false;
  for (int spins = 0; atomic_load_explicit(&w->state, memory_order_acquire) != IDLE; spins++)
    pool_relax(spins);
  return true;
}

/* Signals are for the program's own threads: workers block them all. */
static bool start_thread(worker *w) {
  sigset_t all, before;
  pthread_t thread;
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->wake, NULL);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool ok = pthread_create(&thread, NULL, live, w) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (ok) pthread_detach(thread);
  return ok;
}

static bool grow_list(int wanted) {
  if (wanted <= pool.capacity) return true;
  worker **list = realloc(pool.workers, (size_t)wanted * sizeof *list);
  if (!list) return false;
  pool.workers = list, pool.capacity = wanted;
  return true;
}

static bool add_worker(void) {
  worker *w = grow_list(pool.started + 1) ? aligned_alloc(CACHE_LINE, sizeof *w) : NULL;
  if (!w) return false;
  memset(w, 0, sizeof *w);
  w->id = pool.started + 1;
  if (!start_thread(w)) {
    free(w);
    return false;
  }
  pool.workers[pool.started++] = w;
  return true;
}

/* --- jobs --------------------------------------------------------------------------------------- */

static int run_together(pool_work *work, void *arg, int count) {
  int together = 1;
  pool.work = work, pool.arg = arg, pool.count = count;
  atomic_store_explicit(&pool.parked, false, memory_order_relaxed);
  for (int i = 0; i < count - 1; i++) offer(pool.workers[i]);
  work(arg, 0, count);
  for (int i = 0; i < count - 1; i++) together += took_part(pool.workers[i]);
  return together;
}

int pool_run(pool_work *work, void *arg, int want) {
  int together = 0;
  if (want > 1 && pthread_mutex_trylock(&pool.busy) == 0) {
    while (pool.started < want - 1 && add_worker()) continue;
    if (pool.started > 0) together = run_together(work, arg, (int)min_of(want, pool.started + 1));
    pthread_mutex_unlock(&pool.busy);
  }
  if (together == 0) {
    work(arg, 0, 1);
    together = 1;
  }
  if (together > threads_used) threads_used = together;
  return together;
}

void gemm_threads_park(void) { atomic_store_explicit(&pool.parked, true, memory_order_relaxed); }

void pool_relax(int spins) {
  if (spins < SPINS_BEFORE_YIELD)
    relax();
  else
    sched_yield();
}
