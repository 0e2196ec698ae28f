/* Looks up the classes and the lower case of characters by binary search. */
#include "tokens/character.h"

/* Each number is the first character of a run << 16 | the classes of its characters. */
static const uint64_t runs[] = {
#include "tokens/character_classes.inc"
};

/* The classes of the first 128 characters, which are looked up most often. */
static const uint16_t ascii[128] = {
#include "tokens/ascii_classes.inc"
};

static const struct {
    int32_t first, last, step, change;
} lower_rows[] = {
#include "tokens/lower_case.inc"
};

unsigned attn_character_classes(int32_t c) {
    if (c >= 0 && c < 128)
        return ascii[c];
    size_t low = 0, high = sizeof runs / sizeof *runs;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if ((int32_t)(runs[middle] >> 16) <= c)
            low = middle;
        else
            high = middle;
    }
    return (unsigned)(runs[low] & 0xffff);
}

int32_t attn_character_lower(int32_t c) {
    if (c >= 0 && c < 128)
        return c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c;
    size_t low = 0, high = sizeof lower_rows / sizeof *lower_rows;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (lower_rows[middle].first <= c)
            low = middle;
        else
            high = middle;
    }
    const bool inside = c >= lower_rows[low].first && c <= lower_rows[low].last &&
                        (c - lower_rows[low].first) % lower_rows[low].step == 0;
    return inside ? c + lower_rows[low].change : c;
}
