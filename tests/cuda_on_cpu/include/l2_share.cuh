/* Reads that say what L2 shall keep, on the CPU, in place of cuda/include/l2_share.cuh: reads. */
#pragma once
#include "pieces.cuh"

struct Streaming {
  explicit Streaming(const Problem &) {}
  Vector load(const T *p) const {
    if ((uintptr_t)p % 16) abort();
    return load_vector(p);
  }
};
using KeepingShare = Streaming;
inline bool keeps_share(const Problem &p) { return p.k % 2; }
