/* Matrix times vector, written once over vec_*.h: dot products where rows of A are contiguous,
 * weighted sums of columns where columns are. Each element of A is read once. */
#include "../internal.h"

enum { DOT_ROWS = 4, SUM_COLUMNS = 4, SUM_STRIP = 2048, SHORT_VECTORS = 4 };

#define MATVEC_INLINE static inline __attribute__((always_inline))

static inline void finish(const matvec *v, ptrdiff_t i, T sum) {
  T *y = (T *)v->y + i * v->inc_y;
  const T value = (T)v->alpha * sum;
  *y = v->beta != 0 ? value + (T)v->beta * *y : value;
}

/* VL of them. */
static inline void finish_vector(const matvec *v, ptrdiff_t i, V sums) {
  T *y = (T *)v->y + i * v->inc_y;
  if (v->inc_y != 1) {
    T each[VL];
    vstore(each, sums);
    for (ptrdiff_t e = 0; e < VL; e++) finish(v, i + e, each[e]);
    return;
  }
  const V value = vmul(vset1((T)v->alpha), sums);
  vstore(y, v->beta != 0 ? vfma(vset1((T)v->beta), vload(y), value) : value);
}

MATVEC_INLINE void dot_block(const int rows, const matvec *v, ptrdiff_t first) {
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

/* Rows of `nv` vectors, the last one masked: VL of them share the work of adding up what is in a vector. */
MATVEC_INLINE ptrdiff_t dot_short(const int nv, const matvec *v) {
  const M mask = vmask(v->n - (nv - 1) * VL);
  const T *a = v->a;
  V x[SHORT_VECTORS];
#pragma GCC unroll 4
  for (int j = 0; j < nv; j++)
    x[j] = j < nv - 1 ? vload((const T *)v->x + j * VL) : vload_m((const T *)v->x + j * VL, mask);
  ptrdiff_t i = 0;
  for (; i + VL <= v->m; i += VL) {
    V r[VL];
#pragma GCC unroll 16
    for (int e = 0; e < VL; e++, a += v->rs_a) {
      r[e] = vmul(vload_m(a + (nv - 1) * VL, mask), x[nv - 1]);
#pragma GCC unroll 4
      for (int j = 0; j < nv - 1; j++) r[e] = vfma(vload(a + j * VL), x[j], r[e]);
    }
    finish_vector(v, i, vsums(r));
  }
  return i;
}

static void dot_rows(const matvec *v) {
  ptrdiff_t i = 0;
  switch (ceil_div(v->n, VL)) {
  case 1:
    i = dot_short(1, v);
    break;
  case 2:
    i = dot_short(2, v);
    break;
  case 3:
    i = dot_short(3, v);
    break;
  case 4:
    i = dot_short(4, v);
  }
  for (; i + DOT_ROWS <= v->m; i += DOT_ROWS) dot_block(DOT_ROWS, v, i);
  for (; i < v->m; i++) dot_block(1, v, i);
}

MATVEC_INLINE void sum_block(const int columns, ptrdiff_t rows, const T *a, ptrdiff_t cs,
                             const T *x, T *sum) {
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

/* Columns of `nv` vectors, the last one masked, `apart` of them at a time: their sums stay in registers. */
MATVEC_INLINE void add_short(const int nv, const int apart, const matvec *v) {
  const M mask = vmask(v->m - (nv - 1) * VL);
  const T *a = v->a, *x = v->x;
  V sum[4][SHORT_VECTORS];
#pragma GCC unroll 4
  for (int c = 0; c < apart; c++)
#pragma GCC unroll 4
    for (int i = 0; i < nv; i++) sum[c][i] = vzero();
  ptrdiff_t j = 0;
#define ADD_COLUMN(c)                                                                              \
  _Pragma("GCC unroll 4") for (int i = 0; i < nv; i++) sum[c][i] =                                 \
      vfma(i < nv - 1 ? vload(a + i * VL) : vload_m(a + i * VL, mask), vset1(x[j + c]), sum[c][i])
  for (; j + apart <= v->n; j += apart)
#pragma GCC unroll 4
    for (int c = 0; c < apart; c++, a += v->cs_a) ADD_COLUMN(c);
  for (; j < v->n; j++, a += v->cs_a) ADD_COLUMN(0);
#undef ADD_COLUMN
  T all[SHORT_VECTORS * VL] = {0};
#pragma GCC unroll 4
  for (int i = 0; i < nv; i++) {
#pragma GCC unroll 4
    for (int c = 1; c < apart; c++) sum[0][i] = vfma(vset1(1), sum[c][i], sum[0][i]);
    vstore(all + i * VL, sum[0][i]);
  }
  for (ptrdiff_t i = 0; i < v->m; i++) finish(v, i, all[i]);
}

/* Strips of rows whose sums stay in the first-level cache while all columns pass by. */
static void add_strips(const matvec *v) {
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

static void add_columns(const matvec *v) {
  switch (ceil_div(v->m, VL)) {
  case 1:
    add_short(1, 4, v);
    break;
  case 2:
    add_short(2, 4, v);
    break;
  case 3:
    add_short(3, 2, v);
    break;
  case 4:
    add_short(4, 2, v);
    break;
  default:
    add_strips(v);
  }
}
