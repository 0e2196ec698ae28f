/* The interface between lists of float32 and the processor: number_write.c and x86/number_lists.c
 * call loops with wide vectors. On other processors number_lists_other.c replaces x86/. */
#ifndef ATTN_NUMBER_LISTS_H
#define ATTN_NUMBER_LISTS_H

#include <stdbool.h>
#include <stddef.h>

/* These functions read numbers of the form [-]d.d from p on and return how many they read. Each
 * number ends with ',' (a blank may follow) or, the last one, with ']', all before `end`. The
 * functions stop before a number of another form, and before more than `room` numbers. At least 16
 * bytes before p must be readable. *next is set to the byte after the last ',' that was read, or to
 * the ']' if *closed. */
size_t attn_read_singles_avx512(const char *p, const char *end, float *out, size_t room,
                                const char **next, bool *closed);
size_t attn_read_singles_avx2(const char *p, const char *end, float *out, size_t room,
                              const char **next, bool *closed);

/* Returns how many numbers the processor's vector loop writes at a time; 0 if there is no such
 * loop. */
size_t attn_singles_lanes(void);

/* These functions write n float32, a multiple of attn_singles_lanes(). A comma follows each number,
 * or "],[" if it is the last of a row of `width` numbers. width is also such a multiple, and 0
 * means that there are no rows. They use 24 bytes of room after the text. */
char *attn_write_singles_wide(char *p, const float *values, size_t n, size_t width);
char *attn_write_singles_avx512(char *p, const float *values, size_t n, size_t width);
char *attn_write_singles_avx2(char *p, const float *values, size_t n, size_t width);

/* Replaces the comma after the last number of a row by "],[". */
char *attn_write_row_end(char *p);

#endif
