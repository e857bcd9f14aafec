/* The thread pool: several callers, fork, parking, counts beyond what there is. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
  matrix a, b, c;
  double *want;
} sample;

static sample make_sample(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k) {
  sample s = {make(GEMM_F32, m, k, ROWS, 0), make(GEMM_F32, k, n, ROWS, 0),
              make(GEMM_F32, m, n, ROWS, 0), 0};
  fill(&s.a);
  fill(&s.b);
  s.want = expected(&s.a, &s.b, &s.c, 1, 0);
  return s;
}

static void multiply_sample(const sample *s, const char *what) {
  const gemm_call call = call_of(&s->a, &s->b, &s->c, 1, 0);
  CHECK(gemm_run(&call) == GEMM_OK, "%s", what);
  check_equal(&s->c, s->want, what);
}

static void free_sample(sample *s) {
  free(s->a.memory);
  free(s->b.memory);
  free(s->c.memory);
  free(s->want);
}

enum { CALLERS = 8, CALLS = 40 };

static void *call_often(void *arg) {
  for (int i = 0; i < CALLS; i++) multiply_sample(arg, "one of several callers");
  return NULL;
}

static void test_callers(void) {
  pthread_t threads[CALLERS];
  sample samples[CALLERS];
  for (int i = 0; i < CALLERS; i++)
    samples[i] = make_sample(64 + 37 * i, 300 - 31 * i, 100 + 13 * i);
  for (int i = 0; i < CALLERS; i++) pthread_create(&threads[i], NULL, call_often, &samples[i]);
  for (int i = 0; i < CALLERS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < CALLERS; i++) free_sample(&samples[i]);
}

/* A worker that does not wake in time is not waited for: try for a while. On one thread once will do. */
static void multiply_together(const sample *s, const char *what) {
  int together = 0;
  const int tries = gemm_threads_get() < 2 ? 1 : 2000;
  for (int i = 0; i < tries && together < 2; i++) {
    multiply_sample(s, what);
    together = gemm_threads_used();
  }
  CHECK(gemm_threads_get() < 2 || together > 1, "%s: always on one thread of %d", what,
        gemm_threads_get());
}

/* A child has threads of its own. (ThreadSanitizer takes them for its parent's, and gives up.) */
static void multiply_in_child(const sample *small, const sample *big) {
  alarm(60);
  multiply_sample(small, "in the child");
#if defined(__SANITIZE_THREAD__)
  gemm_threads_set(1);
#endif
  multiply_together(big, "in the child");
  _exit(0);
}

static void test_fork(void) {
  sample big = make_sample(300, 300, 300), small = make_sample(8, 8, 8);
  multiply_sample(&big, "before fork");
  const pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) multiply_in_child(&small, &big);
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
        "the child ended with status %x", (unsigned)status);
  multiply_sample(&big, "in the parent after fork");
  free_sample(&big);
  free_sample(&small);
}

static void test_counts(void) {
  const int most = gemm_threads_max(), before = gemm_threads_get();
  CHECK(most >= 1 && before >= 1 && before <= most, "%d of %d", before, most);
  CHECK(gemm_threads_set(0) == 0 && gemm_threads_set(-3) == 0, "0 and -3 must be refused");
  CHECK(gemm_threads_get() == before, "a refused count changed something");
  static const int asked[] = {1, 65, 257, 2147483647};
  sample s = make_sample(300, 300, 300);
  for (int i = 0; i < 4; i++) {
    const int set = gemm_threads_set(asked[i]);
    CHECK(set == (asked[i] < most ? asked[i] : most) && gemm_threads_get() == set, "%d -> %d",
          asked[i], set);
    multiply_sample(&s, "asked for many threads");
    CHECK(gemm_threads_used() >= 1 && gemm_threads_used() <= set, "used %d", gemm_threads_used());
  }
  gemm_threads_set(1);
  multiply_sample(&s, "one thread");
  CHECK(gemm_threads_used() == 1, "used %d", gemm_threads_used());
  gemm_threads_set(most);
  multiply_together(&s, "all threads");
  free_sample(&s);
}

static void test_park(void) {
  sample s = make_sample(300, 300, 300);
  for (int i = 0; i < 50; i++) {
    gemm_threads_park();
    if (i % 3 == 0) usleep(1000);
    multiply_sample(&s, "after parking");
  }
  free_sample(&s);
}

enum { ITEMS = 100, MOST = 5 };

typedef struct {
  counter counters[MOST + 1];
  worklist list;
  int times[ITEMS];
  atomic_int inside;
} shared;

static void take_all(void *arg, int id, int count) {
  shared *s = arg;
  CHECK(id >= 0 && id < count, "id %d of %d", id, count);
  atomic_fetch_add(&s->inside, 1);
  for (ptrdiff_t item; (item = worklist_take(&s->list, id)) >= 0; worklist_finish(&s->list))
    s->times[item]++;
  worklist_wait(&s->list);
  for (int i = 0; i < ITEMS; i++)
    CHECK(s->times[i] == 1, "item %d was done %d times", i, s->times[i]);
  atomic_fetch_sub(&s->inside, 1);
}

/* More threads than processors: each item is done once, and nobody is inside after the return. */
static void test_worklist(void) {
  for (int round = 0; round < 200; round++)
    for (int want = 1; want <= MOST; want++) {
      shared s;
      memset(&s, 0, sizeof s);
      s.list = (worklist){s.counters, ITEMS, want};
      const int count = pool_run(take_all, &s, want);
      CHECK(count >= 1 && count <= want && atomic_load(&s.inside) == 0, "%d of %d", count, want);
    }
}

static pthread_key_t late;

static void *call_and_end(void *arg) {
  pthread_setspecific(late, arg);
  multiply_sample(arg, "in a thread that ends");
  return NULL;
}

static void call_at_the_end(void *arg) {
  multiply_sample(arg, "after the thread's memory is freed");
}

/* The key is younger than the library's own, so its destructor runs after that one. */
static void test_thread_end(void) {
  pthread_t thread;
  sample s = make_sample(700, 700, 700);
  multiply_sample(&s, "before the thread");
  pthread_key_create(&late, call_at_the_end);
  pthread_create(&thread, NULL, call_and_end, &s);
  pthread_join(thread, NULL);
  pthread_key_delete(late);
  free_sample(&s);
}

int main(void) {
  test_callers();
  test_thread_end();
  test_fork();
  test_counts();
  test_park();
  test_worklist();
  test_fork();
  return 0;
}
