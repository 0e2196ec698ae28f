/* Encodes texts with the tokenizer of a known model: runs the pipeline, finds the bytes of the
 * original text that each token comes from, and puts the template around the tokens. */
#include <string.h>

#include "base/try.h"
#include "number/hash.h"
#include "tokens/character.h"
#include "tokens/pipeline.h"
#include "tokens/words.h"

/* --- words --- */

/* A word that was divided before. A word has its slot by its hash, and a newer word takes over the
 * slot. */
typedef struct seen {
    size_t begin, size;  /* bytes of the aligned text; size 0: the slot is free */
    size_t first, count; /* the tokens of the word */
} seen;

typedef struct cache {
    seen *slots;
    size_t slot_count; /* number of slots, a power of two */
} cache;

enum { MOST_SLOTS = 1 << 14, MOST_OF_WORD = 64 /* bytes of a word that is kept */ };

static bool divide(const attn_tokenizer *t, const char *word, size_t size, attn_found_list *found) {
    switch (t->kind) {
    case ATTN_TOKENS_WORDPIECE:
        return attn_wordpiece_divide(t, word, size, found);
    case ATTN_TOKENS_UNIGRAM:
        return attn_unigram_divide(t, word, size, found);
    default:
        return attn_pairs_divide(t, word, size, found);
    }
}

/* Adds the tokens of a word that was divided before. */
static bool repeat(const seen *s, size_t begin, attn_found_list *found) {
    if (!attn_found_reserve(found, s->count))
        return false;
    found->offset = begin;
    for (size_t i = s->first; i < s->first + s->count; i++) {
        const attn_found old = found->items[i];
        attn_found_add(found, old.id, old.begin - s->begin, old.end - s->begin);
    }
    return true;
}

static bool add_word(const attn_tokenizer *t, const attn_aligned *a, size_t begin, size_t size,
                     cache *c, attn_found_list *found) {
    const char *word = a->text + begin;
    const uint64_t hash = size <= MOST_OF_WORD ? attn_hash(ATTN_HASH_START, word, size) : 0;
    seen *s = &c->slots[(hash ^ hash >> 32) & (c->slot_count - 1)];
    if (s->size == size && !memcmp(a->text + s->begin, word, size))
        return repeat(s, begin, found);
    const size_t first = found->count;
    found->offset = begin;
    if (!divide(t, word, size, found))
        return false;
    if (size <= MOST_OF_WORD)
        *s = (seen){begin, size, first, found->count - first};
    return true;
}

static bool add_words(const attn_tokenizer *t, const attn_aligned *a, attn_found_list *found) {
    cache c = {.slot_count = 16};
    while (c.slot_count < MOST_SLOTS && 4 * c.slot_count < a->count)
        c.slot_count *= 2;
    c.slots = attn_arena_zeroed(found->arena, c.slot_count, sizeof *c.slots);
    if (!c.slots)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const attn_piece *piece = &a->pieces[i];
        const size_t size = piece->end - piece->begin;
        found->word = (int32_t)i;
        found->offset = 0;
        if (!(piece->id >= 0 ? attn_found_add(found, piece->id, piece->begin, piece->end)
                             : add_word(t, a, piece->begin, size, &c, found)))
            return false;
        if (piece->id >= 0)
            found->items[found->count - 1].added = true;
    }
    return true;
}

/* --- one text --- */

static bool run(const attn_tokenizer *t, const attn_string *text, attn_aligned *a,
                attn_found_list *found) {
    const attn_pipeline *p = t->pipeline;
    return attn_aligned_open(a, text->text, text->size, found->arena) &&
           attn_added_find(p, &p->raw, a) &&
           attn_steps_apply(p->normalisers, p->normaliser_count, a) &&
           attn_added_find(p, &p->normalised, a) &&
           attn_steps_apply(p->splitters, p->splitter_count, a) && add_words(t, a, found);
}

/* --- trimming --- */

/* Returns whether the character counts as a blank in the text of a token: "Ġ" (U+0120) is the
 * blank of byte-level tokens. */
static bool is_blank(int32_t c) {
    return c == 0x120 || attn_character_classes(c) & ATTN_IS_WHITE;
}

static size_t blanks_before(const char *text, size_t size) {
    size_t count = 0, n;
    for (size_t at = 0; at < size && is_blank(attn_character_read(text + at, &n)); at += n)
        count++;
    return count;
}

static size_t blanks_behind(const char *text, size_t size) {
    size_t count = 0, n;
    while (size) {
        size = attn_character_before(text, size);
        if (!is_blank(attn_character_read(text + size, &n)))
            break;
        count++;
    }
    return count;
}

/* Removes the blanks at both ends of a token's text from its byte range: as many characters of the
 * original text as there are blanks. */
static void trim(const attn_pipeline *p, const char *original, bool first, const char *text,
                 size_t size, attn_token *token) {
    size_t before = blanks_before(text, size), behind = blanks_behind(text, size), n;
    if ((first || !token->begin) && p->keeps_prefix && before == 1)
        before = 0;
    for (; before && token->begin < token->end; before--) {
        attn_character_read(original + token->begin, &n);
        token->begin += n;
    }
    size_t end = token->end;
    for (; behind && end; behind--)
        end = attn_character_before(original, end);
    if (!behind)
        token->end = end > token->begin ? end : token->begin;
}

/* --- tokens --- */

typedef struct encoded {
    attn_aligned aligned;
    attn_found_list found;
} encoded;

static attn_status encode_one(const attn_tokenizer *t, const attn_string *text, encoded *e,
                              attn_arena *arena, attn_error *err) {
    size_t at = 0, n;
    while ((n = attn_character_at(text->text, text->size, at)))
        at += n;
    if (at < text->size)
        return attn_fail(err, ATTN_EVALUE, "text", "expected UTF-8, byte %zu is not", at);
    if (text->size > INT32_MAX)
        return attn_fail_limit(err, "text", INT32_MAX, "expected at most 2 GiB, found %zu bytes",
                               text->size);
    e->found = (attn_found_list){.arena = arena};
    ATTN_TAKEN(run(t, text, &e->aligned, &e->found), "the tokens of a text", err);
    return ATTN_OK;
}

static void write_tokens(const attn_tokenizer *t, const encoded *e, const char *original,
                         int32_t segment, attn_token *out) {
    const attn_pipeline *p = t->pipeline;
    for (size_t i = 0; i < e->found.count; i++) {
        const attn_found *f = &e->found.items[i];
        const attn_entry *entry = &t->entries[f->id];
        out[i] = (attn_token){.text = entry->word,
                              .size = entry->size,
                              .begin = e->aligned.origins[f->begin].begin,
                              .end = e->aligned.origins[f->end - 1].end,
                              .id = f->id,
                              .word = f->word,
                              .segment = segment};
        if (p->trim)
            trim(p, original, !i, f->added ? e->aligned.text + f->begin : entry->word,
                 f->added ? f->end - f->begin : entry->size, &out[i]);
    }
}

/* The template of a tokenizer without special tokens. */
static const attn_template_item bare[] = {{ATTN_PART_FIRST, 0, 0}, {ATTN_PART_SECOND, 0, 1}};

attn_status attn_pipeline_encode(const attn_tokenizer *t, const attn_string texts[2],
                                 bool with_specials, attn_arena *arena, attn_token **tokens,
                                 size_t *count, attn_error *err) {
    const size_t text_count = texts[1].text ? 2 : 1;
    const attn_template *own = text_count == 2 ? &t->pipeline->two : &t->pipeline->one;
    const attn_template template = own->items ? *own : (attn_template){bare, text_count};
    encoded e[2];
    size_t total = 0, at = 0;
    for (size_t i = 0; i < text_count; i++)
        ATTN_TRY(encode_one(t, &texts[i], &e[i], arena, err));
    for (size_t i = 0; i < template.count; i++)
        total += template.items[i].part == ATTN_PART_TOKEN
                     ? with_specials
                     : e[template.items[i].part - ATTN_PART_FIRST].found.count;
    attn_token *list = attn_arena_zeroed(arena, total + 1, sizeof *list);
    ATTN_TAKEN(list, "the tokens of a text", err);
    for (size_t i = 0; i < template.count; i++) {
        const attn_template_item *item = &template.items[i];
        if (item->part != ATTN_PART_TOKEN) {
            const size_t which = item->part - ATTN_PART_FIRST;
            write_tokens(t, &e[which], texts[which].text, item->segment, list + at);
            at += e[which].found.count;
        } else if (with_specials) {
            const attn_entry *entry = &t->entries[item->id];
            list[at++] = (attn_token){.text = entry->word,
                                      .size = entry->size,
                                      .id = item->id,
                                      .word = -1,
                                      .segment = item->segment};
        }
    }
    *tokens = list;
    *count = total;
    return ATTN_OK;
}
