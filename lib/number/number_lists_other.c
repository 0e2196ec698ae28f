/* Reads lists of float32 on processors other than x86-64, one number at a time. number.h describes
 * attn_read_singles, and number_lists.h the other functions. */
#include <math.h>

#include "number/number.h"
#include "number/number_lists.h"

const char *attn_read_singles(const char *p, const char *start, const char *end, float *out,
                              size_t room, size_t *count, bool *comma) {
    (void)start;
    *comma = true;
    *count = 0;
    while (*count < room) {
        const char *next = attn_read_f32(p, end, &out[*count]);
        if (!next || !isfinite(out[*count]))
            break;
        ++*count;
        *comma = *next == ',';
        if (!*comma)
            return next;
        p = next + 1;
        p += *p == ' ';
    }
    return p;
}

size_t attn_singles_lanes(void) {
    return 0;
}

char *attn_write_singles_wide(char *p, const float *values, size_t n, size_t width) {
    (void)values, (void)n, (void)width;
    return p;
}
