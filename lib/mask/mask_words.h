/* A text buffer of fixed size for sentences about a mask. Text that does not fit is dropped. */
#ifndef ATTN_MASK_WORDS_H
#define ATTN_MASK_WORDS_H

#include "mask/mask_private.h"

typedef struct attn_mask_text {
    char text[4096];
    size_t used; /* bytes of text, without the NUL */
} attn_mask_text;

/* Appends text formatted as by printf. */
void attn_mask_say(attn_mask_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
