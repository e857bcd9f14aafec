/* Small products in place: C is cut into tiles of nearly equal size, as tall and as wide as the registers
 * allow (a thin last tile has too few independent sums to keep the multipliers busy). Every shape of tile
 * is a function of its own. */
#include "../internal.h"

#include <stdint.h>
#include <string.h>

/* WAYS: rows of A that lie a multiple of 4096 bytes apart, of which the first-level cache surely holds a line
 * each beside what it needs of B. */
enum { MAX_TALL = 16, MAX_WIDE = 3, K_STEPS = 4, WAYS = 10 };

#define INLINE static inline __attribute__((always_inline))

/* X(rows, vectors) for every tile of that many vectors that the registers hold: its sums, as many vectors of B
 * and a broadcast. */
#define UP_TO_4(X, nv)  X(1, nv) X(2, nv) X(3, nv) X(4, nv)
#define UP_TO_6(X, nv)  UP_TO_4(X, nv) X(5, nv) X(6, nv)
#define UP_TO_8(X, nv)  UP_TO_6(X, nv) X(7, nv) X(8, nv)
#define UP_TO_14(X, nv) UP_TO_8(X, nv) X(9, nv) X(10, nv) X(11, nv) X(12, nv) X(13, nv) X(14, nv)
#define UP_TO_16(X, nv) UP_TO_14(X, nv) X(15, nv) X(16, nv)

/* Three vectors are not worth it with 16 registers: 5 % slower than two at 32 to 64, but with 32 registers
 * 3 to 8 % faster at 40 to 56 than two and one. */
#if VECTOR_REGISTERS == 32
#define WIDEST_FULL   3
#define ONE_WIDE(X)   UP_TO_16(X, 1)
#define TWO_WIDE(X)   UP_TO_14(X, 2)
#define THREE_WIDE(X) UP_TO_8(X, 3)
enum { TALL_ONE = 16, TALL_TWO = 14, TALL_THREE = 8 };
#else
#define WIDEST_FULL 2
#define ONE_WIDE(X) UP_TO_14(X, 1)
#define TWO_WIDE(X) UP_TO_6(X, 2)
enum { TALL_ONE = 14, TALL_TWO = 6 };
#endif

/* Keeps the compiler from working out beforehand what an address costs nothing to add: left alone, gcc 12
 * makes more strides and pointers than there are registers, and spills them. */
#define AS_IT_IS(x) __asm__("" : "+r"(x))

/* Rows of A. Up to eight have a pointer each where a tile is one vector wide: by a pointer and strides each
 * multiplication from memory was two micro-operations on Intel, and 8 x 8 x 8 took 55 cycles, not 50. Others by
 * two pointers and four strides, in bytes: rows 0 to 7 are 0, 1, 2, 3, 4, 5, 2 * 3 and 7 strides from the first
 * pointer, the others as far from `high`; in wider tiles eight pointers were 3 to 5 % slower at 48. */
enum { POINTERS = 8 };
#define EACH(mr, nv) ((nv) == 1 && (mr) <= POINTERS)
typedef struct {
  const char *row[POINTERS], *high;
  ptrdiff_t one, three, five, seven;
} rows_at;

/* each: a pointer for every row, which are no more than POINTERS. */
INLINE rows_at rows_from(const int mr, const bool each, const void *a, ptrdiff_t stride) {
  rows_at r = {{a}, (const char *)a + 8 * stride, stride, 3 * stride, 5 * stride, 7 * stride};
  if (each) {
#pragma GCC unroll 8
    for (int i = 1; i < mr; i++) {
      r.row[i] = r.row[i - 1] + stride;
      AS_IT_IS(r.row[i]);
    }
    return r;
  }
  AS_IT_IS(r.one);
  if (mr > 3) AS_IT_IS(r.three);
  if (mr > 5) AS_IT_IS(r.five);
  if (mr > 7) AS_IT_IS(r.seven);
  return r;
}

INLINE const char *row_of(const bool each, const rows_at *r, const int i) {
  if (each) return r->row[i];
  const char *from = i < 8 ? r->row[0] : r->high;
  switch (i % 8) {
  case 0:
    return from;
  case 3:
    return from + r->three;
  case 5:
    return from + r->five;
  case 6:
    return from + 2 * r->three;
  case 7:
    return from + r->seven;
  default:
    return from + i % 8 * r->one;
  }
}

INLINE void rows_advance(const int mr, const bool each, rows_at *r, ptrdiff_t bytes) {
  const int pointers = each ? mr : 1;
#pragma GCC unroll 8
  for (int i = 0; i < pointers; i++) {
    r->row[i] += bytes;
    AS_IT_IS(r->row[i]);
  }
  if (mr <= POINTERS) return;
  r->high += bytes;
  AS_IT_IS(r->high);
}

/* Is x this value, bit for bit? Cheaper than by its type. */
INLINE bool same_bits(double x, double value) {
  int64_t a, b;
  memcpy(&a, &x, sizeof a);
  memcpy(&b, &value, sizeof b);
  return a == b;
}

typedef void rows_fn(const gemm_call *g, const T *a, const T *b, T *c, ptrdiff_t n);

/* Tiles of one width: by their rows, less 1. */
typedef struct {
  int tallest;
  rows_fn *any[MAX_TALL], *unit[MAX_TALL];
} shapes;

/* Whole vectors, for n from VL on. */
#define VEC(x)     x
#define TILE(x)    full_##x
#define LANES      VL
#define EDGE_MASKS 0
#define WIDEST     WIDEST_FULL
#include "small_tile.h"

/* Shorter ones for fewer columns: with the long ones 8 x 8 x 8 took 22 ns instead of 15 on AVX-512. */
#ifdef HALF_VEC
#define VEC        HALF_VEC
#define TILE(x)    half_##x
#define LANES      HALF
#define EDGE_MASKS MASKS_ARE_FREE
#define WIDEST     (2 - MASKS_ARE_FREE)
#include "small_tile.h"
#else
#define half_shapes full_shapes
#endif

#define VEC        LEAST_VEC
#define TILE(x)    least_##x
#define LANES      LEAST
#define EDGE_MASKS 1
#define WIDEST     1
#include "small_tile.h"

#if MASKS_ARE_FREE
#define VEC(x)     x
#define TILE(x)    part_##x
#define LANES      VL
#define EDGE_MASKS 1
#define WIDEST     1
#include "small_tile.h"
#else
#define part_shapes half_shapes
#endif

#define VEC(x)  x
#define TILE(x) full_##x
#define LANES   VL
#include "small_turned.h"

#ifdef HALF_VEC
#define VEC     HALF_VEC
#define TILE(x) half_##x
#define LANES   HALF
#include "small_turned.h"
#else
#define half_turned_tiles full_turned_tiles
#endif

INLINE const shapes *shapes_for(ptrdiff_t n) {
  if (n >= VL) return &full_shapes[(n - 1) / VL];
  if (MASKS_ARE_FREE) return n <= LEAST ? least_shapes : n <= HALF ? half_shapes : part_shapes;
  return n < HALF ? least_shapes : &half_shapes[n > HALF];
}

/* Columns b[0:n], which are no more than WIDEST_FULL vectors. */
INLINE void small_column(const gemm_call *g, const T *b, T *c, ptrdiff_t n) {
  const shapes *s = shapes_for(n);
  rows_fn *const *tiles = g->cs_a == 1 ? s->unit : s->any;
  const T *a = g->a;
  const int tallest =
      rows_collide(g->m, g->rs_a, sizeof(T)) && s->tallest > WAYS ? WAYS : s->tallest;
  const int parts = ((int)g->m + tallest - 1) / tallest, low = (int)g->m / parts;
  int extra = (int)g->m % parts;
  for (int i = 0; i < parts; i++) {
    const int mr = low + (extra-- > 0);
    tiles[mr - 1](g, a, b, c, n);
    a += mr * g->rs_a, c += mr * g->rs_c;
  }
}

/* The wider blocks of columns come last: the last one may need two vectors for its edge. */
static __attribute__((noinline)) void small_blocks(const gemm_call *g) {
  const T *b = g->b;
  T *c = g->c;
  ptrdiff_t left = g->n;
  for (ptrdiff_t parts = ceil_div(left, WIDEST_FULL * VL); parts > 0; parts--) {
    const ptrdiff_t n = parts == 1 ? left : ceil_div(left, VL) / parts * VL;
    small_column(g, b, c, n);
    left -= n, b += n, c += n;
  }
}

/* The tile that makes a whole product; NULL where it takes several. */
INLINE rows_fn *whole_tile(const gemm_call *g) {
  if (g->n > WIDEST_FULL * VL) return NULL;
  const shapes *s = shapes_for(g->n);
  if (g->m > s->tallest) return NULL;
  return (g->cs_a == 1 ? s->unit : s->any)[g->m - 1];
}

static __attribute__((noinline)) void small_turned(const gemm_call *g) {
  rows_fn *const *const tiles = g->n <= HALF ? half_turned_tiles : full_turned_tiles;
  const ptrdiff_t width = g->n <= HALF ? HALF : VL;
  const int parts = ((int)g->m + POINTERS - 1) / POINTERS;
  for (ptrdiff_t j = 0; j < g->n; j += width)
    for (int i = 0; i < parts; i++) {
      const int first = (int)g->m * i / parts, last = (int)g->m * (i + 1) / parts;
      tiles[last - first - 1](g, (const T *)g->a + first * g->rs_a, (const T *)g->b + j * g->cs_b,
                              (T *)g->c + first * g->rs_c + j, min_of(width, g->n - j));
    }
}

static void multiply_small(const gemm_call *g) {
  if (g->cs_b != 1) {
    small_turned(g);
    return;
  }
  rows_fn *const tile = whole_tile(g);
  if (tile)
    tile(g, g->a, g->b, g->c, g->n);
  else
    small_blocks(g);
}

static void multiply_batch(const gemm_call *g) {
  rows_fn *const tile = g->cs_b == 1 ? whole_tile(g) : NULL;
  gemm_call one = *g;
  for (ptrdiff_t i = g->batch; i > 0; i--) {
    if (tile)
      tile(&one, one.a, one.b, one.c, one.n);
    else
      multiply_small(&one);
    one.a = (const T *)one.a + g->bs_a;
    one.b = (const T *)one.b + g->bs_b;
    one.c = (T *)one.c + g->bs_c;
  }
}
