/* Matrix times vector, written once over vec_*.h: dot products where rows of A are contiguous,
 * weighted sums of columns where columns are. Each element of A is read once. */
#include "../internal.h"

/* A matrix beyond the second-level cache is read in STREAMS_FAR streams, each from one end of its part to the
 * other and prefetched: 93 to 95 % of the read bandwidth from memory, where four neighbouring rows at a time
 * reached 82 to 91. Nearer, prefetching takes 10 % away, and so do eight streams. */
enum { STREAMS_NEAR = 4, STREAMS_FAR = 8, PREFETCH = 1024 };
enum { SUM_STRIP = 65536 / (int)sizeof(T), SHORT_VECTORS = 4 };

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

/* Asks for what a loop over `bytes` from here reads PREFETCH later. */
MATVEC_INLINE void prefetch(const T *at, const size_t bytes) {
#pragma GCC unroll 4
  for (size_t i = 0; i < bytes; i += CACHE_LINE)
    __builtin_prefetch((const char *)at + PREFETCH + i);
}

/* Rows first, first + apart and so on. Far, their number is enough of independent sums; near, each has two. */
MATVEC_INLINE void dot_block(const int rows, const bool far, const matvec *v, ptrdiff_t first,
                             ptrdiff_t apart) {
  const T *a = (const T *)v->a + first * v->rs_a, *x = v->x;
  const ptrdiff_t step = apart * v->rs_a;
  const int odd = far ? 0 : 1;
  const M mask = vmask(v->n % VL);
  V sum[STREAMS_FAR][2];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++) sum[i][0] = sum[i][odd] = vzero();
  ptrdiff_t j = 0;
  for (; j + 2 * VL <= v->n; j += 2 * VL) {
    const V x0 = vload(x + j), x1 = vload(x + j + VL);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
      const T *row = a + i * step + j;
      if (far) prefetch(row, 2 * sizeof(V));
      sum[i][0] = vfma(vload(row), x0, sum[i][0]);
      sum[i][odd] = vfma(vload(row + VL), x1, sum[i][odd]);
    }
  }
  if (j + VL <= v->n) {
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
      sum[i][0] = vfma(vload(a + i * step + j), vload(x + j), sum[i][0]);
    j += VL;
  }
  if (j < v->n)
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
      sum[i][odd] = vfma(vload_m(a + i * step + j, mask), vload_m(x + j, mask), sum[i][odd]);
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++) {
    const V all = far ? sum[i][0] : vfma(vset1(1), sum[i][0], sum[i][1]);
    finish(v, first + i * apart, vsum(all));
  }
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
  if (v->far) {
    const ptrdiff_t apart = (v->m - i) / STREAMS_FAR;
    for (const ptrdiff_t end = i + apart; i < end; i++) dot_block(STREAMS_FAR, true, v, i, apart);
    i += (STREAMS_FAR - 1) * apart;
  }
  for (; i + STREAMS_NEAR <= v->m; i += STREAMS_NEAR) dot_block(STREAMS_NEAR, false, v, i, 1);
  for (; i < v->m; i++) dot_block(1, false, v, i, 1);
}

/* sum[0:rows] += columns j, j + apart and so on, each from row `first`. */
MATVEC_INLINE void sum_block(const int columns, const bool far, const matvec *v, ptrdiff_t first,
                             ptrdiff_t rows, ptrdiff_t j, ptrdiff_t apart, T *sum) {
  const T *a = (const T *)v->a + first + j * v->cs_a, *x = (const T *)v->x + j;
  const ptrdiff_t step = apart * v->cs_a;
  V weight[STREAMS_FAR];
#pragma GCC unroll 8
  for (int c = 0; c < columns; c++) weight[c] = vset1(x[c * apart]);
  ptrdiff_t i = 0;
  for (; i + VL <= rows; i += VL) {
    V s = vload(sum + i);
#pragma GCC unroll 8
    for (int c = 0; c < columns; c++) {
      if (far) prefetch(a + c * step + i, sizeof(V));
      s = vfma(vload(a + c * step + i), weight[c], s);
    }
    vstore(sum + i, s);
  }
  if (i == rows) return;
  const M mask = vmask(rows - i);
  V s = vload(sum + i);
#pragma GCC unroll 8
  for (int c = 0; c < columns; c++) s = vfma(vload_m(a + c * step + i, mask), weight[c], s);
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

/* Strips of rows, whose sums stay in a near cache while all columns pass by. */
static void add_strips(const matvec *v) {
  T sum[SUM_STRIP];
  const ptrdiff_t apart = v->far ? v->n / STREAMS_FAR : 0;
  for (ptrdiff_t first = 0; first < v->m; first += SUM_STRIP) {
    const ptrdiff_t rows = min_of(SUM_STRIP, v->m - first);
    for (ptrdiff_t i = 0; i < round_up(rows, VL); i += VL) vstore(sum + i, vzero());
    for (ptrdiff_t j = 0; j < apart; j++)
      sum_block(STREAMS_FAR, true, v, first, rows, j, apart, sum);
    ptrdiff_t j = STREAMS_FAR * apart;
    for (; j + STREAMS_NEAR <= v->n; j += STREAMS_NEAR)
      sum_block(STREAMS_NEAR, false, v, first, rows, j, 1, sum);
    for (; j < v->n; j++) sum_block(1, false, v, first, rows, j, 1, sum);
    ptrdiff_t i = 0;
    for (; i + VL <= rows; i += VL) finish_vector(v, first + i, vload(sum + i));
    for (; i < rows; i++) finish(v, first + i, sum[i]);
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
