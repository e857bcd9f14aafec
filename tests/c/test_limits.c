/* Thread counts from text, and processor quotas from cgroup trees written for the occasion. */
#define _GNU_SOURCE
#include "check.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_parse(void) {
  static const struct {
    const char *text;
    int count;
  } cases[] = {{"1", 1},
               {"8", 8},
               {"4,2", 4},
               {" 3 ", 3},
               {"0", 0},
               {"-1", 0},
               {"abc", 0},
               {"", 0},
               {"2.5", 0},
               {"1000000", 1000000},
               {"4x", 0},
               {",2", 0},
               {"99999999999999999999", INT_MAX}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const int got = limits_parse_threads(cases[i].text);
    CHECK(got == cases[i].count, "'%s' -> %d instead of %d", cases[i].text, got, cases[i].count);
  }
}

static char root[] = "/tmp/gemm-limits-XXXXXX";

static void in_root(char *path, const char *name) { snprintf(path, PATH_MAX, "%s/%s", root, name); }

static void make_folder(const char *name) {
  char path[PATH_MAX];
  in_root(path, name);
  CHECK(mkdir(path, 0700) == 0, "mkdir %s", path);
}

static void write_file(const char *name, const char *text) {
  char path[PATH_MAX];
  in_root(path, name);
  FILE *f = fopen(path, "w");
  CHECK(f, "open %s", path);
  fputs(text, f);
  fclose(f);
}

static int quota(const char *membership) {
  char path[PATH_MAX];
  write_file("membership", membership);
  in_root(path, "membership");
  return limits_quota(path, root);
}

static void test_quota(void) {
  CHECK(mkdtemp(root), "mkdtemp");
  make_folder("up");
  make_folder("up/down");
  make_folder("cpu,cpuacct");
  make_folder("cpu,cpuacct/job");
  CHECK(quota("0::/up/down\n") == INT_MAX, "no limit anywhere");
  write_file("up/down/cpu.max", "max 100000\n");
  CHECK(quota("0::/up/down\n") == INT_MAX, "max is no limit");
  write_file("up/cpu.max", "250000 100000\n");
  CHECK(quota("0::/up/down\n") == 3, "2.5 processors above: three threads");
  write_file("up/down/cpu.max", "100000 100000\n");
  CHECK(quota("0::/up/down\n") == 1, "the tightest counts");
  CHECK(quota("0::/up\n") == 3, "a neighbour's limit does not");
  write_file("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write_file("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(quota("4:cpu,cpuacct:/job\n") == INT_MAX, "-1 is no limit");
  write_file("cpu,cpuacct/job/cpu.cfs_quota_us", "20000\n");
  write_file("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  CHECK(quota("7:memory:/x\n4:cpu,cpuacct:/job\n0::/\n") == 1,
        "a fifth of a processor: one thread");
  CHECK(quota("nonsense\n") == INT_MAX, "an unreadable line");
  CHECK(limits_quota("/nonexistent", root) == INT_MAX, "no such file");
}

static void remove_tree(void) {
  char command[PATH_MAX + 16];
  snprintf(command, sizeof command, "rm -r '%s'", root);
  CHECK(system(command) == 0, "%s", command);
}

int main(void) {
  test_parse();
  test_quota();
  remove_tree();
  CHECK(limits_processors() >= 1, "no processors");
  return 0;
}
