/* The teaching rungs as functions of gemm.h: which there are, and running one. */
#include "ladder.h"

#include "ladder_table.h" /* written by CMake: `rungs`, for each rung and type its entries, lowest ISA first */

enum { RUNGS = sizeof rungs / sizeof rungs[0] };

int gemm_ladder_count(void) { return RUNGS; }

/* The entry for the highest instruction set that may be used now; NULL for what is not there. */
static const ladder_entry *find(int rung, int type) {
  const ladder_entry *found = NULL;
  if (rung < 0 || rung >= RUNGS || type < 0 || type >= TYPES) return NULL;
  for (const ladder_entry *const *e = rungs[rung][type]; *e; e++)
    if (dispatch_allows((*e)->facts.isa)) found = *e;
  return found;
}

int gemm_ladder_rung(int rung, int type, gemm_rung *found) {
  const ladder_entry *entry = find(rung, type);
  if (!entry) return GEMM_BAD_ARGUMENT;
  *found = entry->facts;
  return GEMM_OK;
}

/* Where there are not two columns the stride between them has no meaning. */
static bool by_rows(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t cs) {
  return rows >= 0 && columns >= 0 && (cs == 1 || rows == 0 || columns < 2);
}

static bool takes(const gemm_call *p) {
  return p->batch == 1 && by_rows(p->m, p->k, p->cs_a) && by_rows(p->k, p->n, p->cs_b) &&
         by_rows(p->m, p->n, p->cs_c);
}

int gemm_ladder_run(int rung, const gemm_call *call) {
  const ladder_entry *entry = find(rung, call->type);
  if (!entry || !takes(call)) return GEMM_BAD_ARGUMENT;
  threads_used_reset();
  return entry->run(call);
}

int gemm_ladder_timed(int rung, const gemm_call *call, ptrdiff_t calls, double *seconds) {
  int status = GEMM_OK;
  const double start = clock_seconds();
  for (ptrdiff_t i = 0; i < calls && status == GEMM_OK; i++) status = gemm_ladder_run(rung, call);
  *seconds = clock_seconds() - start;
  return status;
}
