/* 12 accumulators, two vectors of B and a broadcast or two: the 16 registers. 4 x 12 is as fast by itself, but
 * the tiles of small_body.h are two vectors wide: its panels made them one and two. */
#include "vec_avx2_f64.h"

enum { MR = 6, NR = 8, KC = 512, MC_GROWTH = 8 };
enum { PARTS_IN_PLACE = 1, PANEL_IN_L1 = 1, FAR_STREAMS = 0 };

#include "ukr_body.h"

KERNEL(ukr_avx2_f64_6x8, avx2, GEMM_F64);
