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
  NOT_FOUND = 500,
  LOST = 719 /* CUDA_ERROR_LAUNCH_FAILED: sticky */
};
enum { MAX_FUNCTIONS = 4096, MAX_STREAMS = 1 << 20 };

static struct {
  int (*run)(const void *, unsigned, unsigned, unsigned);
  int empty, spoils;
} functions[MAX_FUNCTIONS];
static int function_count, stream_count, streams_made, event_count, started_pid, calls;
static unsigned char stream_open[MAX_STREAMS];
static int prefetches[2];
static int lost;   /* what every call returns once the kernel named by FAKE_SPOIL was launched */
int fake_harmless; /* it does nothing yet */
static void *context;

/* Calls made since the last `fake_restart`, the texts of errors aside; from call FAKE_LOST_AFTER on each fails. */
int fake_calls(void) { return calls; }
void fake_restart(void) { calls = prefetches[0] = prefetches[1] = 0; }
static int failing(void) {
  const char *text = getenv("FAKE_LOST_AFTER");
  return ++calls, text && calls >= atoi(text);
}
#define CALL                                                                                       \
  if (failing()) return LOST

/* Prefetches since then, to the device (0) or to the host (-1). */
int fake_prefetches(int to) { return prefetches[to < 0]; }

#include "driver_memory.h"

/* What is still held: live allocations * 1000000 + streams * 1000 + events. */
int fake_held(void) {
  int live = 0;
  for (int i = 0; i < MAX_BLOCKS; ++i) live += blocks[i].address != 0;
  return live * 1000000 + stream_count * 1000 + event_count;
}

int cuInit(unsigned flags) {
  CALL;
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (visible && strcmp(visible, "0")) return NO_DEVICE;
  if (started_pid && started_pid != getpid()) return NOT_INITIALIZED;
  started_pid = getpid();
  lost = OK;
  return flags ? INVALID : OK;
}
int cuDriverGetVersion(int *v) {
  CALL;
  const char *text = getenv("FAKE_DRIVER_CUDA");
  *v = text ? atoi(text) : 13000;
  return OK;
}
int cuGetErrorName(int code, const char **text) {
  *text = code == MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == LOST ? "CUDA_ERROR_LAUNCH_FAILED"
                         : "CUDA_ERROR";
  return OK;
}
int cuGetErrorString(int code, const char **text) {
  return *text = code == MEMORY ? "out of memory" : "error", OK;
}
int cuDeviceGetCount(int *n) {
  CALL;
  return *n = 1, OK;
}
int cuDeviceGet(int *d, int ordinal) {
  CALL;
  return *d = ordinal, ordinal ? 101 : OK;
}
int cuDeviceGetName(char *name, int size, int d) {
  CALL;
  return snprintf(name, size, "CPU%d", d), OK;
}
int cuDeviceGetAttribute(int *v, int attribute, int d) {
  CALL;
  const char *text = getenv("FAKE_COMPUTE");
  const int compute = text ? atoi(text) : 90;
  *v = attribute == 75   ? compute / 10
       : attribute == 76 ? compute % 10
       : attribute == 16 ? 4
       : attribute == 39 ? 2048
       : attribute == 89 ? !getenv("FAKE_NO_CONCURRENT_ACCESS")
                         : 1 << 20;
  return d ? 101 : OK;
}
int cuDeviceTotalMem_v2(size_t *size, int d) {
  CALL;
  return *size = capacity(), d ? 101 : OK;
}
int cuDevicePrimaryCtxRetain(void **c, int d) {
  CALL;
  return *c = &functions, d ? 101 : OK;
}
int cuCtxSynchronize(void) {
  CALL;
  return context ? lost : BAD_CONTEXT;
}
int cuCtxSetCurrent(void *c) {
  CALL;
  return context = c, c == (void *)&functions ? OK : BAD_CONTEXT;
}
int cuCtxGetCurrent(void **c) {
  CALL;
  return *c = context, OK;
}
/* Handles are 0x5eed0001, 0x5eed0002, ...: none comes twice, so that a stream destroyed stays a bad handle, and
 * 1 and 2 stay free for what CUDA calls the legacy and the per-thread stream. */
static unsigned stream_number(void *stream) { return (unsigned)((uintptr_t)stream - 0x5eed0000u); }
static int stream_ok(void *stream) {
  const unsigned n = stream_number(stream);
  return context && n < MAX_STREAMS && stream_open[n];
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream) {
  CALL;
  if (lost) return lost;
  if (!stream_ok(stream)) return BAD_HANDLE;
  if (!inside(to, size)) return INVALID;
  return memcpy((void *)to, from, size), OK;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream) {
  CALL;
  if (lost) return lost;
  if (!stream_ok(stream)) return BAD_HANDLE;
  if (!inside(from, size)) return INVALID;
  return memcpy(to, (void *)from, size), OK;
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, void *stream) {
  CALL;
  if (!stream_ok(stream)) return BAD_HANDLE;
  if (!inside(to, size)) return INVALID;
  return memset((void *)to, value, size), OK;
}
int cuStreamCreate(void **stream, unsigned flags) {
  CALL;
  if (flags != 1 || !context || streams_made + 1 >= MAX_STREAMS) return INVALID;
  stream_open[++streams_made] = 1, ++stream_count;
  return *stream = (void *)(0x5eed0000ul + streams_made), OK;
}
int cuStreamDestroy_v2(void *stream) {
  CALL;
  if (!stream_ok(stream)) return BAD_HANDLE;
  return stream_open[stream_number(stream)] = 0, --stream_count, OK;
}
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
  CALL;
  return stream_ok(stream) && event && !flags ? OK : BAD_HANDLE;
}
int cuMemPrefetchAsync(uint64_t address, size_t size, int to, void *stream) {
  CALL;
  if (lost) return lost;
  if (!stream_ok(stream)) return BAD_HANDLE;
  if (!within(address, size, 1 << MANAGED)) return INVALID;
  return to != 0 && to != -1 ? 101 : (++prefetches[to < 0], OK);
}
/* CUDA_MEMCPY2D: one end on the host (1), the other on the device (2). */
struct copy_2d {
  size_t from_x, from_y;
  int from_kind;
  const char *from_host;
  uint64_t from_device;
  void *from_array;
  size_t from_pitch, to_x, to_y;
  int to_kind;
  char *to_host;
  uint64_t to_device;
  void *to_array;
  size_t to_pitch, width, height;
};
int cuMemcpy2DAsync_v2(const struct copy_2d *c, void *stream) {
  CALL;
  if (lost) return lost;
  if (!stream_ok(stream)) return BAD_HANDLE;
  if (c->from_kind + c->to_kind != 3 || c->from_kind < 1 || c->to_kind < 1) return INVALID;
  if (!c->width || !c->height) return OK;
  if (c->from_pitch < c->from_x + c->width || c->to_pitch < c->to_x + c->width) return INVALID;
  const char *from = c->from_kind == 1 ? c->from_host : (const char *)c->from_device;
  char *to = c->to_kind == 1 ? c->to_host : (char *)c->to_device;
  from += c->from_y * c->from_pitch + c->from_x, to += c->to_y * c->to_pitch + c->to_x;
  const size_t pitch = c->to_kind == 2 ? c->to_pitch : c->from_pitch;
  if (!inside((uint64_t)(c->to_kind == 2 ? to : from), (c->height - 1) * pitch + c->width))
    return INVALID;
  for (size_t row = 0; row < c->height; ++row)
    memcpy(to + row * c->to_pitch, from + row * c->from_pitch, c->width);
  return OK;
}
int cuStreamSynchronize(void *stream) {
  CALL;
  return stream_ok(stream) ? lost : BAD_HANDLE;
}
int cuEventCreate(void **event, unsigned flags) {
  CALL;
  return ++event_count, *event = calloc(1, sizeof(struct timespec)), flags & ~2u ? INVALID : OK;
}
int cuEventDestroy_v2(void *event) {
  CALL;
  return --event_count, free(event), OK;
}
int cuEventRecord(void *event, void *stream) {
  CALL;
  return clock_gettime(CLOCK_MONOTONIC, event), stream_ok(stream) ? OK : BAD_HANDLE;
}
int cuEventSynchronize(void *event) {
  CALL;
  return event ? lost : BAD_HANDLE;
}
int cuEventElapsedTime(float *ms, const struct timespec *a, const struct timespec *b) {
  CALL;
  *ms = (b->tv_sec - a->tv_sec) * 1e3f + (b->tv_nsec - a->tv_nsec) * 1e-6f;
  return OK;
}
int cuModuleLoadData(void **module, const char *image) {
  CALL;
  *module = dlopen(image, RTLD_NOW | RTLD_LOCAL);
  if (!*module) fprintf(stderr, "%s\n", dlerror());
  return *module && context ? OK : 209; /* CUDA_ERROR_NO_BINARY_FOR_GPU */
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  CALL;
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
  CALL;
  return *v = attribute == 4 ? 32 : 0, function ? OK : BAD_HANDLE;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
  CALL;
  return function && attribute == 8 && value ? OK : INVALID;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *v, void *function, int threads,
                                                size_t shared) {
  CALL;
  return *v = shared > 232448 ? 0 : 2048 / threads, function ? OK : BAD_HANDLE;
}

/* A graph is a list of launches; the arguments are read when it is launched, so they must still be there. */
struct node {
  struct node *next;
  void *function, **arguments;
  unsigned gx, bx, by;
};
static struct node *captured, **captured_end;
static void *capturing; /* the stream that is */
static int graph_count;
int fake_graphs(void) { return graph_count; }
int cuStreamBeginCapture_v2(void *stream, int mode) {
  CALL;
  if (!stream_ok(stream) || capturing || mode != 2) return BAD_HANDLE;
  return capturing = stream, captured = 0, captured_end = &captured, OK;
}
int cuStreamEndCapture(void *stream, void **graph) {
  CALL;
  if (!stream_ok(stream) || capturing != stream) return BAD_HANDLE;
  capturing = 0;
  if (getenv("FAKE_NO_GRAPHS")) return 901; /* CUDA_ERROR_STREAM_CAPTURE_INVALIDATED */
  struct node **head = malloc(sizeof *head);
  *head = captured, *graph = head, ++graph_count;
  return OK;
}
int cuGraphInstantiateWithFlags(void **executable, struct node **graph, uint64_t flags) {
  CALL;
  struct node **head = malloc(sizeof *head);
  *head = *graph, *graph = 0, *executable = head, ++graph_count;
  return flags ? INVALID : OK;
}
int cuGraphDestroy(struct node **graph) {
  CALL;
  for (struct node *n = *graph, *next; n; n = next) next = n->next, free(n);
  return --graph_count, free(graph), OK;
}
int cuGraphExecDestroy(struct node **executable) {
  CALL;
  return cuGraphDestroy(executable);
}

static int launch(void *function, unsigned gx, unsigned bx, unsigned by, void **arguments) {
  const __typeof__(functions[0]) *f = function;
  if (lost) return lost;
  if (f->spoils && !fake_harmless)
    return lost = 700, OK; /* CUDA_ERROR_ILLEGAL_ADDRESS, found out later */
  return f->empty ? OK : f->run(arguments[0], gx, bx, by);
}
int cuGraphLaunch(struct node **executable, void *stream) {
  CALL;
  if (!stream_ok(stream) || capturing == stream) return BAD_HANDLE;
  for (struct node *n = *executable; n; n = n->next) {
    const int code = launch(n->function, n->gx, n->bx, n->by, n->arguments);
    if (code) return code;
  }
  return OK;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **arguments, void **extra) {
  CALL;
  if (!stream_ok(stream)) return BAD_HANDLE;
  if (!gx || gx > 2147483647u || gy != 1 || gz != 1 || bz != 1 || bx * by > 1024 ||
      shared > 232448 || extra)
    return INVALID;
  if (capturing != stream) return launch(function, gx, bx, by, arguments);
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
