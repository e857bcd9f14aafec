// Programmatic dependent launch (sm_90): a launch that was allowed to begin early begins while the one before it
// still runs, and waits where it needs what that one writes. All others begin when everything before is over, and
// then neither call does anything.
#pragma once

__device__ __forceinline__ void let_next_launch_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Until the launch before is complete and what it wrote can be read.
__device__ __forceinline__ void wait_for_launch_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
