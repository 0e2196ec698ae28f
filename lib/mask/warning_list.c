#include "mask/warning_list.h"

#include <string.h>

#define TEXT(name, text) text,
static const char *const texts[] = {ATTN_WARNINGS(TEXT)};

const char *attn_warning_text(attn_warning_code code) {
    return code < ATTN_WARNING_COUNT ? texts[code] : NULL;
}

/* The capacity of a list is not stored: it is the smallest power of two that is not below `count`.
 * So a list is full if `count` is 0 or a power of two; its items then move to memory of twice the
 * size. */
bool attn_warnings_add(attn_warnings *to, attn_arena *arena, const attn_warning *warning) {
    if ((to->count & (to->count - 1)) == 0) {
        const size_t room = to->count ? 2 * to->count : 1;
        attn_warning *items = attn_arena_small(arena, room * sizeof *items);
        if (!items)
            return false;
        if (to->count)
            memcpy(items, to->items, to->count * sizeof *items);
        to->items = items;
    }
    to->items[to->count++] = *warning;
    return true;
}
