// Reads 16 bits if a condition holds, else 0, by one predicated load: of `condition ? *p : 0` the compiler
// makes two branches.
#pragma once

__device__ __forceinline__ unsigned load_bits_if(bool condition, const void *from) {
  unsigned bits;
  asm volatile("{\n .reg .pred p;\n .reg .b16 h;\n setp.ne.s32 p, %1, 0;\n mov.b16 h, 0;\n"
               " @p ld.global.nc.b16 h, [%2];\n cvt.u32.u16 %0, h;\n}"
               : "=r"(bits)
               : "r"(int(condition)), "l"(from));
  return bits;
}
