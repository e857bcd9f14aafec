/* A stand-in for libcuda.so.1 whose device is the CPU: a "cubin" is the path of a shared library with
 * `run_kernel`, device memory ends at an unmapped page, and every call is checked as far as the real one is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
  OK,
  INVALID = 1,
  MEMORY = 2,
  NOT_INITIALIZED = 3,
  NO_DEVICE = 100,
  BAD_CONTEXT = 201,
  BAD_HANDLE = 400,
  NOT_FOUND = 500
};
enum { MAX_BLOCKS = 4096, MAX_FUNCTIONS = 4096 };

static struct {
  uint64_t address;
  size_t size, mapped;
  void *base;
} blocks[MAX_BLOCKS];
static struct {
  int (*run)(const void *, unsigned, unsigned, unsigned);
  int empty, spoils;
} functions[MAX_FUNCTIONS];
static int lost;   /* what every call returns once the kernel named by FAKE_SPOIL was launched */
int fake_harmless; /* it does nothing yet */
static int function_count, stream_count, event_count, started_pid;
static void *context;
static size_t used;

static size_t capacity(void) {
  const char *text = getenv("FAKE_GPU_BYTES");
  return text ? strtoull(text, 0, 10) : (size_t)1 << 32;
}

/* What is still held: live allocations * 1000000 + streams * 1000 + events. */
int fake_held(void) {
  int live = 0;
  for (int i = 0; i < MAX_BLOCKS; ++i) live += blocks[i].address != 0;
  return live * 1000000 + stream_count * 1000 + event_count;
}

int cuInit(unsigned flags) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (visible && strcmp(visible, "0")) return NO_DEVICE;
  if (started_pid && started_pid != getpid()) return NOT_INITIALIZED;
  started_pid = getpid();
  lost = OK;
  return flags ? INVALID : OK;
}
int cuDriverGetVersion(int *v) {
  const char *text = getenv("FAKE_DRIVER_CUDA");
  *v = text ? atoi(text) : 13000;
  return OK;
}
int cuGetErrorName(int code, const char **text) {
  return *text = code == MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR", OK;
}
int cuGetErrorString(int code, const char **text) {
  return *text = code == MEMORY ? "out of memory" : "error", OK;
}
int cuDeviceGetCount(int *n) { return *n = 1, OK; }
int cuDeviceGet(int *d, int ordinal) { return *d = ordinal, ordinal ? 101 : OK; }
int cuDeviceGetName(char *name, int size, int d) { return snprintf(name, size, "CPU%d", d), OK; }
int cuDeviceGetAttribute(int *v, int attribute, int d) {
  const char *text = getenv("FAKE_COMPUTE");
  const int compute = text ? atoi(text) : 90;
  *v = attribute == 75   ? compute / 10
       : attribute == 76 ? compute % 10
       : attribute == 16 ? 4
       : attribute == 39 ? 2048
                         : 1 << 20;
  return d ? 101 : OK;
}
int cuDeviceTotalMem_v2(size_t *size, int d) { return *size = capacity(), d ? 101 : OK; }
int cuDevicePrimaryCtxRetain(void **c, int d) { return *c = &functions, d ? 101 : OK; }
int cuCtxSetCurrent(void *c) { return context = c, c == (void *)&functions ? OK : BAD_CONTEXT; }
int cuCtxSynchronize(void) { return context ? lost : BAD_CONTEXT; }
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  *total = capacity(), *free_bytes = *total - used;
  return context ? OK : BAD_CONTEXT;
}
int cuMemAlloc_v2(uint64_t *address, size_t size) {
  if (!context) return BAD_CONTEXT;
  if (lost || !size) return lost ? lost : INVALID;
  if (used + size > capacity()) return MEMORY;
  const size_t page = 4096, mapped = (size + page - 1) / page * page + page;
  char *base = mmap(0, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return MEMORY;
  mprotect(base + mapped - page, page, PROT_NONE);
  memset(base, 0xff, mapped - page);
  /* As close to the unmapped page as the alignment that wmma's 16-byte reads rely on allows. */
  const size_t alignment = getenv("FAKE_ALIGN") ? strtoull(getenv("FAKE_ALIGN"), 0, 10) : 256;
  *address = ((uint64_t)base + mapped - page - size) / alignment * alignment;
  for (int i = 0; i < MAX_BLOCKS; ++i)
    if (!blocks[i].address) {
      blocks[i].address = *address, blocks[i].size = size, blocks[i].mapped = mapped,
      blocks[i].base = base;
      used += size;
      return OK;
    }
  return MEMORY;
}
int cuMemFree_v2(uint64_t address) {
  if (lost) return lost;
  for (int i = 0; i < MAX_BLOCKS; ++i)
    if (address && blocks[i].address == address) {
      munmap(blocks[i].base, blocks[i].mapped);
      used -= blocks[i].size, blocks[i].address = 0;
      return OK;
    }
  return INVALID;
}
static int inside(uint64_t address, size_t size) {
  for (int i = 0; i < MAX_BLOCKS; ++i)
    if (blocks[i].address && address >= blocks[i].address &&
        address + size <= blocks[i].address + blocks[i].size)
      return 1;
  return 0;
}
static int stream_ok(void *stream) { return context && (uintptr_t)stream == 0x5eed; }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream) {
  if (lost) return lost;
  if (!stream_ok(stream)) return BAD_HANDLE;
  if (!inside(to, size)) return INVALID;
  return memcpy((void *)to, from, size), OK;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream) {
  if (lost) return lost;
  if (!stream_ok(stream)) return BAD_HANDLE;
  if (!inside(from, size)) return INVALID;
  return memcpy(to, (void *)from, size), OK;
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, void *stream) {
  if (!stream_ok(stream)) return BAD_HANDLE;
  if (!inside(to, size)) return INVALID;
  return memset((void *)to, value, size), OK;
}
int cuStreamCreate(void **stream, unsigned flags) {
  return ++stream_count, *stream = (void *)0x5eed, flags == 1 && context ? OK : INVALID;
}
int cuStreamDestroy_v2(void *stream) { return --stream_count, stream_ok(stream) ? OK : BAD_HANDLE; }
int cuStreamSynchronize(void *stream) { return stream_ok(stream) ? lost : BAD_HANDLE; }
int cuEventCreate(void **event, unsigned flags) {
  return ++event_count, *event = calloc(1, sizeof(struct timespec)), flags ? INVALID : OK;
}
int cuEventDestroy_v2(void *event) { return --event_count, free(event), OK; }
int cuEventRecord(void *event, void *stream) {
  return clock_gettime(CLOCK_MONOTONIC, event), stream_ok(stream) ? OK : BAD_HANDLE;
}
int cuEventSynchronize(void *event) { return event ? lost : BAD_HANDLE; }
int cuEventElapsedTime(float *ms, const struct timespec *a, const struct timespec *b) {
  *ms = (b->tv_sec - a->tv_sec) * 1e3f + (b->tv_nsec - a->tv_nsec) * 1e-6f;
  return OK;
}
int cuModuleLoadData(void **module, const char *image) {
  *module = dlopen(image, RTLD_NOW | RTLD_LOCAL);
  if (!*module) fprintf(stderr, "%s\n", dlerror());
  return *module && context ? OK : 209; /* CUDA_ERROR_NO_BINARY_FOR_GPU */
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  if (!dlsym(module, name)) return NOT_FOUND;
  functions[function_count].empty = !strcmp(name, "empty_kernel");
  const char *spoils = getenv("FAKE_SPOIL");
  functions[function_count].spoils = spoils && !strcmp(name, spoils);
  const char *run = strcmp(name, "realign") ? "run_kernel" : "run_realign";
  *(void **)&functions[function_count].run = dlsym(module, run);
  *function = &functions[function_count++];
  return OK;
}
int cuFuncGetAttribute(int *v, int attribute, void *function) {
  return *v = attribute == 4 ? 32 : 0, function ? OK : BAD_HANDLE;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
  return function && attribute == 8 && value ? OK : INVALID;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *v, void *function, int threads,
                                                size_t shared) {
  return *v = shared > 232448 ? 0 : 2048 / threads, function ? OK : BAD_HANDLE;
}

/* A graph is a list of launches; the arguments are read when it is launched, so they must still be there. */
struct node {
  struct node *next;
  void *function, **arguments;
  unsigned gx, bx, by;
};
static struct node *captured, **captured_end;
static int capturing, graph_count;
int fake_graphs(void) { return graph_count; }
int cuStreamBeginCapture_v2(void *stream, int mode) {
  if (!stream_ok(stream) || capturing || mode != 2) return BAD_HANDLE;
  return capturing = 1, captured = 0, captured_end = &captured, OK;
}
int cuStreamEndCapture(void *stream, void **graph) {
  if (!stream_ok(stream) || !capturing) return BAD_HANDLE;
  capturing = 0;
  if (getenv("FAKE_NO_GRAPHS")) return 901; /* CUDA_ERROR_STREAM_CAPTURE_INVALIDATED */
  struct node **head = malloc(sizeof *head);
  *head = captured, *graph = head, ++graph_count;
  return OK;
}
int cuGraphInstantiateWithFlags(void **executable, struct node **graph, uint64_t flags) {
  struct node **head = malloc(sizeof *head);
  *head = *graph, *graph = 0, *executable = head, ++graph_count;
  return flags ? INVALID : OK;
}
int cuGraphDestroy(struct node **graph) {
  for (struct node *n = *graph, *next; n; n = next) next = n->next, free(n);
  return --graph_count, free(graph), OK;
}
int cuGraphExecDestroy(struct node **executable) { return cuGraphDestroy(executable); }

static int launch(void *function, unsigned gx, unsigned bx, unsigned by, void **arguments) {
  const __typeof__(functions[0]) *f = function;
  if (lost) return lost;
  if (f->spoils && !fake_harmless)
    return lost = 700, OK; /* CUDA_ERROR_ILLEGAL_ADDRESS, found out later */
  return f->empty ? OK : f->run(arguments[0], gx, bx, by);
}
int cuGraphLaunch(struct node **executable, void *stream) {
  if (!stream_ok(stream) || capturing) return BAD_HANDLE;
  for (struct node *n = *executable; n; n = n->next) {
    const int code = launch(n->function, n->gx, n->bx, n->by, n->arguments);
    if (code) return code;
  }
  return OK;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **arguments, void **extra) {
  if (!stream_ok(stream)) return BAD_HANDLE;
  if (!gx || gx > 2147483647u || gy != 1 || gz != 1 || bz != 1 || bx * by > 1024 ||
      shared > 232448 || extra)
    return INVALID;
  if (!capturing) return launch(function, gx, bx, by, arguments);
  struct node *n = malloc(sizeof *n);
  *n = (struct node){0, function, arguments, gx, bx, by};
  return *captured_end = n, captured_end = &n->next, OK;
}

/* CUlaunchConfig; launches of a stream never overlap here, whatever the one attribute allows. */
struct config {
  unsigned grid[3], block[3], shared;
  void *stream;
  const struct {
    int id, pad, value;
  } *attributes;
  unsigned count;
};
int cuLaunchKernelEx(const struct config *c, void *function, void **arguments, void **extra) {
  if (c->count != 1 || c->attributes->id != 6 || c->attributes->value != 1) return INVALID;
  const unsigned *g = c->grid, *b = c->block;
  return cuLaunchKernel(function, g[0], g[1], g[2], b[0], b[1], b[2], c->shared, c->stream,
                        arguments, extra);
}
