/* The vector loops that read and write lists of float32. number_lists_write.c and
 * x86/number_lists.c call them. On processors other than x86-64, number_lists_other.c replaces the
 * folder x86/. */
#ifndef ATTN_NUMBER_LISTS_H
#define ATTN_NUMBER_LISTS_H

#include <stdbool.h>
#include <stddef.h>

/* These functions read numbers with digits on both sides of a point and without an exponent, such
 * as -12.5, from p on, and return how many they read. A ',' and perhaps a blank follow each number
 * but the last one of a list, which a ']' follows. The functions stop before a number of another
 * form, before `end`, and when they have read `room` numbers. At least 16 bytes before p must be
 * readable. *closed tells whether they reached the ']'. *next is the position of this ']', or else
 * the position after the last ',' that they read. */
size_t attn_read_singles_avx512(const char *p, const char *end, float *out, size_t room,
                                const char **next, bool *closed);
size_t attn_read_singles_avx2(const char *p, const char *end, float *out, size_t room,
                              const char **next, bool *closed);

/* Returns how many numbers the vector loop of this processor writes at a time, or 0 if it has no
 * such loop. */
size_t attn_singles_lanes(void);

/* These functions write n float32, each followed by a comma, or by "],[" if it is the last of a row
 * of `width` numbers. width = 0 means that there are no rows. n and width must be multiples of
 * attn_singles_lanes(). The functions may overwrite 24 bytes after the text. They return the
 * position after the text. */
char *attn_write_singles_wide(char *p, const float *values, size_t n, size_t width);
char *attn_write_singles_avx512(char *p, const float *values, size_t n, size_t width);
char *attn_write_singles_avx2(char *p, const float *values, size_t n, size_t width);

/* Replaces the comma after the last number of a row by "],[". */
static inline char *attn_write_row_end(char *p) {
    p[-1] = ']';
    *p++ = ',';
    *p++ = '[';
    return p;
}

#endif
