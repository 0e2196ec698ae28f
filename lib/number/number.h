/* Converts numbers from text to binary and back, correctly rounded and independent of the
 * locale. */
#ifndef ATTN_NUMBER_H
#define ATTN_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* These functions read one JSON number that starts at p and ends before `end` (RFC 8259: no leading
 * +, no leading zeros, no bare dot). They return the byte after it, or NULL if there is no number.
 * The value is rounded to nearest even, as by strtof and strtod. A number beyond the range becomes
 * ±infinity, which the caller refuses. attn_read_i64 reads only integers; "3.0" and "1e3" count as
 * integers since they are exact. */
const char *attn_read_f32(const char *p, const char *end, float *out);
const char *attn_read_f64(const char *p, const char *end, double *out);
const char *attn_read_i64(const char *p, const char *end, int64_t *out);

/* Reads up to `room` finite float32 from p on, separated by a comma and perhaps a blank. This is
 * the hot loop of every JSON body. Returns where it stopped. If *comma, it stopped after a comma
 * (or at p), before text that is not a finite number. Else it stopped at the byte after the last
 * number, and this byte is not a comma. `start` is the first readable byte, at or before p; *end is
 * readable. */
const char *attn_read_singles(const char *p, const char *start, const char *end, float *out,
                              size_t room, size_t *count, bool *comma);

#define ATTN_NUMBER_TEXT 32 /* bytes of room that each function for one number needs */

/* These functions write the shortest decimal text that reads back to the same float32 or double,
 * and among texts of that length the nearest to the exact value. The value must be finite. Integers
 * have no point ("1", "16777216"), but -0 is "-0.0", because readers that know integers would lose
 * its sign. Exponents look like "1e-7". They are used below 1e-5 and from 1e16 on (1e21 for
 * double). The functions return the byte after the text and write no NUL. */
char *attn_write_f32(char *p, float value);
char *attn_write_f64(char *p, double value);
char *attn_write_i64(char *p, int64_t value);
/* Writes n float32, each followed by a comma. A value that is not finite becomes null. It needs
 * room for n * (ATTN_NUMBER_TEXT + 1) bytes. */
char *attn_write_singles(char *p, const float *values, size_t n);
/* Writes rows of width > 0 in the same way. After the last number of each row, "],[" replaces the
 * comma. */
char *attn_write_single_rows(char *p, const float *values, size_t rows, size_t width);
/* Writes a number rounded half to even at `decimals` (0 … 17) digits after the point, without
 * trailing zeros. */
char *attn_write_decimals(char *p, double value, int decimals);

#endif
