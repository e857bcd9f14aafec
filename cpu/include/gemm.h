/* The public C interface: matrix products on the CPU, any strides, float32 and float64.
 *
 * C = alpha * A B + beta * C with A m x k, B k x n, C m x n. Element (i, j) of A lies at
 * a[i * rs_a + j * cs_a]; strides count elements and may be negative, zero (broadcast) or not unit.
 * The elements of C must be distinct and must not overlap A or B.
 * BLAS rules: beta == 0 (also -0.0) never reads C; alpha == 0 or k == 0 never reads A or B.
 * No byte outside an operand is ever read or written. Every function may be called from any thread.
 *
 * The Python declarations are derived from this file (cpu/tools/cffi_source.py): one declaration
 * each, no macros inside.
 */
#ifndef GEMM_H
#define GEMM_H

#include <stddef.h>
#include <stdint.h>

#define GEMM_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

enum {
  GEMM_ABI = 1, /* raised when anything in this file changes its meaning */
  GEMM_F32 = 0,
  GEMM_F64 = 1,
  GEMM_OK = 0,
  GEMM_NO_MEMORY = 1, /* C is unchanged or partly written */
  GEMM_BAD_ARGUMENT = 2,
  GEMM_NOT_PLAIN = 3,
  GEMM_PEER_GEMM = 0,
  GEMM_PEER_GEMV = 1,
  GEMM_PEER_ONEDNN = 2,
};

/* A whole call, prepared once. `batch` products lie bs_a, bs_b, bs_c elements apart (batch >= 0). */
typedef struct {
  int type; /* GEMM_F32 or GEMM_F64 */
  double alpha, beta;
  ptrdiff_t m, n, k, batch;
  const void *a;
  ptrdiff_t rs_a, cs_a, bs_a;
  const void *b;
  ptrdiff_t rs_b, cs_b, bs_b;
  void *c;
  ptrdiff_t rs_c, cs_c, bs_c;
} gemm_call;

/* All return GEMM_OK, GEMM_NO_MEMORY or GEMM_BAD_ARGUMENT (a negative size, an unknown type). */
GEMM_API int gemm_f32(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, float alpha, const float *a,
                      ptrdiff_t rs_a, ptrdiff_t cs_a, const float *b, ptrdiff_t rs_b,
                      ptrdiff_t cs_b, float beta, float *c, ptrdiff_t rs_c, ptrdiff_t cs_c);
GEMM_API int gemm_f64(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, double alpha, const double *a,
                      ptrdiff_t rs_a, ptrdiff_t cs_a, const double *b, ptrdiff_t rs_b,
                      ptrdiff_t cs_b, double beta, double *c, ptrdiff_t rs_c, ptrdiff_t cs_c);

/* y = alpha * A x + beta * y with A m x n; inc_x and inc_y are the strides of the vectors. */
GEMM_API int gemv_f32(ptrdiff_t m, ptrdiff_t n, float alpha, const float *a, ptrdiff_t rs_a,
                      ptrdiff_t cs_a, const float *x, ptrdiff_t inc_x, float beta, float *y,
                      ptrdiff_t inc_y);
GEMM_API int gemv_f64(ptrdiff_t m, ptrdiff_t n, double alpha, const double *a, ptrdiff_t rs_a,
                      ptrdiff_t cs_a, const double *x, ptrdiff_t inc_x, double beta, double *y,
                      ptrdiff_t inc_y);

/* The prepared form; a matrix-vector product is one with n == 1. */
GEMM_API int gemm_run(const gemm_call *call);
/* The call path of gemm_run with no work behind it. */
GEMM_API int gemm_run_empty(const gemm_call *call);
/* `calls` times gemm_run; *seconds receives the wall time of all of them. */
GEMM_API int gemm_run_timed(const gemm_call *call, ptrdiff_t calls, double *seconds);

/* C = A B on NumPy arrays given by the addresses of the objects, which the caller keeps alive. Returns
 * GEMM_NOT_PLAIN, with nothing done, unless all three are aligned matrices (ndarray itself) of float32
 * or of float64, whose sizes fit and are not 0, C is writeable, by rows, apart from A and B. Before the
 * first call, gemm_arrays_known: bytes of an object's head, whose last word is its type; addresses of
 * the type ndarray and of its two dtypes. */
GEMM_API void gemm_arrays_known(ptrdiff_t head, uintptr_t type, uintptr_t float32,
                                uintptr_t float64);
GEMM_API int gemm_arrays(uintptr_t a, uintptr_t b, uintptr_t c);

/* Threads in force for the process, capped at gemm_threads_max(). At load: GEMM_NUM_THREADS, else
 * OMP_NUM_THREADS, else the maximum. Setting returns the count now in force, or 0 and changes
 * nothing when n < 1. */
GEMM_API int gemm_threads_get(void);
GEMM_API int gemm_threads_set(int n);
/* Processors this process may use: its affinity mask and the cgroup quota above it. */
GEMM_API int gemm_threads_max(void);
/* Threads that the calling thread's last product really used: small products use fewer, and one
 * of several concurrent callers gets the pool while the others run on their own thread. */
GEMM_API int gemm_threads_used(void);
/* Puts spinning pool threads to sleep at once; the next call wakes them. */
GEMM_API void gemm_threads_park(void);

/* Instruction sets, space-separated, lowest first; the one in force; and a lower one (GEMM_OK), a
 * higher or unknown one (GEMM_BAD_ARGUMENT, nothing changes). GEMM_ISA lowers it at load. */
GEMM_API const char *gemm_isa_compiled(void);
GEMM_API const char *gemm_isa_usable(void);
GEMM_API const char *gemm_isa(void);
GEMM_API int gemm_isa_set(const char *name);
/* Name of the micro-kernel in force, and its blocks in elements: blocks[3] = MC, KC, NC. */
GEMM_API const char *gemm_kernel(int type);
GEMM_API void gemm_blocks(int type, ptrdiff_t *blocks);

/* Another library's CBLAS, row-major, for timing it as gemm_run_timed times ours. `function` is its
 * cblas_?gemm or, by `op`, its cblas_?gemv for `type` or a dnnl_sgemm; m, n, k and the leading
 * dimensions are those arguments of it, 32 or 64 bits wide by `int_bits`. gemv: x lies at b, y at c,
 * their increments are ld_b and ld_c, and batch is 1. A batch is a loop of calls. */
typedef struct {
  void *function;
  int op, type, int_bits, trans_a, trans_b;
  double alpha, beta;
  ptrdiff_t m, n, k, batch;
  const void *a;
  ptrdiff_t ld_a, bs_a;
  const void *b;
  ptrdiff_t ld_b, bs_b;
  void *c;
  ptrdiff_t ld_c, bs_c;
} gemm_peer;

/* `calls` times that (0 is allowed); *seconds receives the wall time. GEMM_BAD_ARGUMENT: a negative or,
 * for 32 bits, too large a size, no function, an unknown op, type or width. */
GEMM_API int gemm_peer_timed(const gemm_peer *call, ptrdiff_t calls, double *seconds);

/* What no kernel of the instruction set in force can surpass, measured for `seconds` on up to
 * `threads` threads of the pool (gemm_threads_used() tells how many took part): FLOP/s of independent
 * FMAs in registers, and bytes/s of reading `data` (from 64 bytes on) again and again, each thread its
 * own part. */
GEMM_API int gemm_roof_flops(int type, int threads, double seconds, double *flops_per_s);
GEMM_API int gemm_roof_read(const void *data, ptrdiff_t bytes, int threads, double seconds,
                            double *bytes_per_s);

/* The teaching rungs of cpu/ladder, counted from 0 in the order of their names; see cpu/ladder/rung.h. */
typedef struct {
  const char *name, *isa; /* such as "05_vectorised"; the instruction set it was compiled for */
  ptrdiff_t mr, nr;       /* the tile kept in registers; 1 x 1 where there is none */
  ptrdiff_t mc, kc, nc;   /* the blocks kept in caches; 0 where there are none */
} gemm_rung;
GEMM_API int gemm_ladder_count(void);
/* What runs for `type` now. GEMM_BAD_ARGUMENT where there is no such rung or type. */
GEMM_API int gemm_ladder_rung(int rung, int type, gemm_rung *found);
/* gemm_run and gemm_run_timed by that rung. GEMM_BAD_ARGUMENT unless all three operands are stored by rows
 * (cs_a, cs_b and cs_c are 1) and batch is 1. */
GEMM_API int gemm_ladder_run(int rung, const gemm_call *call);
GEMM_API int gemm_ladder_timed(int rung, const gemm_call *call, ptrdiff_t calls, double *seconds);

GEMM_API int gemm_abi(void);
/* What was wrong with GEMM_ISA, GEMM_NUM_THREADS or OMP_NUM_THREADS, and what is done; else "". */
GEMM_API const char *gemm_warnings(void);
/* Hash of the C sources this was built from, and these declarations in the form that cffi takes. */
GEMM_API const char *gemm_source_hash(void);
GEMM_API const char *gemm_declarations(void);

#ifdef __cplusplus
}
#endif

#endif
