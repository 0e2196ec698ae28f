/* Sentences about a mask, put together in a buffer of fixed size: what does not fit is dropped. */
#ifndef ATTN_MASK_SAY_H
#define ATTN_MASK_SAY_H

#include "mask/mask_private.h"

typedef struct attn_mask_text {
    char text[4096];
    size_t used;
} attn_mask_text;

void attn_mask_say(attn_mask_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The compiled part of layer `i` of the spec, or NULL (causal, window, lengths have none). */
const attn_mask_part *attn_mask_part_of(const attn_mask *m, size_t i);
/* Does the part hide cell (b, h, i, j)? Numbers hide from `floor` down: -INFINITY, or a large
 * negative number to count finite fills too. */
bool attn_mask_part_hides(const attn_mask_part *part, double floor, size_t b, size_t h, size_t i,
                          size_t j);

#endif
