#include "io/growing_list.h"

#include <string.h>

void *attn_io_append(attn_io_list *l, attn_arena *arena) {
    if (l->count == l->room) {
        size_t room = l->room ? 2 * l->room : 16, bytes;
        void *grown = attn_size_mul(room, l->each, &bytes) ? attn_arena_take(arena, bytes) : NULL;
        if (!grown)
            return NULL;
        if (l->count)
            memcpy(grown, l->items, l->count * l->each);
        l->items = grown;
        l->room = room;
    }
    void *item = (char *)l->items + l->count++ * l->each;
    memset(item, 0, l->each);
    return item;
}
