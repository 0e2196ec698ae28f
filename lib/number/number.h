/* Converts numbers from text to binary and back, correctly rounded and independent of the
 * locale. */
#ifndef ATTN_NUMBER_H
#define ATTN_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* These functions read one JSON number that starts at p and ends before `end` (RFC 8259: no leading
 * +, no leading zeros, no bare dot). They return the position after the number, or NULL if there is
 * no number. The value is rounded to nearest even, as by strtof and strtod. A number beyond the
 * range of the type becomes ±infinity, which the caller must refuse. attn_read_i64 returns NULL for
 * numbers that are not integers; "3.0" and "1e3" are integers. */
const char *attn_read_f32(const char *p, const char *end, float *out);
const char *attn_read_f64(const char *p, const char *end, double *out);
const char *attn_read_i64(const char *p, const char *end, int64_t *out);

/* Reads a list of finite float32 that starts at p. Stores at most `room` numbers in `out`, and how
 * many it has read in *count. A comma, or a comma and one blank, separates two numbers. This is the
 * hot loop of every JSON body. Returns the position where reading stopped:
 *   *comma = true: at p or after a comma, since `out` is full or no finite number follows;
 *   *comma = false: after the last number, at a byte that is not a comma.
 * All bytes from `start` <= p to *end, inclusive, must be readable. */
const char *attn_read_singles(const char *p, const char *start, const char *end, float *out,
                              size_t room, size_t *count, bool *comma);

#define ATTN_NUMBER_TEXT 32 /* bytes that must be writable at p when one number is written */

/* These functions write the shortest decimal text that reads back to the same float32 or double,
 * and among texts of that length the nearest to the exact value. The value must be finite. Integers
 * have no point ("1", "16777216"). But -0 is written "-0.0", because a reader that takes "-0" as an
 * integer loses the sign. Numbers below 1e-5 and from 1e16 on (double: from 1e21 on) have an
 * exponent, as in "1e-7". The functions return the position after the text and write no NUL. */
char *attn_write_f32(char *p, float value);
char *attn_write_f64(char *p, double value);
char *attn_write_i64(char *p, int64_t value);
/* Writes n float32, each followed by a comma. A value that is not finite becomes null. The buffer
 * at p needs n * (ATTN_NUMBER_TEXT + 1) bytes. */
char *attn_write_singles(char *p, const float *values, size_t n);
/* Writes `rows` rows of `width` > 0 float32 as attn_write_singles does, but writes "],[" instead of
 * the comma after the last number of each row. The buffer needs 2 more bytes for each row. */
char *attn_write_single_rows(char *p, const float *values, size_t rows, size_t width);
/* Writes a number rounded half to even at `decimals` (0 … 17) digits after the point, without
 * trailing zeros. */
char *attn_write_decimals(char *p, double value, int decimals);

#endif
