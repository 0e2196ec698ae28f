/* See line.h. */
#include "number/print_small.h"

#include <string.h>

char *attn_put(char *p, const char *text) {
    size_t n = strlen(text);
    memcpy(p, text, n);
    return p + n;
}

char *attn_put_number(char *p, uint64_t value) {
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n)
        *p++ = digits[--n];
    return p;
}

char *attn_put_ms(char *p, int64_t ns) {
    uint64_t us = ns > 0 ? (uint64_t)ns / 1000 : 0;
    p = attn_put_number(p, us / 1000);
    *p++ = '.';
    *p++ = (char)('0' + us / 100 % 10);
    *p++ = (char)('0' + us / 10 % 10);
    *p++ = (char)('0' + us % 10);
    return p;
}
