/* The tokens of a tokenizer: a list and a hash table with open addressing that maps a token to its
 * index in the list. attn_tokenizer_settle sorts the list, and the index becomes the id. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "number/hash.h"
#include "tokens/tokenizer.h"

const char *const attn_language_names[] = {"english", "french", NULL};
const char *const attn_special_names[ATTN_SPECIALS] = {"pad", "begin", "end", "unknown"};
/* The texts of the special tokens. Their ids are 0 to 3 in the tokenizers that this file makes. */
static const char *const specials[ATTN_SPECIALS] = {"<pad>", "<bos>", "<eos>", "<unk>"};

bool attn_language_parse(const char *name, attn_language *out) {
    for (int i = 0; attn_language_names[i]; i++)
        if (!strcmp(name, attn_language_names[i])) {
            *out = (attn_language)i;
            return true;
        }
    return false;
}

/* --- the list of tokens --- */

static size_t slot_of(const attn_tokenizer *t, const char *word, size_t n) {
    uint64_t hash = attn_hash(ATTN_HASH_START, word, n);
    size_t at = (size_t)(hash ^ hash >> 32) & (t->slot_count - 1);
    for (; t->slots[at]; at = (at + 1) & (t->slot_count - 1)) {
        const attn_entry *e = &t->entries[t->slots[at] - 1];
        if (e->size == n && !memcmp(e->word, word, n))
            break;
    }
    return at;
}

static bool rehash(attn_tokenizer *t, size_t slot_count) {
    uint32_t *slots = attn_alloc(slot_count * sizeof *slots);
    if (!slots)
        return false;
    memset(slots, 0, slot_count * sizeof *slots);
    attn_free(t->slots);
    t->slots = slots;
    t->slot_count = slot_count;
    for (size_t i = 0; i < t->length; i++)
        t->slots[slot_of(t, t->entries[i].word, t->entries[i].size)] = (uint32_t)i + 1;
    return true;
}

static bool grow(attn_tokenizer *t) {
    if (t->length < t->room)
        return true;
    size_t room = t->room ? 2 * t->room : 256;
    if (room > UINT32_MAX / 4)
        return false;
    attn_entry *entries = attn_alloc(room * sizeof *entries);
    if (!entries)
        return false;
    if (t->length)
        memcpy(entries, t->entries, t->length * sizeof *entries);
    attn_free(t->entries);
    t->entries = entries;
    t->room = room;
    return rehash(t, 2 * room);
}

bool attn_tokenizer_put(attn_tokenizer *t, const char *word, size_t n, size_t *place) {
    if (!grow(t))
        return false;
    size_t at = slot_of(t, word, n);
    if (!t->slots[at]) {
        char *copy = attn_alloc(n + 1);
        if (!copy)
            return false;
        memcpy(copy, word, n);
        copy[n] = 0;
        t->entries[t->length] = (attn_entry){copy, n, 0};
        t->slots[at] = (uint32_t)++t->length;
    }
    *place = t->slots[at] - 1;
    return true;
}

attn_tokenizer *attn_tokenizer_empty(attn_tokenizer_kind kind, attn_language language) {
    attn_tokenizer *t = (unsigned)language <= ATTN_FRENCH ? attn_alloc(sizeof *t) : NULL;
    if (t)
        *t = (attn_tokenizer){.kind = kind, .language = language};
    for (int i = 0; t && i < ATTN_SPECIALS; i++)
        t->specials[i] = i;
    return t;
}

attn_tokenizer *attn_tokenizer_new(attn_language language) {
    attn_tokenizer *t = attn_tokenizer_empty(ATTN_TOKENS_WORDS, language);
    size_t place;
    for (size_t i = 0; t && i < ATTN_SPECIALS; i++)
        if (!attn_tokenizer_put(t, specials[i], strlen(specials[i]), &place)) {
            attn_tokenizer_free(t);
            return NULL;
        }
    return t;
}

attn_tokenizer *attn_tokenizer_numbers(size_t size, attn_language language) {
    attn_tokenizer *t = attn_tokenizer_empty(ATTN_TOKENS_NUMBERS, language);
    if (t)
        t->length = size, t->settled = true;
    return t;
}

void attn_merges_free(attn_merges *m) {
    if (!m)
        return;
    attn_free(m->items);
    attn_free(m->slots);
    attn_free(m);
}

void attn_tokenizer_free(attn_tokenizer *t) {
    if (!t)
        return;
    for (size_t i = 0; t->entries && i < t->length; i++)
        attn_free(t->entries[i].word);
    attn_merges_free(t->merges);
    attn_arena_free(t->arena);
    attn_free(t->entries);
    attn_free(t->slots);
    attn_free(t);
}

attn_status attn_tokenizer_count(attn_tokenizer *t, const char *word, size_t n, attn_error *err) {
    size_t place;
    if (t->settled)
        return attn_fail(err, ATTN_EARG, "vocabulary", "it is settled and takes no more words");
    if (!n || memchr(word, '\n', n) || memchr(word, 0, n))
        return attn_fail(err, ATTN_EVALUE, "word",
                         "a word must not be empty nor have line breaks or NULs");
    ATTN_TAKEN(attn_tokenizer_put(t, word, n, &place), "the words of a vocabulary", err);
    t->entries[place].count++;
    return ATTN_OK;
}

static int by_count(const void *a, const void *b) {
    const attn_entry *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : strcmp(x->word, y->word);
}

attn_status attn_tokenizer_settle(attn_tokenizer *t, size_t minimum, size_t most, attn_error *err) {
    if (t->settled)
        return attn_fail(err, ATTN_EARG, "vocabulary", "it is settled already");
    t->settled = true;
    qsort(t->entries + ATTN_SPECIALS, t->length - ATTN_SPECIALS, sizeof *t->entries, by_count);
    size_t keep = ATTN_SPECIALS;
    while (keep < t->length && t->entries[keep].count >= minimum &&
           (!most || keep < ATTN_SPECIALS + most))
        keep++;
    for (size_t i = keep; i < t->length; i++)
        attn_free(t->entries[i].word);
    t->length = keep;
    return rehash(t, t->slot_count) ? ATTN_OK
                                    : attn_fail(err, ATTN_ENOMEM, "vocabulary", "no memory");
}

/* --- use --- */

attn_tokenizer_kind attn_tokenizer_kind_of(const attn_tokenizer *t) {
    return t->kind;
}

bool attn_tokenizer_has_texts(const attn_tokenizer *t) {
    return t->kind != ATTN_TOKENS_NUMBERS;
}

attn_language attn_tokenizer_language(const attn_tokenizer *t) {
    return t->language;
}

size_t attn_tokenizer_size(const attn_tokenizer *t) {
    return t->length;
}

size_t attn_tokenizer_bytes(const attn_tokenizer *t) {
    size_t bytes = sizeof *t + t->slot_count * sizeof *t->slots;
    if (t->entries)
        bytes += t->room * sizeof *t->entries;
    for (size_t i = 0; t->entries && i < t->length; i++)
        bytes += t->entries[i].size + 1;
    if (t->merges)
        bytes += sizeof *t->merges + t->merges->count * sizeof *t->merges->items +
                 t->merges->slot_count * sizeof *t->merges->slots;
    return bytes + (t->arena ? attn_arena_used(t->arena) : 0);
}

int32_t attn_tokenizer_special(const attn_tokenizer *t, attn_special special) {
    return t->specials[special];
}

void attn_tokenizer_set_special(attn_tokenizer *t, attn_special special, int32_t id) {
    t->specials[special] = id;
}

bool attn_tokenizer_is_special(const attn_tokenizer *t, int32_t id) {
    for (size_t i = 0; i < ATTN_SPECIALS; i++)
        if (t->specials[i] == id)
            return true;
    return false;
}

int32_t attn_tokenizer_find(const attn_tokenizer *t, const char *token, size_t n) {
    return t->slots ? (int32_t)t->slots[slot_of(t, token, n)] - 1 : -1;
}

int32_t attn_tokenizer_id(const attn_tokenizer *t, const char *token, size_t n) {
    const int32_t id = attn_tokenizer_find(t, token, n);
    return id >= 0 ? id : t->specials[ATTN_SPECIAL_UNKNOWN];
}

const char *attn_tokenizer_token(const attn_tokenizer *t, int32_t id) {
    return t->entries && id >= 0 && (size_t)id < t->length ? t->entries[id].word : NULL;
}

/* --- as text --- */

/* Writes a line for each token, in the order of ids. NULL: no memory. */
static const char *write_tokens(const attn_tokenizer *t, attn_arena *arena) {
    size_t size = 1;
    for (size_t i = 0; i < t->length; i++)
        size += t->entries[i].size + 1;
    char *out = attn_arena_take(arena, size), *at = out;
    for (size_t i = 0; out && i < t->length; i++)
        at += sprintf(at, "%s\n", t->entries[i].word);
    return out;
}

/* Writes a line for each merge, in the order in which merges are applied. NULL: no memory. */
static const char *write_merges(const attn_tokenizer *t, attn_arena *arena) {
    const attn_merges *m = t->merges;
    size_t size = 1;
    for (size_t i = 0; i < m->count; i++)
        size += t->entries[m->items[i].left].size + t->entries[m->items[i].right].size + 2;
    char *out = attn_arena_take(arena, size), *at = out;
    if (out)
        *out = 0;
    for (size_t i = 0; out && i < m->count; i++)
        at += sprintf(at, "%s %s\n", t->entries[m->items[i].left].word,
                      t->entries[m->items[i].right].word);
    return out;
}

attn_status attn_tokenizer_write(const attn_tokenizer *t, attn_arena *arena, const char **tokens,
                                 const char **merges, attn_error *err) {
    if (!t->entries)
        return attn_fail(err, ATTN_EARG, "tokenizer", "its ids are numbers without texts");
    *tokens = write_tokens(t, arena);
    *merges = t->merges ? write_merges(t, arena) : NULL;
    return *tokens && (*merges || !t->merges)
               ? ATTN_OK
               : attn_fail(err, ATTN_ENOMEM, "tokenizer", "no memory for %zu tokens", t->length);
}

static attn_status read_line(attn_tokenizer *t, const char *word, size_t n, size_t line,
                             attn_error *err) {
    size_t place;
    if (!n)
        return attn_fail(err, ATTN_EVALUE, "vocabulary", "line %zu is empty", line + 1);
    if (line < ATTN_SPECIALS) {
        if (strlen(specials[line]) != n || memcmp(word, specials[line], n))
            return attn_fail(err, ATTN_EVALUE, "vocabulary", "line %zu must be %s", line + 1,
                             specials[line]);
        return ATTN_OK;
    }
    if (memchr(word, 0, n))
        return attn_fail(err, ATTN_EVALUE, "vocabulary", "line %zu has a NUL", line + 1);
    ATTN_TAKEN(attn_tokenizer_put(t, word, n, &place), "the words of a vocabulary", err);
    if (place != line)
        return attn_fail(err, ATTN_EVALUE, "vocabulary", "line %zu repeats line %zu: %.60s",
                         line + 1, place + 1, t->entries[place].word);
    return ATTN_OK;
}

/* Ends the reading of a tokenizer: stores it in *out, or frees it if `status` is an error. */
static attn_status end_reading(attn_tokenizer *t, attn_status status, attn_tokenizer **out) {
    if (status) {
        attn_tokenizer_free(t);
        return status;
    }
    t->settled = true;
    *out = t;
    return ATTN_OK;
}

static attn_status begin_reading(attn_language language, attn_tokenizer **out, attn_error *err) {
    *out = attn_tokenizer_new(language);
    return *out ? ATTN_OK : attn_no_memory(err, "a vocabulary");
}

attn_status attn_tokenizer_read(const char *tokens, size_t size, attn_language language,
                                attn_tokenizer **out, attn_error *err) {
    attn_tokenizer *t;
    attn_status status = begin_reading(language, &t, err);
    size_t line = 0;
    for (const char *text = tokens, *end = text + size; !status && text < end; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((stop ? stop : end) - text);
        status = read_line(t, text, n, line, err);
        text += n + 1;
    }
    if (!status && line < ATTN_SPECIALS)
        status = attn_fail(err, ATTN_EVALUE, "vocabulary",
                           "has %zu lines, expected <pad>, <bos>, "
                           "<eos>, <unk> and the words",
                           line);
    return end_reading(t, status, out);
}

/* Adds word i of a list to a tokenizer that has the i words before it. */
static attn_status add_word(attn_tokenizer *t, const char *word, size_t i, attn_error *err) {
    char where[24];
    size_t place;
    snprintf(where, sizeof where, "%zu", i);
    if (!*word || strchr(word, '\n'))
        return attn_fail(err, ATTN_EVALUE, where,
                         "expected a word that is neither empty nor has line breaks");
    ATTN_TAKEN(attn_tokenizer_put(t, word, strlen(word), &place), "the words of a vocabulary", err);
    if (place < ATTN_SPECIALS)
        return attn_fail(err, ATTN_EVALUE, where, "%s is a special token, which is there anyway",
                         word);
    if (place != ATTN_SPECIALS + i)
        return attn_fail(err, ATTN_EVALUE, where, "repeats the word at index %zu: %.60s",
                         place - ATTN_SPECIALS, word);
    return ATTN_OK;
}

attn_status attn_tokenizer_of(const char *const *words, size_t count, attn_language language,
                              attn_tokenizer **out, attn_error *err) {
    attn_tokenizer *t;
    attn_status status = begin_reading(language, &t, err);
    for (size_t i = 0; !status && i < count; i++)
        status = add_word(t, words[i], i, err);
    return end_reading(t, status, out);
}
