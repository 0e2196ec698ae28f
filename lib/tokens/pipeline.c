/* Functions that make pipelines. The readers of different files share them. */
#include "tokens/pipeline.h"

#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "tokens/character.h"
#include "tokens/words.h"
#include "json/json_scan.h"

/* --- characters of bytes --- */

static bool is_visible(unsigned byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
}

int32_t attn_byte_character(unsigned byte) {
    int32_t hidden = 0x100;
    if (is_visible(byte))
        return (int32_t)byte;
    for (unsigned b = 0; b < byte; b++)
        hidden += !is_visible(b);
    return hidden;
}

int attn_character_byte(int32_t c) {
    if (c >= 0 && c < 0x100)
        return is_visible((unsigned)c) ? (int)c : -1;
    for (unsigned b = 0, hidden = 0x100; b < 256; b++)
        if (!is_visible(b) && (int32_t)hidden++ == c)
            return (int)b;
    return -1;
}

/* --- making --- */

/* Largest size of a pipeline without its vocabulary and merges. Known models need a tenth of it.
 * The limit stops normalisers that double a text again and again. */
enum { MOST_OF_PIPELINE = 1 << 28 };

attn_tokenizer *attn_pipeline_new(attn_tokenizer_kind kind) {
    attn_tokenizer *t = attn_tokenizer_empty(kind, ATTN_ENGLISH);
    attn_arena *arena = t ? attn_arena_new(MOST_OF_PIPELINE) : NULL;
    attn_pipeline *p = arena ? attn_arena_zeroed(arena, 1, sizeof *p) : NULL;
    if (!p) {
        attn_arena_free(arena);
        attn_tokenizer_free(t);
        return NULL;
    }
    p->arena = t->arena = arena;
    p->unknown = -1;
    t->pipeline = p;
    t->settled = true;
    for (int i = 0; i < ATTN_SPECIALS; i++)
        t->specials[i] = -1;
    return t;
}

attn_status attn_pipeline_token(attn_tokenizer *t, const char *text, size_t size, attn_error *err) {
    const size_t next = t->length;
    char where[40];
    size_t place, at = 0, n;
    snprintf(where, sizeof where, "tokens/%zu", next);
    if (!size)
        return attn_fail(err, ATTN_EVALUE, where, "expected a token that is not empty");
    while ((n = attn_character_at(text, size, at)) && text[at])
        at += n;
    if (at < size)
        return attn_fail(err, ATTN_EVALUE, where,
                         "expected UTF-8 without NUL, byte %zu of the token is not", at);
    ATTN_TAKEN(attn_tokenizer_put(t, text, size, &place), "the tokens of a tokenizer", err);
    if (place != next)
        return attn_fail(err, ATTN_EVALUE, where, "repeats the token with the id %zu: %.60s", place,
                         t->entries[place].word);
    if (size > t->pipeline->longest)
        t->pipeline->longest = size;
    return ATTN_OK;
}

/* Returns the token whose text is the texts of two tokens joined; -1: there is none. */
static int32_t joined(const attn_tokenizer *t, const attn_string pair[2], char *name) {
    memcpy(name, pair[0].text, pair[0].size);
    memcpy(name + pair[0].size, pair[1].text, pair[1].size);
    return attn_tokenizer_find(t, name, pair[0].size + pair[1].size);
}

static attn_status add_merge(attn_tokenizer *t, const attn_string pair[2], size_t i, char *name,
                             attn_error *err) {
    char where[40];
    const int32_t left = attn_tokenizer_find(t, pair[0].text, pair[0].size);
    const int32_t right = attn_tokenizer_find(t, pair[1].text, pair[1].size);
    const int32_t made = left >= 0 && right >= 0 ? joined(t, pair, name) : -1;
    snprintf(where, sizeof where, "merges/%zu", i);
    const int sizes[] = {(int)(pair[0].size < 60 ? pair[0].size : 60),
                         (int)(pair[1].size < 60 ? pair[1].size : 60)};
    if (made < 0)
        return attn_fail(err, ATTN_EVALUE, where, "the vocabulary lacks %s of \"%.*s\" \"%.*s\"",
                         left < 0    ? "the left side"
                         : right < 0 ? "the right side"
                                     : "the join",
                         sizes[0], pair[0].text, sizes[1], pair[1].text);
    if (!attn_merges_add(t->merges, left, right, made))
        return attn_fail(err, ATTN_EVALUE, where, "repeats the merge \"%.*s\" \"%.*s\"", sizes[0],
                         pair[0].text, sizes[1], pair[1].text);
    return ATTN_OK;
}

attn_status attn_pipeline_merges(attn_tokenizer *t, const attn_string (*pairs)[2], size_t count,
                                 attn_error *err) {
    attn_pipeline *p = t->pipeline;
    const attn_arena_mark mark = attn_arena_here(p->arena);
    char *name = attn_arena_take(p->arena, 2 * p->longest + 1);
    if (name && count < UINT32_MAX / 4)
        t->merges = attn_merges_room(count);
    ATTN_TAKEN(t->merges, "the merges of a tokenizer", err);
    attn_status status = ATTN_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = add_merge(t, pairs[i], i, name, err);
    attn_arena_rewind(p->arena, &mark);
    return status;
}

/* --- finishing --- */

static void find_bytes(attn_tokenizer *t) {
    attn_pipeline *p = t->pipeline;
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        size_t n = (size_t)snprintf(name, sizeof name, "<0x%02X>", byte);
        if (p->pairs.of_bytes)
            n = (size_t)(attn_put_utf8(name, (uint32_t)attn_byte_character(byte)) - name);
        p->bytes[byte] = attn_tokenizer_find(t, name, n);
    }
}

/* Sets the text by which an added token is found: its own text, or its text after normalisation. */
static attn_status set_match(attn_tokenizer *t, attn_added *added, bool raw, attn_error *err) {
    const attn_pipeline *p = t->pipeline;
    const attn_entry *entry = &t->entries[added->id];
    attn_aligned a;
    if (raw) {
        added->match = entry->word;
        added->match_size = entry->size;
        return ATTN_OK;
    }
    ATTN_TAKEN(attn_aligned_open(&a, entry->word, entry->size, p->arena) &&
                   attn_steps_apply(p->normalisers, p->normaliser_count, &a),
               "the added tokens of a tokenizer", err);
    if (!a.size)
        return attn_fail(err, ATTN_EVALUE, "added_tokens",
                         "nothing is left of \"%.60s\" once it is normalised", entry->word);
    added->match = a.text;
    added->match_size = a.size;
    return ATTN_OK;
}

/* Gathers the added tokens of one set. */
static attn_status gather(attn_tokenizer *t, const bool *raw, bool which, attn_prefixes *set,
                          attn_error *err) {
    const attn_pipeline *p = t->pipeline;
    attn_prefix *items = attn_arena_array(p->arena, p->added_count + 1, sizeof *items);
    size_t count = 0;
    ATTN_TAKEN(items, "the added tokens of a tokenizer", err);
    for (size_t i = 0; i < p->added_count; i++)
        if (raw[i] == which)
            items[count++] = (attn_prefix){p->added[i].match, p->added[i].match_size, i};
    const attn_prefix *twice = attn_prefixes_sort(set, items, count);
    if (twice)
        return attn_fail(err, ATTN_EVALUE, "added_tokens",
                         "two of them are found by the same text: %.*s",
                         (int)(twice->size < 60 ? twice->size : 60), twice->text);
    return ATTN_OK;
}

attn_status attn_pipeline_finish(attn_tokenizer *t, const bool *raw, attn_error *err) {
    attn_pipeline *p = t->pipeline;
    for (size_t i = 0; i < p->added_count; i++)
        ATTN_TRY(set_match(t, &p->added[i], raw[i], err));
    ATTN_TRY(gather(t, raw, true, &p->raw, err));
    ATTN_TRY(gather(t, raw, false, &p->normalised, err));
    find_bytes(t);
    if (t->kind != ATTN_TOKENS_BYTE_PAIRS && p->unknown < 0)
        return attn_fail(err, ATTN_EVALUE, "model/unk_token",
                         "expected the token of what is unknown in the vocabulary");
    t->specials[ATTN_SPECIAL_UNKNOWN] = p->unknown;
    return ATTN_OK;
}
