/* Behind the .cu file: what the stand-in driver calls. KERNEL_ENTRY names the kernel; with REALIGNS it has the
 * one that moves operands, too. */
template <class Body> int run_blocks(Body body, unsigned blocks, unsigned x, unsigned y) {
  kernel_cpu::block_size = {x, y, 1}, kernel_cpu::grid_size = {blocks, 1, 1};
  for (unsigned b = 0; b < blocks; ++b) {
    kernel_cpu::block_index = {b, 0, 0};
    const int line = kernel_cpu::run_block(x * y, body);
    if (line) {
      fprintf(stderr, "barrier at line %d is not reached by every thread of block %u\n", line, b);
      return 719; /* CUDA_ERROR_LAUNCH_FAILED */
    }
  }
  return 0;
}

extern "C" int run_kernel(const void *problem, unsigned blocks, unsigned x, unsigned y) {
  return run_blocks([=] { KERNEL_ENTRY(*(const Problem *)problem); }, blocks, x, y);
}
#ifdef REALIGNS
extern "C" int run_realign(const void *moves, unsigned blocks, unsigned x, unsigned y) {
  return run_blocks([=] { realign(*(const Moves *)moves); }, blocks, x, y);
}
#endif
