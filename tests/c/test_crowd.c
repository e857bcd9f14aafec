/* More threads than processors, forks amid running products, settings that change under way.
 *
 * The linker puts `__wrap_limits_processors` in the place of limits_processors: this process may use eight. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PRETENDED = 8, SHAPES = 6 };

int __wrap_limits_processors(void);
int __wrap_limits_processors(void) { return PRETENDED; }

typedef struct {
  matrix a, b, c;
  double *want;
} sample;

static sample make_sample(int type, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k) {
  sample s = {make(type, m, k, ROWS, 0), make(type, k, n, ROWS, 0), make(type, m, n, ROWS, 0), 0};
  fill(&s.a);
  fill(&s.b);
  s.want = expected(&s.a, &s.b, &s.c, 1, 0);
  return s;
}

static void free_sample(sample *s) {
  free(s->a.memory);
  free(s->b.memory);
  free(s->c.memory);
  free(s->want);
}

/* In blocks, with K cut, as a matrix times a vector either way, and without threads. */
static void make_samples(sample *s, int type) {
  static const ptrdiff_t shapes[SHAPES][3] = {{257, 190, 131}, {33, 40, 4099},  {900, 1, 701},
                                              {1, 3001, 200},  {2000, 16, 100}, {12, 13, 14}};
  for (int i = 0; i < SHAPES; i++)
    s[i] = make_sample(type, shapes[i][0], shapes[i][1], shapes[i][2]);
}

static void multiply(const sample *s, const char *what) {
  const ptrdiff_t elements = s->c.rows * s->c.columns;
  memset(s->c.first, 0xff, (size_t)elements * size_of(s->c.type));
  const gemm_call call = call_of(&s->a, &s->b, &s->c, 1, 0);
  CHECK(gemm_run(&call) == GEMM_OK, "%s", what);
  check_equal(&s->c, s->want, what);
  CHECK(numbers_in(&s->c) == elements, "%s: wrote outside C", what);
}

static void test_counts(int type) {
  sample s[SHAPES];
  make_samples(s, type);
  for (int threads = 1; threads <= PRETENDED; threads++) {
    CHECK(gemm_threads_set(threads) == threads, "%d threads", threads);
    for (int round = 0; round < 3; round++)
      for (int i = 0; i < SHAPES; i++) {
        multiply(&s[i], "more threads than processors");
        CHECK(gemm_threads_used() <= threads, "%d of %d", gemm_threads_used(), threads);
      }
  }
  for (int i = 0; i < SHAPES; i++) free_sample(&s[i]);
}

static atomic_bool stop;

static void *call_until_stopped(void *arg) {
  sample s[SHAPES];
  make_samples(s, *(const int *)arg);
  for (int i = 0; !atomic_load(&stop); i++) multiply(&s[i % SHAPES], "beside forks");
  for (int i = 0; i < SHAPES; i++) free_sample(&s[i]);
  return NULL;
}

/* ThreadSanitizer takes new threads of a child for its parent's. */
#if defined(__SANITIZE_THREAD__)
enum { CHILD_THREADS = 1 };
#else
enum { CHILD_THREADS = 4 };
#endif

static void multiply_in_child(const sample *s) {
  alarm(60);
  gemm_threads_set(CHILD_THREADS);
  for (int i = 0; i < SHAPES; i++) multiply(&s[i], "in a child");
  _exit(0);
}

enum { CALLERS = 4, FORKS = 12 };

static void start_callers(pthread_t *threads) {
  static const int types[] = {GEMM_F32, GEMM_F64};
  atomic_store(&stop, false);
  for (int i = 0; i < CALLERS; i++)
    CHECK(pthread_create(&threads[i], NULL, call_until_stopped, (void *)&types[i % 2]) == 0,
          "pthread_create");
}

static void stop_callers(pthread_t *threads) {
  atomic_store(&stop, true);
  for (int i = 0; i < CALLERS; i++) pthread_join(threads[i], NULL);
}

/* The pool belongs to some caller at the moment of each fork; the child must not wait for that one. */
static void test_fork_amid(void) {
  pthread_t threads[CALLERS];
  sample s[SHAPES];
  make_samples(s, GEMM_F32);
  gemm_threads_set(3);
  start_callers(threads);
  for (int i = 0; i < FORKS; i++) {
    usleep(2000);
    const pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) multiply_in_child(s);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "child %d ended with status %x", i,
          (unsigned)status);
  }
  stop_callers(threads);
  for (int i = 0; i < SHAPES; i++) free_sample(&s[i]);
}

/* Thread counts, instruction sets and parking change while others multiply. */
static void test_settings_amid(void) {
  pthread_t threads[CALLERS];
  char best[16], name[16];
  snprintf(best, sizeof best, "%s", gemm_isa());
  start_callers(threads);
  for (int i = 0; i < 40; i++) {
    const char *list = gemm_isa_usable();
    gemm_threads_set(1 + i % PRETENDED);
    while (next_word(&list, name)) gemm_isa_set(name), usleep(500);
    gemm_threads_park();
  }
  stop_callers(threads);
  gemm_isa_set(best);
}

int main(void) {
  on_every_isa(test_counts);
  test_settings_amid();
  test_fork_amid();
  return 0;
}
