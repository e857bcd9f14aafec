/* In place of cuda/include/fragment_load.cuh: there is one kind of memory here. */
#pragma once
#include "problem.cuh"
#include <mma.h>

template <class F> inline void load_from_shared(F &fragment, const T *from, unsigned ld) {
  nvcuda::wmma::load_matrix_sync(fragment, from, ld);
}
