// wgmma: a warpgroup (4 warps) multiplies 64 x n by n-wide operands that the tensor cores read from shared
// memory by themselves, while the warps go on. The sums stay in registers: of rows 16 * warp + lane / 4 (+ 8),
// columns 8 j + 2 (lane % 4) (+ 1), thread `lane` holds d[4 j], d[4 j + 1] and, 8 rows below, d[4 j + 2], d[4 j + 3].
// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-instructions
#pragma once
#include "mbarrier.cuh"

#if defined(STORAGE_float16)
#define WGMMA_TYPES "k16.f32.f16.f16 "
#elif defined(STORAGE_bfloat16)
#define WGMMA_TYPES "k16.f32.bf16.bf16 "
#else
#define WGMMA_TYPES "k8.f32.tf32.tf32 "
#endif

// Where an operand lies: tiles of 128-byte rows in the swizzle of the copy engine, 8 rows (1024 bytes) to an atom.
// K-major: a row of the tile is 128 bytes along K, and the next 8 rows follow after 1024 bytes.
// MN-major: a row is 128 bytes along M or N, the next 8 of K follow after 1024 bytes, the next 128 bytes along
// M or N after `block` bytes.
__device__ __forceinline__ unsigned long long descriptor(const void *tile, unsigned block) {
  constexpr unsigned long long swizzle_128 = 1ull << 62, atom = 1024 >> 4;
  return swizzle_128 | (shared_address(tile) & 0x3ffff) >> 4 |
         (unsigned long long)(block >> 4) << 16 | atom << 32;
}

// Descriptor of what begins `bytes` later.
__device__ __forceinline__ unsigned long long moved(unsigned long long descriptor, unsigned bytes) {
  return descriptor + (bytes >> 4);
}

// Before the first wgmma, and whenever registers that the next one reads or adds to were written.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until all but the last `left` committed groups are complete.
template <int left> __device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}
// Keeps the compiler from using sums before the wait above it, or from moving them while they are added to.
template <int count> __device__ __forceinline__ void pin(float (&d)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// The first `count` of them: those of the first 2 * count columns.
template <int count, int all>
__device__ __forceinline__ float (&first_of(float (&d)[all])) [count] {
  static_assert(count <= all, "no more than there are");
  return *(float (*)[count])d;
}

// Operand lists: "%0,%1,...": tens by their leading digits.
#define TEN(t)                                                                                     \
  "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define LIST_32 TEN() TEN(1) TEN(2) "%30,%31"
#define LIST_64 TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) "%60,%61,%62,%63"
#define LIST_128                                                                                   \
  TEN()                                                                                            \
  TEN(1)                                                                                           \
  TEN(2)                                                                                           \
  TEN(3)                                                                                           \
  TEN(4)                                                                                           \
  TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11) "%120,%121,%122,%123,%124,%125,%126,%127"
#define SUMS_4(d, i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SUMS_16(d, i) SUMS_4(d, i), SUMS_4(d, i + 4), SUMS_4(d, i + 8), SUMS_4(d, i + 12)
#define SUMS_64(d, i) SUMS_16(d, i), SUMS_16(d, i + 16), SUMS_16(d, i + 32), SUMS_16(d, i + 48)
#define ONE           "{\n\t.reg .pred one;\n\tsetp.eq.u32 one, 0, 0;\n\t"

// d += a * b, both in shared memory. mn_a, mn_b: the operand is MN-major (16-bit types only).
#if defined(STORAGE_float32)
#define WGMMA_SHARED(n, list, a, b, mn_a, mn_b, ...)                                               \
  asm volatile(ONE "wgmma.mma_async.sync.aligned.m64n" #n WGMMA_TYPES "{" list "}, " a ", " b      \
                   ", one, 1, 1;\n\t}"                                                             \
               : __VA_ARGS__                                                                       \
               : "l"(left), "l"(right))
#else
#define WGMMA_SHARED(n, list, a, b, mn_a, mn_b, ...)                                               \
  asm volatile(ONE "wgmma.mma_async.sync.aligned.m64n" #n WGMMA_TYPES "{" list "}, " a ", " b      \
                   ", one, 1, 1, " mn_a ", " mn_b ";\n\t}"                                         \
               : __VA_ARGS__                                                                       \
               : "l"(left), "l"(right), "n"(left_mn), "n"(right_mn))
#endif

template <int left_mn, int right_mn>
__device__ __forceinline__
    void wgmma(float (&d)[128], unsigned long long left, unsigned long long right) {
  WGMMA_SHARED(256, LIST_128, "%128", "%129", "%130", "%131", SUMS_64(d, 0), SUMS_64(d, 64));
}

template <int left_mn, int right_mn>
__device__ __forceinline__ void wgmma(float (&d)[64], unsigned long long left,
                                      unsigned long long right) {
  WGMMA_SHARED(128, LIST_64, "%64", "%65", "%66", "%67", SUMS_64(d, 0));
}

template <int left_mn, int right_mn>
__device__ __forceinline__ void wgmma(float (&d)[32], unsigned long long left,
                                      unsigned long long right) {
  WGMMA_SHARED(64, LIST_32, "%32", "%33", "%34", "%35", SUMS_16(d, 0), SUMS_16(d, 16));
}

#if defined(STORAGE_float32)
// d += a * b with a in registers (wgmma_fragment.cuh), which nobody may write until the group is complete; b in shared
// memory, K-major. add = false: d = a * b, whatever d held.
#define WGMMA_LEFT(n, list, a, b, flag, ...)                                                       \
  asm volatile("{\n\t.reg .pred add;\n\tsetp.ne.s32 add, " flag ", 0;\n\t"                         \
               "wgmma.mma_async.sync.aligned.m64n" #n WGMMA_TYPES "{" list "}, {" a "}, " b        \
               ", add, 1, 1;\n\t}"                                                                 \
               : __VA_ARGS__                                                                       \
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),               \
                 "r"(int(add)))

__device__ __forceinline__ void wgmma(float (&d)[128], const unsigned (&left)[4],
                                      unsigned long long right, bool add = true) {
  WGMMA_LEFT(256, LIST_128, "%128,%129,%130,%131", "%132", "%133", SUMS_64(d, 0), SUMS_64(d, 64));
}
__device__ __forceinline__ void wgmma(float (&d)[64], const unsigned (&left)[4],
                                      unsigned long long right, bool add = true) {
  WGMMA_LEFT(128, LIST_64, "%64,%65,%66,%67", "%68", "%69", SUMS_64(d, 0));
}
__device__ __forceinline__ void wgmma(float (&d)[32], const unsigned (&left)[4],
                                      unsigned long long right, bool add = true) {
  WGMMA_LEFT(64, LIST_32, "%32,%33,%34,%35", "%36", "%37", SUMS_16(d, 0), SUMS_16(d, 16));
}
#endif
