/* The few names of CUDA's header that the kernels use, for the CPU. */
#pragma once
typedef _Float16 __half;
inline float __half2float(__half x) { return float(x); }
inline __half __float2half_rn(float x) { return __half(x); }
