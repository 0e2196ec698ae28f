/* The loops of singles_read.c and singles_write.c for processors with AVX-512; only they call
 * these, after srv_singles_avx512() said that this processor has it. */
#ifndef SRV_SINGLES_AVX512_H
#define SRV_SINGLES_AVX512_H

#include <stdbool.h>
#include <stddef.h>

/* Is the chosen instruction set AVX-512, and are its companions (CD, BMI2, LZCNT) there? */
bool srv_singles_avx512(void);

/* Read numbers of the form [-]d.d from p on, each ended by ',' (a blank may follow) or, the last,
 * by
 * ']', all before `end`; stops before what has another form, and early enough for `room`. At least
 * 16 bytes before p can be read. *next: behind the last ',' taken, or at the ']' when *closed.
 * Returns how many there were. */
size_t srv_read_singles_avx512(const char *p, const char *end, float *out, size_t room,
                               const char **next, bool *closed);

/* As srv_write_singles, for a multiple of eight values; uses 24 bytes of room behind the text. */
char *srv_write_singles_avx512(char *p, const float *values, size_t n);

#endif
