/* Rewrites texts by the characters map of SentencePiece, as PyPI `tokenizers`, the reference
 * implementation of tokenizer.json, does. A grapheme of less than six bytes is looked up as a whole;
 * if that fails, or if the grapheme is longer, each of its characters is looked up. A lookup finds
 * the shortest prefix that is in the trie. Its replacement takes the place of all bytes that were
 * looked up. */
#include "tokens/charsmap.h"

#include <string.h>
#include <utf8proc.h>

#include "base/try.h"
#include "number/base64.h"
#include "tokens/character.h"
#include "tokens/steps.h"
#include "tokens/words.h"

enum { MOST_OF_GRAPHEME = 5 /* largest size of a grapheme that is looked up as a whole */ };

static attn_status fail(attn_error *err, const char *text) {
    return attn_fail(err, ATTN_EVALUE, "precompiled_charsmap", "%s", text);
}

attn_status attn_charsmap_read(const char *base64, size_t n, attn_arena *arena, attn_charsmap *map,
                               attn_error *err) {
    size_t bytes, trie = 0, at = 0, character;
    if (!attn_base64_size(base64, n, &bytes))
        return fail(err, "expected base64");
    char *data = attn_arena_take(arena, bytes + 1);
    ATTN_TAKEN(data, "a characters map", err);
    if (attn_base64_decode(data, base64, n) != n)
        return fail(err, "expected base64");
    if (bytes >= 4)
        for (int i = 4; i--;)
            trie = trie << 8 | (unsigned char)data[i];
    if (bytes < 8 || trie % 4 || trie < 4 || trie > bytes - 4)
        return fail(err, "expected the size of the trie in its first four bytes");
    uint32_t *units = attn_arena_array(arena, trie / 4, sizeof *units);
    ATTN_TAKEN(units, "a characters map", err);
    for (size_t i = 0; i < trie / 4; i++) {
        units[i] = 0;
        for (size_t k = 4; k--;)
            units[i] = units[i] << 8 | (unsigned char)data[4 + 4 * i + k];
    }
    *map = (attn_charsmap){units, trie / 4, data + 4 + trie, bytes - 4 - trie};
    data[bytes] = 0;
    while ((character = attn_character_at(map->texts, map->size, at)))
        at += character;
    return at == map->size ? ATTN_OK : fail(err, "expected texts in UTF-8 behind the trie");
}

/* --- the trie --- */

/* Bits of a unit: 0 to 7 and 31 are the label, 8 is set if there is a leaf, 9 if the offset is
 * large, and 10 to 30 are the offset. A leaf has its value in bits 0 to 30. */
static size_t offset_of(uint32_t unit) {
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* Returns the replacement for n bytes; NULL: the map has none. */
static const char *look_up(const attn_charsmap *map, const char *text, size_t n) {
    size_t at = offset_of(map->units[0]);
    for (size_t i = 0; i < n && text[i]; i++) {
        const unsigned char c = (unsigned char)text[i];
        at ^= c;
        if (at >= map->count || (map->units[at] & (1u << 31 | 0xff)) != c)
            return NULL;
        const bool leaf = map->units[at] >> 8 & 1;
        at ^= offset_of(map->units[at]);
        if (!leaf)
            continue;
        const size_t value = at < map->count ? map->units[at] & 0x7fffffff : SIZE_MAX;
        const bool inside = value < map->size && (map->texts[value] & 0xc0) != 0x80;
        return inside ? map->texts + value : NULL;
    }
    return NULL;
}

/* --- rewriting --- */

typedef struct list {
    attn_change *items;
    size_t count;
} list;

/* Appends the characters of `made`, which replace `old` characters. */
static void replace(list *l, size_t old, const char *made) {
    size_t count = 0, n;
    for (; *made; made += n, count++)
        l->items[l->count++] = (attn_change){attn_character_read(made, &n), 0};
    for (size_t i = 0; i + old < count; i++)
        l->items[l->count - 1 - i].change = 1;
    if (count < old && l->count)
        l->items[l->count - 1].change += (int32_t)count - (int32_t)old;
}

static size_t characters(const char *text, size_t size) {
    size_t count = 0;
    for (size_t at = 0, n; at < size; at += n, count++)
        attn_character_read(text + at, &n);
    return count;
}

/* Returns the end of the grapheme that begins at byte `at`. */
static size_t grapheme_end(const char *text, size_t size, size_t at) {
    size_t n, more;
    utf8proc_int32_t state = 0;
    int32_t c = attn_character_read(text + at, &n);
    for (at += n; at < size; at += more) {
        const int32_t next = attn_character_read(text + at, &more);
        if (utf8proc_grapheme_break_stateful(c, next, &state))
            return at;
        c = next;
    }
    return at;
}

/* Rewrites a text into `l`. Returns an upper bound of the number of characters; if `l` is NULL, it
 * only counts. */
static size_t rewrite_text(const attn_charsmap *map, const char *text, size_t size, list *l) {
    size_t count = 0;
    for (size_t at = 0, end, n; at < size; at = end) {
        end = grapheme_end(text, size, at);
        const bool whole = end - at <= MOST_OF_GRAPHEME && look_up(map, text + at, end - at);
        for (size_t from = at; from < end; from += n) {
            attn_character_read(text + from, &n);
            n = whole ? end - at : n;
            const char *made = look_up(map, text + from, n);
            count += made ? strlen(made) : 1;
            if (l && made)
                replace(l, characters(text + from, n), made);
            else if (l)
                l->items[l->count++] = (attn_change){attn_character_read(text + from, &n), 0};
        }
    }
    return count;
}

static bool rewrite_by_map(attn_aligned *to, const attn_aligned *from, const attn_piece *piece,
                           const void *with) {
    const attn_charsmap *map = with;
    const char *text = from->text + piece->begin;
    const size_t size = piece->end - piece->begin;
    list l = {.count = 0};
    l.items = attn_arena_array(to->arena, rewrite_text(map, text, size, NULL) + 1, sizeof *l.items);
    if (!l.items)
        return false;
    rewrite_text(map, text, size, &l);
    return attn_aligned_changes(to, from, piece, l.items, l.count);
}

bool attn_step_charsmap(const attn_step *step, attn_aligned *a) {
    return attn_aligned_rewrite(a, rewrite_by_map, step->charsmap);
}
