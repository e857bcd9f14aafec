/* What the environment said wrongly, kept as text: a library does not print. */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char text[1024];

void warn_add(const char *format, ...) {
  const size_t used = strlen(text);
  va_list values;
  va_start(values, format);
  vsnprintf(text + used, sizeof text - used, format, values);
  va_end(values);
}

const char *gemm_warnings(void) {
  gemm_isa();
  gemm_threads_get();
  return text;
}
