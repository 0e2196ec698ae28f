/* Splits text into words and joins words to text. utf8proc gives categories, lower case and
 * composition of Unicode characters. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/try.h"
#include "tokens/tokenizer.h"
#include "tokens/words.h"

/* Reads the character at byte `at`. Returns its length in bytes, or 0 at the end of the text or at
 * invalid UTF-8. */
static size_t peek(const attn_word_cursor *c, size_t at, int32_t *out) {
    if (at >= c->size)
        return 0;
    utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)c->text + at,
                                          (utf8proc_ssize_t)(c->size - at), out);
    return n > 0 ? (size_t)n : 0;
}

static bool is_apostrophe(int32_t c) {
    return c == '\'' || c == 0x2019;
}

static bool is_letter(int32_t c) {
    utf8proc_category_t kind = utf8proc_category(c);
    return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_NO);
}

static bool is_blank(int32_t c) {
    utf8proc_category_t kind = utf8proc_category(c);
    return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF ||
           (kind >= UTF8PROC_CATEGORY_ZS && kind <= UTF8PROC_CATEGORY_ZP);
}

/* Returns whether the apostrophe at byte `at` belongs to the word "aujourd'hui", which begins at
 * byte `begin`. */
static bool joins(const attn_word_cursor *c, size_t begin, size_t at) {
    static const char before[] = "aujourd";
    if (at - begin != sizeof before - 1)
        return false;
    for (size_t i = 0; before[i]; i++)
        if ((c->text[begin + i] | 0x20) != before[i])
            return false;
    return true;
}

/* Returns the end of the word whose first character, a letter or digit, is at `begin`. */
static size_t word_end(const attn_word_cursor *c, size_t begin) {
    int32_t now, next;
    size_t at = begin, n;
    while ((n = peek(c, at, &now))) {
        if (is_letter(now)) {
            at += n;
            continue;
        }
        size_t more = peek(c, at + n, &next);
        bool inside = at > begin && more && is_letter(next);
        if (!inside || (now != '-' && !is_apostrophe(now)))
            return at;
        at += n;
        if (is_apostrophe(now) && c->language == ATTN_FRENCH && !joins(c, begin, at - n))
            return at;
    }
    return at;
}

static utf8proc_int32_t lower(utf8proc_int32_t c, void *ctx) {
    (void)ctx;
    return c == 0x2019 ? '\'' : utf8proc_tolower(c);
}

static bool normalise(const char *text, size_t n, attn_arena *arena, attn_token *out) {
    utf8proc_uint8_t *made = NULL;
    utf8proc_ssize_t size =
        utf8proc_map_custom((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &made,
                            (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE), lower, NULL);
    if (size >= 0) {
        out->text = attn_arena_text(arena, (const char *)made, (size_t)size);
        out->size = (size_t)size;
    }
    free(made);
    return size >= 0 && out->text;
}

bool attn_word_next(attn_word_cursor *c, size_t *begin, size_t *end) {
    int32_t now;
    size_t n;
    while ((n = peek(c, c->at, &now)) && is_blank(now))
        c->at += n;
    if (!n)
        return false;
    *begin = c->at;
    *end = c->at = is_letter(now) ? word_end(c, c->at) : c->at + n;
    return true;
}

size_t attn_character_at(const char *text, size_t size, size_t at) {
    const attn_word_cursor c = {.text = text, .size = size};
    int32_t now;
    return peek(&c, at, &now);
}

const char *attn_word_capital(const char *word, attn_arena *arena) {
    const size_t n = strlen(word);
    const attn_word_cursor c = {.text = word, .size = n};
    int32_t first = 0;
    const size_t old = peek(&c, 0, &first);
    utf8proc_uint8_t capital[4];
    const utf8proc_ssize_t size = utf8proc_encode_char(utf8proc_totitle(first), capital);
    char *out = old && size > 0 ? attn_arena_take(arena, n - old + (size_t)size + 1) : NULL;
    if (!out)
        return NULL;
    memcpy(out, capital, (size_t)size);
    memcpy(out + size, word + old, n - old + 1);
    return out;
}

attn_status attn_words_split(const char *text, size_t size, attn_language language,
                             attn_arena *arena, attn_token **tokens, size_t *count,
                             attn_error *err) {
    size_t total = 0, begin, end;
    attn_word_cursor c = {text, size, 0, language};
    while (attn_word_next(&c, &begin, &end))
        total++;
    if (c.at < size)
        return attn_fail(err, ATTN_EVALUE, "text", "expected UTF-8, byte %zu is not", c.at);
    attn_token *list = attn_arena_zeroed(arena, total ? total : 1, sizeof *list);
    c.at = 0;
    for (size_t i = 0; list && i < total && attn_word_next(&c, &begin, &end); i++) {
        list[i].begin = begin, list[i].end = end;
        list[i].word = (int32_t)i;
        if (!normalise(text + begin, end - begin, arena, &list[i]))
            list = NULL;
    }
    ATTN_TAKEN(list, "the words of a text", err);
    *tokens = list;
    *count = total;
    return ATTN_OK;
}

const char *attn_words_join(const char *const *words, size_t count, attn_arena *arena) {
    size_t size = 1;
    for (size_t i = 0; i < count; i++)
        size += strlen(words[i]) + 1;
    char *out = attn_arena_take(arena, size), *at = out;
    for (size_t i = 0; out && i < count; i++) {
        size_t n = strlen(words[i]);
        bool tight = at == out || at[-1] == '\'' || (n == 1 && strchr(".,;:!?)", *words[i]));
        if (!tight)
            *at++ = ' ';
        memcpy(at, words[i], n);
        at += n;
    }
    if (out)
        *at = 0;
    return out;
}

attn_status attn_words_encode(const attn_tokenizer *t, const char *text, size_t size,
                              attn_arena *arena, attn_token **tokens, size_t *count,
                              attn_error *err) {
    ATTN_TRY(attn_words_split(text, size, t->language, arena, tokens, count, err));
    for (size_t i = 0; i < *count; i++)
        (*tokens)[i].id = attn_tokenizer_id(t, (*tokens)[i].text, (*tokens)[i].size);
    return ATTN_OK;
}

const char *attn_words_decode(const attn_tokenizer *t, const int32_t *ids, size_t count, bool open,
                              attn_arena *arena) {
    (void)open; /* not used, since words are whole characters */
    const char **words = attn_arena_zeroed(arena, count + 1, sizeof *words);
    for (size_t i = 0; words && i < count; i++)
        words[i] = t->entries[ids[i]].word;
    return words ? attn_words_join(words, count, arena) : NULL;
}
