/* The table of the teaching rungs. */
#ifndef LADDER_H
#define LADDER_H

#include "../internal.h"

/* A rung compiled for one type and one instruction set. `run` computes alpha * A B + beta * C for checked,
 * row-major operands; GEMM_OK or GEMM_NO_MEMORY. */
typedef struct {
  int (*run)(const gemm_call *call);
  gemm_rung facts;
} ladder_entry;

#endif
