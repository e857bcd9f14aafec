/* cp.async on the CPU, in place of cuda/include/cp_async.cuh: bytes land when the thread that asked for them waits
 * for their group. Until then the place they go to is NaN, so that it shows if anyone reads it too early, or still
 * needs what was there. */
#pragma once

namespace kernel_cpu {
inline void demand_aligned(const void *address, int size, const char *what) {
  if ((uintptr_t)address % size == 0) return;
  fprintf(stderr, "cp.async: %s address is no multiple of %d\n", what, size);
  abort();
}
inline void land(const Copy &copy) {
  memcpy(copy.to, copy.from, copy.bytes);
  memset((char *)copy.to + copy.bytes, 0, copy.size - copy.bytes);
}
} // namespace kernel_cpu

template <int SIZE> void cp_async(void *shared, const void *global, int bytes = SIZE) {
  static_assert(SIZE == 4 || SIZE == 8 || SIZE == 16, "the three sizes that exist");
  kernel_cpu::demand_aligned(shared, SIZE, "shared");
  if (bytes) kernel_cpu::demand_aligned(global, SIZE, "global");
  auto &self = kernel_cpu::fibers[kernel_cpu::current];
  memset(shared, 0xff, SIZE);
  self.copies.push_back({shared, global, SIZE, bytes, self.group});
}

template <int SIZE> void cp_async_if(bool wanted, void *shared, const void *global) {
  if (wanted) cp_async<SIZE>(shared, global);
}

inline void cp_async_commit() { ++kernel_cpu::fibers[kernel_cpu::current].group; }

template <int N> void cp_async_wait() {
  auto &self = kernel_cpu::fibers[kernel_cpu::current];
  size_t landed = 0;
  while (landed < self.copies.size() && self.copies[landed].group < self.group - N)
    kernel_cpu::land(self.copies[landed++]);
  self.copies.erase(self.copies.begin(), self.copies.begin() + landed);
}
