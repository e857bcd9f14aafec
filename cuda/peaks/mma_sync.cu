// The rate of the tensor cores through mma.sync: a warp's fragments stay in registers, chains of sums are
// independent. On Hopper this instruction reaches about two thirds of what wgmma does.
//
// /// peak
// entry = "mma_peak"
// min_sm = 80
// threads = 256
// flops = 8192
// instructions = { fp16 = "mma.sync m16n8k16", bf16 = "mma.sync m16n8k16", tf32 = "mma.sync m16n8k8", fp64 = "mma.sync (DMMA)" }
// ///
#if MATH_fp64
using Sum = double;
#else
using Sum = float;
#endif

constexpr int CHAINS = 8;
using Bits = unsigned;

// One step of a chain. WORK: operations of a warp in it.
#if MATH_fp16
constexpr int WORK = 2 * 16 * 8 * 16;
__device__ void step(Sum (&d)[4], const Bits (&a)[4], const Bits (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
               "{%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#elif MATH_bf16
constexpr int WORK = 2 * 16 * 8 * 16;
__device__ void step(Sum (&d)[4], const Bits (&a)[4], const Bits (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
               "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#elif MATH_tf32
constexpr int WORK = 2 * 16 * 8 * 8;
__device__ void step(Sum (&d)[4], const Bits (&a)[4], const Bits (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, "
               "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#elif MATH_fp64 && __CUDA_ARCH__ >= 900
constexpr int WORK = 2 * 16 * 8 * 16;
__device__ void step(Sum (&d)[4], const double (&a)[8], const double (&b)[4]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, "
               "{%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3};"
               : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
               : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]),
                 "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
}
#else // fp64 before Hopper: two 8 x 8 x 4 products fill the four sums
constexpr int WORK = 2 * 2 * 8 * 8 * 4;
__device__ void step(Sum (&d)[4], const double (&a)[8], const double (&b)[4]) {
#pragma unroll
  for (int i = 0; i < 4; i += 2)
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+d"(d[i]), "+d"(d[i + 1])
                 : "d"(a[i]), "d"(b[i]));
}
#endif

#if MATH_fp64
using Entry = double;
constexpr int A = 8, B = 4;
#else
using Entry = Bits;
constexpr int A = 4, B = 2;
#endif
constexpr int REPEATS = FLOPS * 32 / (WORK * CHAINS);
static_assert(REPEATS * WORK * CHAINS == FLOPS * 32,
              "the header counts the operations of a thread");

extern "C" __global__ void __launch_bounds__(THREADS)
    mma_peak(Sum *out, const Entry *in, long long passes) {
  Entry a[A], b[B];
#pragma unroll
  for (int i = 0; i < A; ++i) a[i] = in[threadIdx.x * A + i];
#pragma unroll
  for (int i = 0; i < B; ++i) b[i] = in[threadIdx.x * B + i + 1];
  Sum sums[CHAINS][4] = {};
#pragma unroll 1
  for (long long pass = 0; pass < passes; ++pass) {
#pragma unroll
    for (int repeat = 0; repeat < REPEATS; ++repeat)
#pragma unroll
      for (int i = 0; i < CHAINS; ++i) step(sums[i], a, b);
  }
  Sum sum = 0;
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) sum += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
  if (sum == Sum(12345)) out[threadIdx.x] = sum; // hardly ever: but the compiler cannot know
}
