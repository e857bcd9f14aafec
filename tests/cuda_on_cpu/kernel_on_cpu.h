/* Runs a CUDA kernel's source on the CPU: every thread of a block is a fiber that stops at each barrier.
 *
 * Included in front of a .cu file. It covers __syncthreads, __syncwarp, __shfl_down_sync, __ldg,
 * shared memory (filled with NaN before each block), in include/mma.h wmma fragments, and in
 * include/cp_async.cuh asynchronous copies.
 * A barrier that not all threads of a block reach, or that different threads reach at different lines, is
 * reported. A warp runs to its next __syncthreads before another one starts, which shows where one was forgotten.
 * Fibers run forward, in reverse or shuffled: the KERNEL_ORDER variable says forward, reverse, random. */
#pragma once
#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <ucontext.h>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__      __attribute__((section("kernel_shared"))) static
#define __syncthreads() kernel_cpu::wait(kernel_cpu::BLOCK, __LINE__)
#define __syncwarp()    kernel_cpu::wait(kernel_cpu::WARP, __LINE__)

struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
/* 32 bits of high:low, from the bit `shift` on; and those that end so many bits before high's end. */
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) << (shift & 31) >> 32);
}

namespace kernel_cpu {
struct Index {
  unsigned x, y, z;
};
enum Wait { RUNNING, BLOCK, WARP, DONE };
struct Copy { /* an asynchronous one on its way: `size` bytes, of which the last are zeros */
  void *to;
  const void *from;
  int size, bytes, group;
};
constexpr size_t STACK = 1 << 16;
struct Fiber {
  ucontext_t start;
  jmp_buf point; /* where it goes on, once it has started */
  bool started = false;
  std::unique_ptr<char[]> stack; /* not filled: most of it is never touched */
  Wait wait = RUNNING;
  int line = 0;
  double slot = 0;
  int group = 0;
  std::vector<Copy> copies;
};
inline std::vector<Fiber> fibers;
inline jmp_buf scheduler;
inline unsigned current;
inline Index thread_index, block_index, block_size, grid_size;
inline int mistake; /* line of a barrier that was not reached by all, 0 if none */

/* swapcontext() alone would do for both, but it makes a system call each time. */
__attribute__((noinline)) inline void resume(Fiber &f) {
  if (_setjmp(scheduler)) return;
  if (f.started) _longjmp(f.point, 1);
  f.started = true;
  setcontext(&f.start);
}

__attribute__((noinline)) inline void suspend(Fiber &self) {
  if (!_setjmp(self.point)) _longjmp(scheduler, 1);
}

inline void wait(Wait kind, int line) {
  Fiber &self = fibers[current];
  self.wait = kind, self.line = line;
  suspend(self);
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

/* In which order the fibers of a block take turns. */
inline std::vector<unsigned> turns(unsigned threads) {
  const char *name = getenv("KERNEL_ORDER");
  std::vector<unsigned> order(threads);
  for (unsigned i = 0; i < threads; ++i) order[i] = i;
  if (name && !strcmp(name, "reverse")) std::reverse(order.begin(), order.end());
  if (name && !strcmp(name, "random"))
    for (unsigned i = threads; i-- > 1;) std::swap(order[i], order[rand() % (i + 1)]);
  return order;
}

/* The same, warp after warp. */
inline std::vector<std::vector<unsigned>> by_warp(const std::vector<unsigned> &order) {
  std::vector<std::vector<unsigned>> warps;
  std::vector<int> place(order.size() / 32 + 1, -1);
  for (const unsigned i : order) {
    if (place[i / 32] < 0) place[i / 32] = int(warps.size()), warps.emplace_back();
    warps[place[i / 32]].push_back(i);
  }
  return warps;
}

/* Runs the fibers of a warp up to their next barrier; false if none of them could go on. */
inline bool run_warp(const std::vector<unsigned> &warp, unsigned threads) {
  bool moved = false;
  for (const unsigned i : warp) {
    if (fibers[i].wait != RUNNING) continue;
    moved = true, current = i;
    thread_index = {i % block_size.x, i / block_size.x, 0};
    resume(fibers[i]);
  }
  const unsigned first = warp[0] / 32 * 32;
  return release(WARP, first, std::min(first + 32, threads)) || moved;
}

extern "C" char __start_kernel_shared[] __attribute__((weak));
extern "C" char __stop_kernel_shared[] __attribute__((weak));

/* 0, or the line of a wrong barrier. */
template <class Body> int run_block(unsigned threads, Body body) {
  const std::vector<unsigned> order = turns(threads);
  char *shared = __start_kernel_shared; /* null where the kernel has no shared memory */
  asm("" : "+r"(shared));
  if (shared) memset(shared, 0xff, __stop_kernel_shared - __start_kernel_shared);
  fibers.resize(threads);
  mistake = 0;
  auto whole = [&body] {
    body();
    fibers[current].wait = DONE;
    suspend(fibers[current]);
  };
  for (Fiber &f : fibers) {
    if (!f.stack) f.stack.reset(new char[STACK]);
    f.wait = RUNNING, f.started = false, f.group = 0;
    f.copies.clear();
    getcontext(&f.start);
    f.start.uc_stack.ss_sp = f.stack.get();
    f.start.uc_stack.ss_size = STACK;
    f.start.uc_link = nullptr;
    void (*start)(void *) = entry<decltype(whole)>;
    makecontext(&f.start, (void (*)())start, 1, &whole);
  }
  const auto warps = by_warp(order);
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto &warp : warps)
      while (run_warp(warp, threads)) moved = true;
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
#define gridDim   kernel_cpu::grid_size

template <class V> V min(V a, V b) { return a < b ? a : b; }
template <class V> V max(V a, V b) { return a < b ? b : a; }
template <class V> inline V __ldg(const V *p) { return *p; }
template <class V> inline V __ldcs(const V *p) { return *p; }
template <class V> inline void __stcs(V *p, V value) { *p = value; }
template <class V> inline void __stwb(V *p, V value) { *p = value; }

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

/* Blocks run one after another, so an atomic is an ordinary access and a fence nothing. */
template <class V> inline V __ldcg(const V *p) { return *p; }
inline void __threadfence() {}
inline unsigned atomicInc(unsigned *count, unsigned last) {
  const unsigned old = *count;
  *count = old >= last ? 0 : old + 1;
  return old;
}

/* Between two barriers every thread of the block can see what the others hold. */
inline int any_of_block(int mine, int line) {
  using namespace kernel_cpu;
  fibers[current].slot = mine;
  wait(BLOCK, line);
  int any = 0;
  for (const Fiber &f : fibers) any |= f.slot != 0;
  wait(BLOCK, line);
  return any;
}
#define __syncthreads_or(mine) any_of_block(mine, __LINE__)
