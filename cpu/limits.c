/* How many threads make sense: the affinity mask, the cgroup's processor quota, the environment. */
#define _GNU_SOURCE
#include "internal.h"

#include <ctype.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int affinity(void) {
#ifdef __linux__
  for (int most = 1024; most <= 1 << 20; most *= 2) {
    cpu_set_t *set = CPU_ALLOC(most);
    if (!set) break;
    const size_t bytes = CPU_ALLOC_SIZE(most);
    const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
#endif
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

/* Quota and period in one file (v2, "max" for none) or in two (v1, -1 for none); INT_MAX: no limit. */
static int quota_of(double quota, double period) {
  if (quota <= 0 || period <= 0 || quota / period >= INT_MAX) return INT_MAX;
  const int whole = (int)(quota / period);
  return whole * period < quota ? whole + 1 : whole;
}

static double read_number(const char *folder, const char *file) {
  char path[PATH_MAX];
  double value = -1;
  if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path) return -1;
  FILE *f = fopen(path, "r");
  if (!f) return -1;
  if (fscanf(f, "%lf", &value) != 1) value = -1;
  fclose(f);
  return value;
}

static int quota_v2(const char *folder) {
  char path[PATH_MAX];
  double quota = -1, period = -1;
  if (snprintf(path, sizeof path, "%s/cpu.max", folder) >= (int)sizeof path) return INT_MAX;
  FILE *f = fopen(path, "r");
  if (!f) return INT_MAX;
  if (fscanf(f, "%lf %lf", &quota, &period) != 2) quota = -1;
  fclose(f);
  return quota_of(quota, period);
}

static int quota_here(const char *folder) {
  const int v1 =
      quota_of(read_number(folder, "cpu.cfs_quota_us"), read_number(folder, "cpu.cfs_period_us"));
  const int v2 = quota_v2(folder);
  return v1 < v2 ? v1 : v2;
}

/* The smallest quota from `path` below `root` up to `root` itself. */
static int quota_up_tree(const char *root, const char *path) {
  char folder[PATH_MAX];
  int quota = INT_MAX;
  if (snprintf(folder, sizeof folder, "%s%s", root, path) >= (int)sizeof folder) return INT_MAX;
  for (;;) {
    const int here = quota_here(folder);
    if (here < quota) quota = here;
    char *slash = strrchr(folder, '/');
    if (!slash || strlen(folder) <= strlen(root)) return quota;
    *slash = 0;
  }
}

static bool lists_cpu(char *controllers) {
  char *rest = NULL;
  for (char *word = strtok_r(controllers, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
    if (strcmp(word, "cpu") == 0) return true;
  return false;
}

/* A line of /proc/self/cgroup: "0::/path" (v2) or "4:cpu,cpuacct:/path" (v1, mounted by that name). */
static int quota_of_line(char *line, const char *mount) {
  char root[PATH_MAX], copy[256];
  char *controllers = strchr(line, ':');
  char *path = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!path) return INT_MAX;
  *controllers++ = 0, *path++ = 0;
  path[strcspn(path, "\n")] = 0;
  if (strcmp(path, "/") == 0) path = "";
  if (!*controllers) return quota_up_tree(mount, path);
  snprintf(copy, sizeof copy, "%s", controllers);
  if (!lists_cpu(copy)) return INT_MAX;
  if (snprintf(root, sizeof root, "%s/%s", mount, controllers) >= (int)sizeof root) return INT_MAX;
  return quota_up_tree(root, path);
}

int limits_quota(const char *proc_cgroup, const char *mount) {
  char line[PATH_MAX];
  int quota = INT_MAX;
  FILE *f = fopen(proc_cgroup, "r");
  if (!f) return INT_MAX;
  while (fgets(line, sizeof line, f)) {
    const int one = quota_of_line(line, mount);
    if (one < quota) quota = one;
  }
  fclose(f);
  return quota;
}

int limits_processors(void) {
  const int cpus = affinity(), quota = limits_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  return quota < cpus ? quota : cpus;
}

/* The first of a comma-separated list, as OpenMP writes nested counts; beyond INT_MAX still a count. */
int limits_parse_threads(const char *text) {
  char *end;
  const long n = strtol(text, &end, 10);
  if (end == text || n < 1) return 0;
  while (isspace((unsigned char)*end)) end++;
  if (*end && *end != ',') return 0;
  return n < INT_MAX ? (int)n : INT_MAX;
}
