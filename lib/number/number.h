/* Converts numbers from text to binary and back, correctly rounded and independent of the
 * locale. */
#ifndef ATTN_NUMBER_H
#define ATTN_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Read one JSON number that starts at p and ends before `end` (RFC 8259: no leading +, no leading
 * zeros, no bare dot). They return the byte after it, or NULL when there is no number. The value is
 * rounded to nearest even, as by strtof and strtod. A number beyond the range becomes ±infinity,
 * which the caller refuses. attn_read_i64 takes integers only: "3.0" and "1e3" count as integers
 * when they are exact. */
const char *attn_read_f32(const char *p, const char *end, float *out);
const char *attn_read_f64(const char *p, const char *end, double *out);
const char *attn_read_i64(const char *p, const char *end, int64_t *out);

/* Reads up to `room` finite float32 at p with a comma and perhaps a blank between them: the hot loop
 * of every JSON body. Returns where it stopped. With *comma it stopped behind a comma (or at p
 * itself), at something that is no finite number; else at the byte behind the last number, which
 * is no comma. `start` is the first byte that may be read, at or before p; *end is readable. */
const char *attn_read_singles(const char *p, const char *start, const char *end, float *out,
                              size_t room, size_t *count, bool *comma);

#define ATTN_NUMBER_TEXT 32 /* bytes of room that each of these needs */

/* Write the shortest decimal text that reads back to the same float32 or double; among texts of
 * that length, the nearest to the exact value. The value is finite. Integral values have no point
 * ("1", "16777216"), but -0 is "-0.0", because readers that know integers would lose its sign.
 * Exponents look like "1e-7"; they are used below 1e-5 and from 1e16 on (1e21 for double). They
 * return the byte after the text and write no NUL. */
char *attn_write_f32(char *p, float value);
char *attn_write_f64(char *p, double value);
char *attn_write_i64(char *p, int64_t value);
/* n float32, each followed by a comma; a value that is not finite becomes null.
 * Room: n * (ATTN_NUMBER_TEXT + 1). */
char *attn_write_singles(char *p, const float *values, size_t n);
/* Rows of width > 0 in the same way; "],[" follows the last number of each instead of the comma. */
char *attn_write_single_rows(char *p, const float *values, size_t rows, size_t width);
/* Rounds half to even at `decimals` (0 … 17) digits after the point and drops trailing zeros. */
char *attn_write_decimals(char *p, double value, int decimals);

#endif
