/* A list of items that grows in an arena. It takes at most four times the bytes of its items. */
#ifndef ATTN_IO_GROWING_LIST_H
#define ATTN_IO_GROWING_LIST_H

#include "attn/memory.h"

/* `count` items of `each` bytes, with space for `room` items. An empty list needs only `each`. */
typedef struct attn_io_list {
    void *items;
    size_t count, room, each;
} attn_io_list;

/* Appends a zeroed item to the list and returns the item; earlier items may move. NULL: out of
 * memory. */
void *attn_io_append(attn_io_list *list, attn_arena *arena);

#endif
