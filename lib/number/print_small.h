/* Small text without printf, for log lines and headers: each call writes at p, without a NUL, and
 * returns the byte after what it wrote. */
#ifndef ATTN_PRINT_SMALL_H
#define ATTN_PRINT_SMALL_H

#include <stdint.h>

char *attn_put(char *p, const char *text);
char *attn_put_number(char *p, uint64_t value);
char *attn_put_ms(char *p, int64_t ns); /* nanoseconds as milliseconds, "0.125" */

#endif
