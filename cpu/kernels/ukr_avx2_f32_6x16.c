/* 12 accumulators, two vectors of B and a broadcast or two: the 16 registers. */
#include "vec_avx2_f32.h"

enum { MR = 6, NR = 16, KC = 512, MC_GROWTH = 8 };
enum { PARTS_IN_PLACE = 1, PANEL_IN_L1 = 1, FAR_STREAMS = 0 };

#include "ukr_body.h"

KERNEL(ukr_avx2_f32_6x16, avx2, GEMM_F32);
