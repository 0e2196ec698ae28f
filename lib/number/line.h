/* Small text without printf, for log lines and headers: each call writes at p, without a NUL, and
 * returns the byte after what it wrote. */
#ifndef SRV_LINE_H
#define SRV_LINE_H

#include <stdint.h>

char *srv_put(char *p, const char *text);
char *srv_put_number(char *p, uint64_t value);
char *srv_put_ms(char *p, int64_t ns); /* nanoseconds as milliseconds, "0.125" */

#endif
