// How A and B are stored, for kernels that are compiled for it (`by_layout` in the header): a way per
// layout in one kernel would take four times as long to compile and keep registers for each.
#pragma once

#ifndef LAYOUT_GIVEN // nobody said: as a rule
#define TRANS_A 0
#define TRANS_B 0
#endif

// Is K the direction in which neighbours lie?
constexpr bool A_K_INNER = !TRANS_A, B_K_INNER = TRANS_B;
