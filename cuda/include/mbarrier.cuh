// Barriers in shared memory (mbarrier) between the warps that fill a stage and those that empty it, in one CTA
// or across a cluster. A barrier completes a phase when its arrivals have come and its announced bytes have
// landed; phases alternate in parity, and waiting for a parity returns once the phase of that parity is over.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-mbarrier
#pragma once

__device__ __forceinline__ unsigned shared_address(const void *in_shared) {
  return unsigned(__cvta_generic_to_shared(in_shared));
}

struct Barrier {
  unsigned long long state;

  __device__ __forceinline__ void init(unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)),
                 "r"(arrivals)
                 : "memory");
  }
  // Arrives, and announces bytes that a bulk copy will bring in this phase.
  __device__ __forceinline__ void arrive_expecting(unsigned bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
  }
  __device__ __forceinline__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }
  // Arrives at the barrier in this place of another CTA of the cluster (or of this one). It passes on that
  // reads are over, and no data: release at cluster scope would cost a fence over all of memory.
  __device__ __forceinline__ void arrive_in(unsigned cta) {
    asm volatile("{\n\t.reg .b32 there;\n\t"
                 "mapa.shared::cluster.u32 there, %0, %1;\n\t"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t}" ::"r"(shared_address(this)),
                 "r"(cta)
                 : "memory");
  }
  __device__ __forceinline__ void wait(unsigned parity) {
    unsigned done = 0;
    while (!done)
      asm volatile("{\n\t.reg .pred over;\n\t"
                   "mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n\t"
                   "selp.u32 %0, 1, 0, over;\n\t}"
                   : "=r"(done)
                   : "r"(shared_address(this)), "r"(parity)
                   : "memory");
  }
};

// Makes initialised barriers visible to the copy engine and to the other CTAs of the cluster.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Orders this thread's ordinary writes to shared memory before reads by tensor cores and copy engine.
__device__ __forceinline__ void publish_to_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ unsigned rank_in_cluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// A barrier of all threads of the cluster; lanes of a warp may come one by one.
__device__ __forceinline__ void synchronize_cluster() {
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

// The number of this warpgroup, in a form that the compiler knows to be the same in all lanes: branches on it, and what
// is counted behind them, then stay in uniform registers.
__device__ __forceinline__ int warpgroup() {
  return __shfl_sync(0xffffffffu, int(threadIdx.x) / 128, 0);
}

// A barrier of `threads` threads of the CTA, by number; 0 is that of __syncthreads().
__device__ __forceinline__ void synchronize(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// Moves registers between the warpgroups of a CTA; needs __launch_bounds__(threads, 1).
template <int count> __device__ __forceinline__ void keep_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count> __device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
