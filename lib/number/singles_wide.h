/* The loops of singles_read.c and singles_write.c for processors with wide vectors, after
 * attn_singles_isa() said which this processor has. Other processors than x86-64 have
 * singles_other.c. */
#ifndef ATTN_SINGLES_WIDE_H
#define ATTN_SINGLES_WIDE_H

#include <stdbool.h>
#include <stddef.h>

#include <attn/isa.h>

/* ATTN_ISA_AVX512 or ATTN_ISA_AVX2 when that is the chosen instruction set, and its companions
 * (BMI2, LZCNT; CD with AVX-512) are there; else ATTN_ISA_REF. */
attn_isa attn_singles_isa(void);

/* Read numbers of the form [-]d.d from p on, each ended by ',' (a blank may follow) or, the last,
 * by
 * ']', all before `end`; stops before what has another form, and early enough for `room`. At least
 * 16 bytes before p can be read. *next: behind the last ',' taken, or at the ']' when *closed.
 * Returns how many there were. */
size_t attn_read_singles_avx512(const char *p, const char *end, float *out, size_t room,
                                const char **next, bool *closed);
size_t attn_read_singles_avx2(const char *p, const char *end, float *out, size_t room,
                              const char **next, bool *closed);

/* How many numbers at a time the processor has a loop to write for; 0: none. */
size_t attn_singles_lanes(void);

/* A multiple of attn_singles_lanes() float32, each followed by a comma, or by "],[" when it is the
 * last of `width`, a multiple, too; 0: none is. Uses 24 bytes of room behind the text. */
char *attn_write_singles_wide(char *p, const float *values, size_t n, size_t width);
char *attn_write_singles_avx512(char *p, const float *values, size_t n, size_t width);
char *attn_write_singles_avx2(char *p, const float *values, size_t n, size_t width);

/* Behind the last number of a row: its comma becomes "],[". */
static inline char *attn_write_row_end(char *p) {
    p[-1] = ']';
    *p++ = ',';
    *p++ = '[';
    return p;
}

#endif
