/* For tests: new memory can be filled with a byte, so that a number that is read before it is
 * written shows in an answer. blocks.c reads the byte from ATTN_FILL in the environment when the
 * program starts. */
#ifndef ATTN_BASE_FILL_H
#define ATTN_BASE_FILL_H

#include <string.h>

extern int attn_fill_byte; /* 0 to 255; -1: new memory stays as it is */

/* Callers test attn_fill_byte >= 0 first, so that in normal use new memory costs no call. */
static inline void attn_fill_new(void *p, size_t size) {
    memset(p, attn_fill_byte, size);
}

#endif
