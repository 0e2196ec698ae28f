/* Reads and writes lists of float32 with AVX-512. */
#define NAME(x) x##_avx512

#include "number/x86/lanes_avx512.h"

#include "number/x86/number_lists_read_body.h"

#include "number/x86/number_lists_write_body.h"
