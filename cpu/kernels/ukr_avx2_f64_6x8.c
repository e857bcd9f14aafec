/* 12 accumulators, two vectors of B and a broadcast or two: the 16 registers. */
#include "vec_avx2_f64.h"

enum { MR = 6, NR = 8 };

#include "ukr_body.h"

KERNEL(ukr_avx2_f64_6x8, avx2, GEMM_F64);
