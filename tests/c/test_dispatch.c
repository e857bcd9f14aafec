/* Which instruction set runs: this program starts itself again with values of GEMM_ISA.
 *
 *   test_dispatch              checks GEMM_ISA and gemm_isa_set on this processor
 *   test_dispatch usable       prints the instruction sets that run here, lowest first
 *   test_dispatch expect NAME  checks that NAME is in force, and that it multiplies (used under qemu) */
#define _GNU_SOURCE
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

static void multiplies(void) {
  for (int type = 0; type < TYPES; type++) {
    matrix a = make(type, 130, 90, ROWS, 0), b = make(type, 90, 77, ROWS, 0),
           c = make(type, 130, 77, ROWS, 0);
    fill(&a);
    fill(&b);
    double *want = expected(&a, &b, &c, 1, 0);
    const gemm_call call = call_of(&a, &b, &c, 1, 0);
    CHECK(gemm_run(&call) == GEMM_OK, "status");
    check_equal(&c, want, "dispatch");
    free(want);
    free(a.memory);
    free(b.memory);
    free(c.memory);
  }
}

static void expect(const char *name) {
  CHECK(strcmp(gemm_isa(), name) == 0, "%s is in force instead of %s", gemm_isa(), name);
  multiplies();
}

static void expect_with(const char *self, const char *value, const char *isa, bool warned) {
  const pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    setenv("GEMM_ISA", value, 1);
    execl(self, self, "expect", isa, warned ? "warned" : "silent", (char *)NULL);
    _exit(127);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "GEMM_ISA=%s should run %s", value,
        isa);
}

static void test_table(void) {
  CHECK(strncmp(gemm_isa_compiled(), "portable", 8) == 0, "%s", gemm_isa_compiled());
  CHECK(strncmp(gemm_isa_compiled(), gemm_isa_usable(), strlen(gemm_isa_usable())) == 0,
        "usable: %s", gemm_isa_usable());
  for (int type = 0; type < TYPES; type++) {
    ptrdiff_t blocks[3];
    const kernel *kn = dispatch_kernel(type);
    gemm_blocks(type, blocks);
    CHECK(strcmp(gemm_kernel(type), kn->name) == 0 && strstr(kn->name, gemm_isa()), "%s", kn->name);
    CHECK(blocks[0] >= kn->mr && blocks[0] % kn->mr == 0, "MC %td", blocks[0]);
    CHECK(blocks[1] > 0, "KC %td", blocks[1]);
    CHECK(blocks[2] >= kn->nr && blocks[2] % kn->nr == 0, "NC %td", blocks[2]);
  }
  CHECK(gemm_kernel(9)[0] == 0, "a kernel for type 9");
}

static void test_set(void) {
  char best[16];
  snprintf(best, sizeof best, "%s", gemm_isa());
  CHECK(gemm_isa_set("sse9") == GEMM_BAD_ARGUMENT && strcmp(gemm_isa(), best) == 0,
        "an unknown name");
  CHECK(gemm_isa_set("portable") == GEMM_OK && strcmp(gemm_isa(), "portable") == 0, "lowering");
  multiplies();
  CHECK(gemm_isa_set(best) == GEMM_OK && strcmp(gemm_isa(), best) == 0, "back again");
}

int main(int argc, char **argv) {
  if (argc >= 3 && strcmp(argv[1], "expect") == 0) {
    expect(argv[2]);
    if (argc > 3) {
      CHECK((*gemm_warnings() != 0) == (strcmp(argv[3], "warned") == 0), "warnings: '%s'",
            gemm_warnings());
      CHECK(getenv("GEMM_ISA") == NULL || strcmp(argv[2], "portable") != 0 ||
                strcmp(getenv("GEMM_ISA"), "portable") != 0 ||
                gemm_isa_set("avx2") == GEMM_BAD_ARGUMENT,
            "raised above GEMM_ISA");
    }
    return 0;
  }
  if (argc == 2 && strcmp(argv[1], "usable") == 0) return puts(gemm_isa_usable()) < 0;
  test_table();
  test_set();
  char best[16];
  snprintf(best, sizeof best, "%s", gemm_isa());
  expect_with(argv[0], "portable", "portable", false);
  if (strstr(gemm_isa_usable(), "avx2") && strcmp(best, "portable") != 0)
    expect_with(argv[0], "avx2", "avx2", false);
  if (!getenv("GEMM_ISA")) {
    expect_with(argv[0], "", best, false);
    expect_with(argv[0], "mmx", best, true);
  }
  return 0;
}
