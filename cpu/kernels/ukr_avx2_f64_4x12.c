/* 12 accumulators, three vectors of B and a broadcast: the 16 registers. */
#include "vec_avx2_f64.h"

enum { MR = 4, NR = 12 };

#include "ukr_body.h"

KERNEL(ukr_avx2_f64_4x12, avx2, GEMM_F64);
