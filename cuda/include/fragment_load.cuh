// load_matrix_sync from shared memory. Of a fragment in bf16 the compiler does not find out where it lies, and reads
// it by 16 loads that might go anywhere, where ldmatrix takes four: so that is said here.
#pragma once
#include "problem.cuh"
#include <mma.h>

template <class F>
__device__ __forceinline__ void load_from_shared(F &fragment, const T *from, unsigned ld) {
  nvcuda::wmma::load_matrix_sync(fragment, from, ld);
}

#if defined(STORAGE_bfloat16)
template <class Use, class Layout>
using Fragment16 = nvcuda::wmma::fragment<Use, 16, 16, 16, T, Layout>;

#define LOAD_FRAGMENT(use, layout)                                                                 \
  __device__ __forceinline__ void load_from_shared(                                                \
      Fragment16<nvcuda::wmma::matrix_##use, nvcuda::wmma::layout##_major> &fragment,              \
      const T *from, unsigned ld) {                                                                \
    unsigned *const to = (unsigned *)fragment.x;                                                   \
    asm volatile("wmma.load." #use ".sync.aligned." #layout ".m16n16k16.shared.bf16 "              \
                 "{%0, %1, %2, %3}, [%4], %5;"                                                     \
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])                              \
                 : "r"(unsigned(__cvta_generic_to_shared(from))), "r"(ld)                          \
                 : "memory");                                                                      \
  }
LOAD_FRAGMENT(a, row)
LOAD_FRAGMENT(a, col)
LOAD_FRAGMENT(b, row)
LOAD_FRAGMENT(b, col)
#undef LOAD_FRAGMENT
#endif
