/* 12 accumulators of four floats, two vectors of B: what 16 vector registers hold. */
#define T float
#include "vec_portable.h"

enum { MR = 6, NR = 8, KC = 0, MC_GROWTH = 1 };
enum { PARTS_IN_PLACE = 2, PANEL_IN_L1 = 0, FAR_STREAMS = 1 };

#include "ukr_body.h"

KERNEL(ukr_portable_f32_6x8, portable, GEMM_F32);
