/* ldmatrix on the CPU, in place of cuda/include/ldmatrix.cuh. Alignment is demanded, and that the eight rows of a
 * matrix lie in different banks: the layouts in shared memory are chosen for that. */
#pragma once

namespace kernel_cpu {
inline const char *matrix_rows[1024]; /* by thread: the row it gives the address of */

inline void demand_rows(const char *const *rows) {
  unsigned seen = 0;
  bool aligned = true;
  for (int i = 0; i < 8; ++i) {
    aligned &= (uintptr_t)rows[i] % 16 == 0;
    seen |= 1u << (uintptr_t)rows[i] / 16 % 8;
  }
  if (aligned && seen == 0xff) return;
  fprintf(stderr, "ldmatrix: %s\n", aligned ? "rows share banks" : "a row is not 16-byte aligned");
  __builtin_trap();
}

inline void matrices(unsigned *to, const void *row, bool transposed) {
  const unsigned me = current, warp = me / 32 * 32, g = me % 32 / 4, t = me % 4;
  matrix_rows[me] = (const char *)row;
  wait(WARP, __LINE__);
  for (int i = 0; i < 4; ++i) {
    const char *const *rows = matrix_rows + warp + 8 * i;
    demand_rows(rows);
    uint16_t pair[2];
    for (int e = 0; e < 2; ++e)
      memcpy(pair + e, transposed ? rows[2 * t + e] + 2 * g : rows[g] + 2 * (2 * t + e), 2);
    memcpy(to + i, pair, 4);
  }
  wait(WARP, __LINE__);
}
} // namespace kernel_cpu

inline void ldmatrix(unsigned *to, const void *row) { kernel_cpu::matrices(to, row, false); }
inline void ldmatrix_transposed(unsigned *to, const void *row) {
  kernel_cpu::matrices(to, row, true);
}
