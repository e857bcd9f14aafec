// Asynchronous copies from global to shared memory (sm_80): the thread goes on while the bytes travel, and
// no register holds them. They have arrived when the thread that issued them has waited for their group;
// other threads may read them after a barrier behind that wait.
#pragma once

// Copies SIZE bytes. Both addresses are multiples of SIZE.
template <int SIZE> __device__ __forceinline__ void cp_async(void *shared, const void *global) {
  static_assert(SIZE == 4 || SIZE == 8 || SIZE == 16, "the three sizes that exist");
  const unsigned to = unsigned(__cvta_generic_to_shared(shared));
  if constexpr (SIZE == 16) // past L1: nobody else on this SM wants these bytes
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
  else // through L1, where the rest of a line waits for the copies to come
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(SIZE)
                 : "memory");
}

// The same, or nothing where `wanted` is false: without a branch, so that the addresses of a thread's copies
// are not computed anew behind each of them.
template <int SIZE>
__device__ __forceinline__ void cp_async_if(bool wanted, void *shared, const void *global) {
  const unsigned to = unsigned(__cvta_generic_to_shared(shared));
  if constexpr (SIZE == 16)
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n"
                 "@p cp.async.cg.shared.global [%0], [%1], 16;\n}" ::"r"(to),
                 "l"(global), "r"(int(wanted))
                 : "memory");
  else
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\n"
                 "@p cp.async.ca.shared.global [%0], [%1], %2;\n}" ::"r"(to),
                 "l"(global), "n"(SIZE), "r"(int(wanted))
                 : "memory");
}

// The same for the first `bytes` <= SIZE bytes; the others become zeros. With bytes = 0 nothing is read, so
// `global` may then point anywhere.
template <int SIZE>
__device__ __forceinline__ void cp_async(void *shared, const void *global, int bytes) {
  const unsigned to = unsigned(__cvta_generic_to_shared(shared));
  if constexpr (SIZE == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(SIZE),
                 "r"(bytes)
                 : "memory");
}

// Ends a group: all copies that this thread issued since the last one, which may be none.
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most N of this thread's groups, the youngest ones, are still on their way.
template <int N> __device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
