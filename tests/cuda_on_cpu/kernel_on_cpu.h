/* Runs a CUDA kernel's source on the CPU: every thread of a block is a fiber that stops at each barrier.
 *
 * Force-included in front of a .cu file. It covers __syncthreads, __syncwarp, __shfl_down_sync, __ldg,
 * shared memory (filled with NaN before each block) and, in include/mma.h, wmma fragments.
 * A barrier that not all threads of a block reach, or that different threads reach at different lines, is
 * reported. Fibers run forward, in reverse or shuffled: the KERNEL_ORDER variable says forward, reverse, random. */
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__      __attribute__((section("kernel_shared"))) static
#define __syncthreads() kernel_cpu::wait(kernel_cpu::BLOCK, __LINE__)
#define __syncwarp()    kernel_cpu::wait(kernel_cpu::WARP, __LINE__)

struct int4 {
  int x, y, z, w;
};

namespace kernel_cpu {
struct Index {
  unsigned x, y, z;
};
enum Wait { RUNNING, BLOCK, WARP, DONE };
struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  Wait wait = RUNNING;
  int line = 0;
  double slot = 0;
};
inline std::vector<Fiber> fibers;
inline ucontext_t scheduler;
inline unsigned current;
inline Index thread_index, block_index, block_size;
inline int mistake; /* line of a barrier that was not reached by all, 0 if none */

inline void wait(Wait kind, int line) {
  Fiber &self = fibers[current];
  self.wait = kind, self.line = line;
  swapcontext(&self.context, &scheduler);
}

/* Lets the threads of one group go on when all that are alive wait at the same line. */
inline bool release(Wait kind, unsigned first, unsigned last) {
  int line = 0;
  unsigned waiting = 0, alive = 0;
  for (unsigned i = first; i < last; ++i) {
    if (fibers[i].wait != DONE) ++alive;
    if (fibers[i].wait != kind) continue;
    ++waiting;
    if (line && line != fibers[i].line) mistake = fibers[i].line;
    line = fibers[i].line;
  }
  if (!waiting || waiting < alive) return false;
  if (kind == BLOCK && alive < last - first)
    mistake = line; /* some thread returned before the barrier */
  for (unsigned i = first; i < last; ++i)
    if (fibers[i].wait == kind) fibers[i].wait = RUNNING;
  return true;
}

template <class Body> void entry(void *body) { (*static_cast<Body *>(body))(); }

inline unsigned pick(unsigned step, unsigned count, const std::vector<unsigned> &shuffled) {
  const char *order = getenv("KERNEL_ORDER");
  if (order && !strcmp(order, "reverse")) return count - 1 - step;
  if (order && !strcmp(order, "random")) return shuffled[step];
  return step;
}

extern "C" char __start_kernel_shared[] __attribute__((weak));
extern "C" char __stop_kernel_shared[] __attribute__((weak));

/* 0, or the line of a wrong barrier. */
template <class Body> int run_block(unsigned threads, Body body) {
  static std::vector<unsigned> shuffled;
  if (shuffled.size() != threads) {
    shuffled.resize(threads);
    for (unsigned i = 0; i < threads; ++i) shuffled[i] = i;
    for (unsigned i = threads; i-- > 1;) std::swap(shuffled[i], shuffled[rand() % (i + 1)]);
  }
  char *shared = __start_kernel_shared; /* null where the kernel has no shared memory */
  asm("" : "+r"(shared));
  if (shared) memset(shared, 0xff, __stop_kernel_shared - __start_kernel_shared);
  fibers.resize(threads);
  mistake = 0;
  auto whole = [&body] {
    body();
    fibers[current].wait = DONE;
    swapcontext(&fibers[current].context, &scheduler);
  };
  for (Fiber &f : fibers) {
    f.stack.resize(1 << 16);
    f.wait = RUNNING;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.data();
    f.context.uc_stack.ss_size = f.stack.size();
    f.context.uc_link = nullptr;
    void (*start)(void *) = entry<decltype(whole)>;
    makecontext(&f.context, (void (*)())start, 1, &whole);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (unsigned step = 0; step < threads; ++step) {
      const unsigned i = pick(step, threads, shuffled);
      if (fibers[i].wait != RUNNING) continue;
      moved = true, current = i;
      thread_index = {i % block_size.x, i / block_size.x, 0};
      swapcontext(&scheduler, &fibers[i].context);
    }
    for (unsigned w = 0; w < threads; w += 32)
      moved |= release(WARP, w, w + 32 < threads ? w + 32 : threads);
    moved |= release(BLOCK, 0, threads);
  }
  for (Fiber &f : fibers)
    if (f.wait != DONE) mistake = f.line;
  return mistake;
}
} // namespace kernel_cpu

#define threadIdx kernel_cpu::thread_index
#define blockIdx  kernel_cpu::block_index
#define blockDim  kernel_cpu::block_size

template <class V> inline V __ldg(const V *p) { return *p; }

/* Both halves of a shuffle are barriers of the warp: write, wait, read, wait. */
template <class V> V shuffle_down(V value, unsigned delta, int line) {
  using namespace kernel_cpu;
  const unsigned me = current, from = me % 32 + delta < 32 ? me + delta : me;
  fibers[me].slot = double(value);
  wait(WARP, line);
  const V result = V(fibers[from].slot);
  wait(WARP, line);
  return result;
}
#define __shfl_down_sync(mask, value, delta) shuffle_down(value, delta, __LINE__)
