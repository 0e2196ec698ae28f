/* Text that grows by appending. It is in the arena of its caller. When its block is full, the text
 * moves to a block of twice the needed size. The old block is freed only with the arena. */
#include "attn/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_ROOM = 1024 };

/* Makes room for n more bytes and a NUL. If memory runs out, sets t->failed and returns false. */
static bool reserve(attn_text *t, size_t n) {
    size_t need;
    if (t->failed)
        return false;
    if (!attn_size_add(t->size, n, &need) || !attn_size_add(need, 1, &need))
        goto fail;
    if (need <= t->room)
        return true;
    size_t room = FIRST_ROOM;
    if (need > room && !attn_size_mul(need, 2, &room))
        goto fail;
    char *data = attn_arena_take(t->arena, room);
    if (!data)
        goto fail;
    if (t->size)
        memcpy(data, t->data, t->size);
    data[t->size] = '\0';
    t->data = data;
    t->room = room;
    return true;
fail:
    t->failed = true;
    return false;
}

void attn_text_bytes(attn_text *t, const char *bytes, size_t n) {
    if (!reserve(t, n))
        return;
    memcpy(t->data + t->size, bytes, n);
    t->size += n;
    t->data[t->size] = '\0';
}

void attn_text_repeat(attn_text *t, char c, size_t n) {
    if (!reserve(t, n))
        return;
    memset(t->data + t->size, c, n);
    t->size += n;
    t->data[t->size] = '\0';
}

/* Prints into the free room of the block. If the output does not fit, makes room and prints
 * again. */
void attn_text_add(attn_text *t, const char *format, ...) {
    size_t need = 0;
    while (reserve(t, need)) {
        va_list args;
        va_start(args, format);
        size_t left = t->room - t->size;
        int n = vsnprintf(t->data + t->size, left, format, args);
        va_end(args);
        if (n >= 0 && (size_t)n < left) {
            t->size += (size_t)n;
            return;
        }
        t->failed = n < 0;
        t->data[t->size] = '\0';
        need = n < 0 ? 0 : (size_t)n;
    }
}
