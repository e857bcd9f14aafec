/* 28 accumulators, two vectors of B and one broadcast: 31 of the 32 registers. */
#include "vec_avx512_f32.h"

enum { MR = 14, NR = 32, KC = 1024, MC_GROWTH = 1 };
enum { PARTS_IN_PLACE = 2, PANEL_IN_L1 = 0, FAR_STREAMS = 1 };

#include "ukr_body.h"

KERNEL(ukr_avx512_f32_14x32, avx512, GEMM_F32);
