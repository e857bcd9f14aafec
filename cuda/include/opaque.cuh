// opaque(x) is x, but the compiler cannot tell. In a loop it then computes what follows from x anew each
// time, for an instruction or two, where it would keep dozens of such values in registers that the sums
// need.
#pragma once

__device__ __forceinline__ unsigned opaque(unsigned x) {
  asm volatile("" : "+r"(x));
  return x;
}
__device__ __forceinline__ long long opaque(long long x) {
  asm volatile("" : "+l"(x));
  return x;
}
