/* Sentences about a mask, in a buffer of fixed size. Text that does not fit is dropped. */
#ifndef ATTN_MASK_WORDS_H
#define ATTN_MASK_WORDS_H

#include "mask/mask_private.h"

typedef struct attn_mask_text {
    char text[4096];
    size_t used;
} attn_mask_text;

/* Appends formatted text. */
void attn_mask_say(attn_mask_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
