/* Matrix times vector, written once over vec_*.h: dot products where rows of A are contiguous,
 * weighted sums of columns where columns are. Each element of A is read once. */
#include "../internal.h"

enum { DOT_ROWS = 4, SUM_COLUMNS = 4, SUM_STRIP = 2048 };

static inline void finish(const matvec *v, ptrdiff_t i, T sum) {
  T *y = (T *)v->y + i * v->inc_y;
  const T value = (T)v->alpha * sum;
  *y = v->beta != 0 ? value + (T)v->beta * *y : value;
}

static inline __attribute__((always_inline)) void dot_block(const int rows, const matvec *v,
                                                            ptrdiff_t first) {
  const T *a = (const T *)v->a + first * v->rs_a, *x = v->x;
  const M mask = vmask(v->n % VL);
  V even[DOT_ROWS], odd[DOT_ROWS];
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++) even[i] = odd[i] = vzero();
  ptrdiff_t j = 0;
  for (; j + 2 * VL <= v->n; j += 2 * VL) {
    const V x0 = vload(x + j), x1 = vload(x + j + VL);
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
      even[i] = vfma(vload(a + i * v->rs_a + j), x0, even[i]);
      odd[i] = vfma(vload(a + i * v->rs_a + j + VL), x1, odd[i]);
    }
  }
  if (j + VL <= v->n) {
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
      even[i] = vfma(vload(a + i * v->rs_a + j), vload(x + j), even[i]);
    j += VL;
  }
  if (j < v->n)
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
      odd[i] = vfma(vload_m(a + i * v->rs_a + j, mask), vload_m(x + j, mask), odd[i]);
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++) finish(v, first + i, vsum(vfma(vset1(1), even[i], odd[i])));
}

static void dot_rows(const matvec *v) {
  ptrdiff_t i = 0;
  for (; i + DOT_ROWS <= v->m; i += DOT_ROWS) dot_block(DOT_ROWS, v, i);
  for (; i < v->m; i++) dot_block(1, v, i);
}

static inline __attribute__((always_inline)) void
sum_block(const int columns, ptrdiff_t rows, const T *a, ptrdiff_t cs, const T *x, T *sum) {
  V weight[SUM_COLUMNS];
#pragma GCC unroll 4
  for (int j = 0; j < columns; j++) weight[j] = vset1(x[j]);
  ptrdiff_t i = 0;
  for (; i + VL <= rows; i += VL) {
    V s = vload(sum + i);
#pragma GCC unroll 4
    for (int j = 0; j < columns; j++) s = vfma(vload(a + j * cs + i), weight[j], s);
    vstore(sum + i, s);
  }
  if (i == rows) return;
  const M mask = vmask(rows - i);
  V s = vload(sum + i);
#pragma GCC unroll 4
  for (int j = 0; j < columns; j++) s = vfma(vload_m(a + j * cs + i, mask), weight[j], s);
  vstore(sum + i, s);
}

/* Strips of rows whose sums stay in the first-level cache while all columns pass by. */
static void add_columns(const matvec *v) {
  T sum[SUM_STRIP];
  const T *x = v->x;
  for (ptrdiff_t first = 0; first < v->m; first += SUM_STRIP) {
    const ptrdiff_t rows = min_of(SUM_STRIP, v->m - first);
    const T *a = (const T *)v->a + first;
    for (ptrdiff_t i = 0; i < round_up(rows, VL); i += VL) vstore(sum + i, vzero());
    ptrdiff_t j = 0;
    for (; j + SUM_COLUMNS <= v->n; j += SUM_COLUMNS)
      sum_block(SUM_COLUMNS, rows, a + j * v->cs_a, v->cs_a, x + j, sum);
    for (; j < v->n; j++) sum_block(1, rows, a + j * v->cs_a, v->cs_a, x + j, sum);
    for (ptrdiff_t i = 0; i < rows; i++) finish(v, first + i, sum[i]);
  }
}
