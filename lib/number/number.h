/* Numbers between text and bits, correctly rounded both ways and independent of the locale. */
#ifndef ATTN_NUMBER_H
#define ATTN_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Read one JSON number that starts at p (RFC 8259 grammar: no leading +, no leading zeros, no bare
 * dot) and ends before `end`. Returns the byte after it, or NULL when there is no number. The value
 * is rounded to nearest even, as strtof / strtod would; beyond the range gives ±infinity, which the
 * caller refuses. read_i64: integers only ("3.0" and "1e3" count as integers when exact; otherwise
 * NULL). */
const char *attn_read_f32(const char *p, const char *end, float *out);
const char *attn_read_f64(const char *p, const char *end, double *out);
const char *attn_read_i64(const char *p, const char *end, int64_t *out);

/* The same for a list of float32, the hot loop of every JSON body: up to `room` finite numbers at p
 * with a comma and perhaps a blank between them. Returns where it stopped: *comma: behind a comma
 * (or at p itself), at what is no finite number; else at the byte behind the last number, which is
 * no comma. `start`: the first byte that may be looked at, at or before p; *end is readable. */
const char *attn_read_singles(const char *p, const char *start, const char *end, float *out,
                              size_t room, size_t *count, bool *comma);

#define ATTN_NUMBER_TEXT 32 /* room that any of these needs, bytes */

/* Write the shortest decimal text that reads back to the same float32 (double), nearest to the
 * exact value among those; finite values only. Integral values have no point ("1",
 * "16777216") save "-0.0", which readers that know integers would lose as "-0"; exponents as in
 * "1e-07" are written "1e-7", used below 1e-5 and from 1e16 on (1e21 for double). Returns the byte
 * after the text; no NUL is written. */
char *attn_write_f32(char *p, float value);
char *attn_write_f64(char *p, double value);
char *attn_write_i64(char *p, int64_t value);
/* n float32, each followed by a comma; what is not finite as null. Room: n * (ATTN_NUMBER_TEXT +
 * 1).
 */
char *attn_write_singles(char *p, const float *values, size_t n);
/* Rows of width > 0 likewise, one behind the other; behind the last number of each stands "],["
 * instead of the comma. Room: as above. */
char *attn_write_single_rows(char *p, const float *values, size_t rows, size_t width);
/* Rounded half to even at `decimals` (0 … 17) digits after the point, trailing zeros dropped. */
char *attn_write_decimals(char *p, double value, int decimals);

#endif
