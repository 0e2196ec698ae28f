/* A vocabulary is a list of words and a hash table with open addressing that maps a word to its
 * index in the list. attn_vocabulary_settle sorts the list, and the index becomes the id. */
#include <stdlib.h>
#include <string.h>

#include "number/hash.h"
#include "text/vocabulary_private.h"

static const char *const specials[ATTN_SPECIALS] = {"<pad>", "<bos>", "<eos>", "<unk>"};

static size_t slot_of(const attn_vocabulary *v, const char *word, size_t n) {
    uint64_t hash = attn_hash(ATTN_HASH_START, word, n);
    size_t at = (size_t)(hash ^ hash >> 32) & (v->slot_count - 1);
    for (; v->slots[at]; at = (at + 1) & (v->slot_count - 1)) {
        const attn_entry *e = &v->entries[v->slots[at] - 1];
        if (e->size == n && !memcmp(e->word, word, n))
            break;
    }
    return at;
}

static bool rehash(attn_vocabulary *v, size_t slot_count) {
    uint32_t *slots = attn_alloc(slot_count * sizeof *slots);
    if (!slots)
        return false;
    memset(slots, 0, slot_count * sizeof *slots);
    attn_free(v->slots);
    v->slots = slots;
    v->slot_count = slot_count;
    for (size_t i = 0; i < v->length; i++)
        v->slots[slot_of(v, v->entries[i].word, v->entries[i].size)] = (uint32_t)i + 1;
    return true;
}

static bool grow(attn_vocabulary *v) {
    if (v->length < v->room)
        return true;
    size_t room = v->room ? 2 * v->room : 256;
    if (room > UINT32_MAX / 4)
        return false;
    attn_entry *entries = attn_alloc(room * sizeof *entries);
    if (!entries)
        return false;
    if (v->length)
        memcpy(entries, v->entries, v->length * sizeof *entries);
    attn_free(v->entries);
    v->entries = entries;
    v->room = room;
    return rehash(v, 2 * room);
}

bool attn_vocabulary_put(attn_vocabulary *v, const char *word, size_t n, size_t *place) {
    if (!grow(v))
        return false;
    size_t at = slot_of(v, word, n);
    if (!v->slots[at]) {
        char *copy = attn_alloc(n + 1);
        if (!copy)
            return false;
        memcpy(copy, word, n);
        copy[n] = 0;
        v->entries[v->length] = (attn_entry){copy, n, 0};
        v->slots[at] = (uint32_t)++v->length;
    }
    *place = v->slots[at] - 1;
    return true;
}

attn_vocabulary *attn_vocabulary_new(void) {
    attn_vocabulary *v = attn_alloc(sizeof *v);
    size_t place;
    if (!v)
        return NULL;
    *v = (attn_vocabulary){0};
    for (size_t i = 0; i < ATTN_SPECIALS; i++)
        if (!attn_vocabulary_put(v, specials[i], strlen(specials[i]), &place)) {
            attn_vocabulary_free(v);
            return NULL;
        }
    return v;
}

void attn_vocabulary_free(attn_vocabulary *v) {
    if (!v)
        return;
    for (size_t i = 0; i < v->length; i++)
        attn_free(v->entries[i].word);
    attn_merges_free(v->merges);
    attn_free(v->entries);
    attn_free(v->slots);
    attn_free(v);
}

attn_status attn_vocabulary_add(attn_vocabulary *v, const char *word, size_t n, attn_error *err) {
    size_t place;
    if (v->settled)
        return attn_fail(err, ATTN_EARG, "vocabulary", "it is settled and takes no more words");
    if (!n || memchr(word, '\n', n) || memchr(word, 0, n))
        return attn_fail(err, ATTN_EVALUE, "word",
                         "a word must not be empty nor have line breaks or NULs");
    if (!attn_vocabulary_put(v, word, n, &place))
        return attn_fail(err, ATTN_ENOMEM, "word", "no memory for %zu words", v->length + 1);
    v->entries[place].count++;
    return ATTN_OK;
}

static int by_count(const void *a, const void *b) {
    const attn_entry *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : strcmp(x->word, y->word);
}

attn_status attn_vocabulary_settle(attn_vocabulary *v, size_t minimum, size_t most,
                                   attn_error *err) {
    v->settled = true;
    qsort(v->entries + ATTN_SPECIALS, v->length - ATTN_SPECIALS, sizeof *v->entries, by_count);
    size_t keep = ATTN_SPECIALS;
    while (keep < v->length && v->entries[keep].count >= minimum &&
           (!most || keep < ATTN_SPECIALS + most))
        keep++;
    for (size_t i = keep; i < v->length; i++)
        attn_free(v->entries[i].word);
    v->length = keep;
    return rehash(v, v->slot_count) ? ATTN_OK
                                    : attn_fail(err, ATTN_ENOMEM, "vocabulary", "no memory");
}

size_t attn_vocabulary_size(const attn_vocabulary *v) {
    return v->length;
}

int32_t attn_vocabulary_id(const attn_vocabulary *v, const char *word, size_t n) {
    uint32_t found = v->slots[slot_of(v, word, n)];
    return found ? (int32_t)(found - 1) : ATTN_UNKNOWN;
}

const char *attn_vocabulary_word(const attn_vocabulary *v, int32_t id) {
    return id >= 0 && (size_t)id < v->length ? v->entries[id].word : NULL;
}

attn_status attn_vocabulary_write(const attn_vocabulary *v, attn_arena *arena, const char **text,
                                  attn_error *err) {
    size_t size = 1;
    for (size_t i = 0; i < v->length; i++)
        size += v->entries[i].size + 1;
    char *out = attn_arena_take(arena, size), *at = out;
    if (!out)
        return attn_fail(err, ATTN_ENOMEM, "vocabulary", "no memory for %zu bytes", size);
    for (size_t i = 0; i < v->length; i++) {
        memcpy(at, v->entries[i].word, v->entries[i].size);
        at += v->entries[i].size;
        *at++ = '\n';
    }
    *at = 0;
    *text = out;
    return ATTN_OK;
}

static attn_status read_line(attn_vocabulary *v, const char *word, size_t n, size_t line,
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
    if (!attn_vocabulary_put(v, word, n, &place))
        return attn_fail(err, ATTN_ENOMEM, "vocabulary", "no memory for %zu words", line + 1);
    if (place != line)
        return attn_fail(err, ATTN_EVALUE, "vocabulary", "line %zu repeats line %zu: %.60s",
                         line + 1, place + 1, v->entries[place].word);
    return ATTN_OK;
}

attn_status attn_vocabulary_read(const char *text, size_t size, attn_vocabulary **out,
                                 attn_error *err) {
    attn_vocabulary *v = attn_vocabulary_new();
    attn_status status =
        v ? ATTN_OK : attn_fail(err, ATTN_ENOMEM, "vocabulary", "no memory for a vocabulary");
    size_t line = 0;
    for (const char *end = text + size; !status && text < end; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((stop ? stop : end) - text);
        status = read_line(v, text, n, line, err);
        text += n + 1;
    }
    if (!status && line < ATTN_SPECIALS)
        status = attn_fail(err, ATTN_EVALUE, "vocabulary",
                           "has %zu lines, expected <pad>, <bos>, "
                           "<eos>, <unk> and the words",
                           line);
    if (status) {
        attn_vocabulary_free(v);
        return status;
    }
    v->settled = true;
    *out = v;
    return ATTN_OK;
}
