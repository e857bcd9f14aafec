// The rate of multiply-adds in registers: chains of them that depend on nothing but themselves.
//
// /// peak
// entry = "fma_peak"
// min_sm = 50
// threads = 256
// flops = 512
// instructions = { fp32 = "FFMA", fp64 = "DFMA" }
// ///
#if MATH_fp64
using T = double;
#else
using T = float;
#endif

constexpr int CHAINS = 16; // independent sums: more than the latency of one multiply-add needs
constexpr int REPEATS = 16;
static_assert(2 * CHAINS * REPEATS == FLOPS,
              "the header counts the operations of a thread in a pass");

extern "C" __global__ void __launch_bounds__(THREADS)
    fma_peak(T *out, const T *in, long long passes) {
  const T x = in[0],
          y = in[threadIdx.x]; // x a little below 1: the sums stay finite and full of bits
  T sums[CHAINS];
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) sums[i] = y * T(i + 1);
#pragma unroll 1
  for (long long pass = 0; pass < passes; ++pass) {
#pragma unroll
    for (int repeat = 0; repeat < REPEATS; ++repeat)
#pragma unroll
      for (int i = 0; i < CHAINS; ++i) sums[i] = sums[i] * x + y;
  }
  T sum = 0;
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) sum += sums[i];
  if (sum == T(12345)) out[threadIdx.x] = sum; // hardly ever: but the compiler cannot know
}
