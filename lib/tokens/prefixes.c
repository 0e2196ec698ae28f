/* Finds prefixes by narrowing a range of a sorted list, one byte after another. */
#include "tokens/prefixes.h"

#include <stdlib.h>
#include <string.h>

static int by_bytes(const void *a, const void *b) {
    const attn_prefix *x = a, *y = b;
    const size_t shorter = x->size < y->size ? x->size : y->size;
    const int order = memcmp(x->text, y->text, shorter);
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

const attn_prefix *attn_prefixes_sort(attn_prefixes *p, attn_prefix *items, size_t count) {
    if (count)
        qsort(items, count, sizeof *items, by_bytes);
    *p = (attn_prefixes){.items = items, .count = count};
    for (size_t byte = 0, at = 0; byte <= 256; byte++) {
        while (at < count && (unsigned char)*items[at].text < byte)
            at++;
        p->first[byte] = at;
    }
    for (size_t i = 1; i < count; i++)
        if (!by_bytes(&items[i - 1], &items[i]))
            return &items[i];
    return NULL;
}

/* Returns the first item of [low, high) whose byte at `depth` is at least `byte`. All these items
 * must be longer than `depth`. */
static size_t bound(const attn_prefixes *p, size_t low, size_t high, size_t depth, unsigned byte) {
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((unsigned char)p->items[middle].text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const attn_prefix *attn_prefixes_next(const attn_prefixes *p, attn_prefix_walk *walk,
                                      const char *text, size_t size) {
    while (walk->depth < size) {
        const unsigned byte = (unsigned char)text[walk->depth];
        if (!walk->depth) {
            walk->low = p->first[byte];
            walk->high = p->first[byte + 1];
        } else {
            walk->low = bound(p, walk->low, walk->high, walk->depth, byte);
            walk->high = bound(p, walk->low, walk->high, walk->depth, byte + 1);
        }
        if (walk->low == walk->high)
            return NULL;
        walk->depth++;
        if (p->items[walk->low].size == walk->depth)
            return &p->items[walk->low++];
    }
    return NULL;
}
