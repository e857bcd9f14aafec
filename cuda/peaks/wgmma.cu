// The rate of Hopper's tensor cores: wgmma of 64 x 256 sums a warpgroup, both operands in shared memory.
//
// What lies in shared memory does not matter as long as it is no zeros: zeros take less power, and run faster.
//
// /// peak
// entry = "wgmma_peak"
// min_sm = 90
// threads = 256
// max_sm = 90
// flops = 131072
// instructions = { fp16 = "wgmma m64n256k16", bf16 = "wgmma m64n256k16", tf32 = "wgmma m64n256k8" }
// ///
#if MATH_tf32
#define SHAPE "m64n256k8.f32.tf32.tf32"
#define MAJOR "" // tf32 operands are K-major, there is nothing to choose
constexpr int DEPTH = 8;
#else
#define MAJOR ", 0, 0"
#if MATH_bf16
#define SHAPE "m64n256k16.f32.bf16.bf16"
#else
#define SHAPE "m64n256k16.f32.f16.f16"
#endif
constexpr int DEPTH = 16;
#endif

constexpr int ROWS = 64, COLS = 256, SUMS = ROWS * COLS / 128;
constexpr int STEPS = 4; // of DEPTH: a row of 128 bytes, the width of the swizzle
constexpr int GROUPS = FLOPS * 128 / (2 * ROWS * COLS * DEPTH * STEPS);
static_assert(GROUPS * 2 * ROWS * COLS * DEPTH * STEPS == FLOPS * 128,
              "the header counts operations");

// Shared memory descriptor: address and stride between groups of 8 rows (1024 bytes) in units of 16 bytes,
// and the 128-byte swizzle.
__device__ unsigned long long descriptor(const void *shared) {
  const unsigned long long at = __cvta_generic_to_shared(shared);
  return (at & 0x3ffff) >> 4 | 1ull << 16 | 1024ull / 16 << 32 | 1ull << 62;
}

#define S4(i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define S16(i) S4(i), S4(i + 4), S4(i + 8), S4(i + 12)
#define S64(i) S16(i), S16(i + 16), S16(i + 32), S16(i + 48)

__device__ void wgmma(float (&d)[SUMS], unsigned long long a, unsigned long long b) {
  asm volatile("wgmma.mma_async.sync.aligned." SHAPE " {"
               "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
               "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
               "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
               "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
               "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
               "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
               "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"
               "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
               "}, %128, %129, 1, 1, 1" MAJOR ";"
               : S64(0), S64(64)
               : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    wgmma_peak(float *out, const int *in, long long passes) {
  alignas(1024) __shared__ int a[ROWS * 32], b[COLS * 32];
  for (int i = threadIdx.x; i < ROWS * 32; i += THREADS) a[i] = in[i];
  for (int i = threadIdx.x; i < COLS * 32; i += THREADS) b[i] = in[i];
  asm volatile("fence.proxy.async.shared::cta;");
  __syncthreads();

  float sums[SUMS] = {};
  const unsigned long long a_at = descriptor(a), b_at = descriptor(b);
#pragma unroll 1
  for (long long pass = 0; pass < passes; ++pass) {
    asm volatile("wgmma.fence.sync.aligned;");
#pragma unroll
    for (int group = 0; group < GROUPS; ++group)
#pragma unroll
      for (int step = 0; step < STEPS; ++step) wgmma(sums, a_at + 2 * step, b_at + 2 * step);
    asm volatile("wgmma.commit_group.sync.aligned;");
    asm volatile("wgmma.wait_group.sync.aligned 0;");
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < SUMS; ++i) sum += sums[i];
  if (sum == 12345.0f) out[threadIdx.x] = sum; // hardly ever: but the compiler cannot know
}
