/* Reads and writes lists of float32 with AVX2. */
#include "number/x86/lanes_avx2.h"

#include <math.h>
#include <string.h>

#include "number/number.h"
#include "number/number_lists.h"
#include "number/number_powers.h"
#include "number/x86/number_lists_read_body.h"
#include "number/x86/number_lists_write_body.h"

size_t attn_read_singles_avx2(const char *p, const char *end, float *out, size_t room,
                              const char **next, bool *closed) {
    return read_list(p, end, out, room, next, closed);
}

char *attn_write_singles_avx2(char *p, const float *values, size_t n, size_t width) {
    return write_list(p, values, n, width);
}
