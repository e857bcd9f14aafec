/* 12 accumulators of two doubles, two vectors of B: what 16 vector registers hold. */
#define T double
#include "vec_portable.h"

enum { MR = 6, NR = 4, KC = 0, MC_GROWTH = 1 };
enum { PARTS_IN_PLACE = 2, PANEL_IN_L1 = 0, FAR_STREAMS = 1 };

#include "ukr_body.h"

KERNEL(ukr_portable_f64_6x4, portable, GEMM_F64);
