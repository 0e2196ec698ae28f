/* The seam between lists of float32 and the processor: number_write.c and x86/number_lists.c call
 * the loops with wide vectors. number_lists_other.c stands in for x86/ on other processors. */
#ifndef ATTN_NUMBER_LISTS_H
#define ATTN_NUMBER_LISTS_H

#include <stdbool.h>
#include <stddef.h>

/* Read numbers of the form [-]d.d from p on and return how many there were. Each ends with ',' (a
 * blank may follow) or, the last one, with ']', all before `end`. They stop before a number of
 * another form, and before more than `room` numbers. At least 16 bytes before p are readable.
 * *next is behind the last ',' that was taken, or at the ']' when *closed. */
size_t attn_read_singles_avx512(const char *p, const char *end, float *out, size_t room,
                                const char **next, bool *closed);
size_t attn_read_singles_avx2(const char *p, const char *end, float *out, size_t room,
                              const char **next, bool *closed);

/* How many numbers the processor's loop writes at a time; 0 when it has none. */
size_t attn_singles_lanes(void);

/* Write n float32, a multiple of attn_singles_lanes(). A comma follows each, or "],[" when it is
 * the last of a row of `width`, which is a multiple too; a width of 0 means no rows. 24 bytes of
 * room behind the text are used. */
char *attn_write_singles_wide(char *p, const float *values, size_t n, size_t width);
char *attn_write_singles_avx512(char *p, const float *values, size_t n, size_t width);
char *attn_write_singles_avx2(char *p, const float *values, size_t n, size_t width);

/* Replaces the comma behind the last number of a row by "],[". */
static inline char *attn_write_row_end(char *p) {
    p[-1] = ']';
    *p++ = ',';
    *p++ = '[';
    return p;
}

#endif
