// What load_matrix_sync is told of a matrix in memory: do the neighbours lie in its rows or in its columns?
#pragma once
#include <mma.h>

template <bool ROWS_IN_MEMORY> struct FragmentLayoutOf {
  using Type = nvcuda::wmma::col_major;
};
template <> struct FragmentLayoutOf<true> {
  using Type = nvcuda::wmma::row_major;
};
template <bool ROWS_IN_MEMORY>
using FragmentLayout = typename FragmentLayoutOf<ROWS_IN_MEMORY>::Type;
