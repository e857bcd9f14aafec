// The rate of device memory: 16 bytes a thread and access, several in flight, each byte read and written once.
//
// /// peak
// entry = "copy_peak"
// min_sm = 50
// threads = 256
// bytes = 128
// instructions = { bytes = "16-byte loads and stores" }
// ///
constexpr int FLIGHT = 4; // accesses a thread has under way
static_assert(2 * 16 * FLIGHT == BYTES, "the header counts the bytes that a thread moves");

extern "C" __global__ void __launch_bounds__(THREADS)
    copy_peak(int4 *to, const int4 *from, long long count) {
  const long long first = (long long)blockIdx.x * THREADS * FLIGHT + threadIdx.x;
  int4 held[FLIGHT];
#pragma unroll
  for (int i = 0; i < FLIGHT; ++i)
    if (first + i * THREADS < count) held[i] = __ldcs(from + first + i * THREADS);
#pragma unroll
  for (int i = 0; i < FLIGHT; ++i)
    if (first + i * THREADS < count) __stcs(to + first + i * THREADS, held[i]);
}
