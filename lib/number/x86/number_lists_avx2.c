/* Reads and writes lists of float32 with AVX2. */
#define NAME(x) x##_avx2

#include "number/x86/lanes_avx2.h"

#include "number/x86/number_lists_read_body.h"

#include "number/x86/number_lists_write_body.h"
