/* Lists of the tokens of a text, in the order in which they are found. */
#include <string.h>

#include "tokens/pipeline.h"

bool attn_found_reserve(attn_found_list *list, size_t more) {
    size_t wanted;
    if (!attn_size_add(list->count, more, &wanted) || wanted > SIZE_MAX / 4)
        return false;
    if (wanted <= list->room)
        return true;
    const size_t room = wanted + wanted / 2 + 16;
    attn_found *items = attn_arena_array(list->arena, room, sizeof *items);
    if (!items)
        return false;
    if (list->count)
        memcpy(items, list->items, list->count * sizeof *items);
    list->items = items;
    list->room = room;
    return true;
}

bool attn_found_add(attn_found_list *list, int32_t id, size_t begin, size_t end) {
    if (!attn_found_reserve(list, 1))
        return false;
    list->items[list->count++] =
        (attn_found){list->offset + begin, list->offset + end, id, list->word, false};
    return true;
}
