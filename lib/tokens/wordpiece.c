/* WordPiece (Schuster and Nakajima 2012; the greedy form of BERT): a word is divided from its
 * beginning on, and each time the longest token that fits is taken. If a part of a word has no
 * token, the whole word is unknown. */
#include <string.h>

#include "tokens/character.h"
#include "tokens/pipeline.h"

/* Returns the longest token that is a prefix of the text from `at` on, and stores its end; -1:
 * there is none. `name` has room for the prefix and the longest token. */
static int32_t longest_at(const attn_tokenizer *t, const char *text, size_t size, size_t at,
                          char *name, size_t *end) {
    const attn_pipeline *p = t->pipeline;
    const size_t before = at ? p->wordpiece.prefix_size : 0;
    const size_t most = p->longest < before ? 0 : p->longest - before;
    size_t n = size - at < most ? size - at : most;
    if (before)
        memcpy(name, p->wordpiece.prefix, before);
    memcpy(name + before, text + at, n);
    for (; n; n--) {
        const bool cut = at + n < size && ((unsigned char)text[at + n] & 0xc0) == 0x80;
        const int32_t id = cut ? -1 : attn_tokenizer_find(t, name, before + n);
        if (id >= 0) {
            *end = at + n;
            return id;
        }
    }
    return -1;
}

static size_t characters(const char *text, size_t size) {
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

bool attn_wordpiece_divide(const attn_tokenizer *t, const char *word, size_t size,
                           attn_found_list *found) {
    const attn_pipeline *p = t->pipeline;
    const size_t before = found->count;
    bool known = characters(word, size) <= p->wordpiece.most;
    if (!attn_found_reserve(found, size))
        return false;
    const attn_arena_mark mark = attn_arena_here(found->arena);
    char *name = attn_arena_take(found->arena, p->wordpiece.prefix_size + p->longest + 1);
    if (!name)
        return false;
    for (size_t at = 0, end = 0; known && at < size; at = end) {
        const int32_t id = longest_at(t, word, size, at, name, &end);
        known = id >= 0;
        if (known)
            attn_found_add(found, id, at, end);
    }
    attn_arena_rewind(found->arena, &mark);
    if (known)
        return true;
    found->count = before;
    return attn_found_add(found, p->unknown, 0, size);
}
