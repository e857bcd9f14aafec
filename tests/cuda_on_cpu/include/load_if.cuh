/* In place of cuda/include/load_if.cuh. */
#pragma once

inline unsigned load_bits_if(bool condition, const void *from) {
  uint16_t bits = 0;
  if (condition) memcpy(&bits, from, 2);
  return bits;
}
