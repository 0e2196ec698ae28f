/* Intervals of keys. They may reach beyond the keys of a mask, so their ends are signed. */
#ifndef ATTN_MASK_INTERVAL_H
#define ATTN_MASK_INTERVAL_H

#include <stdint.h>

/* The keys from … to - 1; no keys if from >= to. */
typedef struct attn_interval {
    int64_t from, to;
} attn_interval;

static inline int64_t attn_key_smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t attn_key_larger(int64_t a, int64_t b) {
    return a < b ? b : a;
}

static inline attn_interval attn_intersection(attn_interval a, attn_interval b) {
    return (attn_interval){attn_key_larger(a.from, b.from), attn_key_smaller(a.to, b.to)};
}
/* Returns the smallest interval that contains both intervals. */
static inline attn_interval attn_hull(attn_interval a, attn_interval b) {
    return a.from >= a.to ? b
           : b.from >= b.to
               ? a
               : (attn_interval){attn_key_smaller(a.from, b.from), attn_key_larger(a.to, b.to)};
}
static inline int64_t attn_interval_length(attn_interval a) {
    return a.from < a.to ? a.to - a.from : 0;
}

#endif
