/* Inside the JSON writer: numbers to text without its state, its buffer, and large tensors in
 * pieces. */
#ifndef SRV_JSON_RUN_H
#define SRV_JSON_RUN_H

#include "wire/json_out.h"

#define SRV_RUN 128 /* numbers converted at a time */

/* Text of one number, null when it is not finite; `decimals` as in srv_json. Returns the byte
 * behind it; ATTN_NUMBER_TEXT bytes are used at most. */
char *srv_write_real(char *p, double value, int decimals);
char *srv_write_float(char *p, float value, int decimals);
/* n <= SRV_RUN elements, `stride` elements apart, each followed by a comma. Room:
 * n * (ATTN_NUMBER_TEXT + 1). */
char *srv_write_run(char *p, const char *src, attn_dtype dtype, ptrdiff_t stride, size_t n,
                    int decimals);

/* Room for `more` bytes at data + size; false: there is none, the writer has failed. */
bool srv_json_room(srv_json *j, size_t more);
/* A tensor of many numbers, by all workers, with the same bytes as by one. false: not so, nothing
 * was written. */
bool srv_json_pieces(srv_json *j, const attn_tensor *t);

#endif
