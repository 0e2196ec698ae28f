/* Splits texts into sub-words and joins sub-words to texts. Symbols are tokens of the tokenizer. A
 * unit is a word, or the text between two words. A single blank between words is no unit if
 * decoding writes it there anyway. */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "tokens/tokenizer.h"
#include "tokens/words.h"

static const char WORD_END[] = "</w>", NO_BLANK[] = "<join>", BLANK[] = "␣";

/* --- symbols --- */

size_t attn_character_size(const char *text) {
    const unsigned char c = (unsigned char)*text;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

size_t attn_symbol_name(const char *character, size_t n, bool last, char name[ATTN_SYMBOL_NAME]) {
    const bool blank = n == 1 && *character == ' ';
    return (size_t)snprintf(name, ATTN_SYMBOL_NAME, "%.*s%s", blank ? 3 : (int)n,
                            blank ? BLANK : character, last ? "" : "@@");
}

bool attn_symbol_can_be(const char *character, size_t n) {
    if (n == 1)
        return *character >= ' ' && *character != 0x7f && *character != '<' && *character != '@';
    return strncmp(character, BLANK, n) != 0;
}

size_t attn_symbol_join(const char *left, const char *right, char made[ATTN_SYMBOL_MOST]) {
    const size_t n = strlen(left) - 2, more = strlen(right);
    if (n + more >= ATTN_SYMBOL_MOST)
        return 0;
    memcpy(made, left, n);
    memcpy(made + n, right, more + 1);
    return n + more;
}

static size_t byte_name(unsigned byte, char name[ATTN_SYMBOL_NAME]) {
    return (size_t)snprintf(name, ATTN_SYMBOL_NAME, "<0x%02X>", byte);
}

bool attn_subword_symbols(attn_tokenizer *v) {
    char name[ATTN_SYMBOL_NAME];
    size_t place;
    bool made = attn_tokenizer_put(v, WORD_END, strlen(WORD_END), &place) &&
                attn_tokenizer_put(v, NO_BLANK, strlen(NO_BLANK), &place);
    for (unsigned b = 0; made && b < 256; b++)
        made = attn_tokenizer_put(v, name, byte_name(b, name), &place);
    return made;
}

/* --- merges --- */

static attn_status find_symbols(const attn_tokenizer *v, attn_merges *m, attn_error *err) {
    char name[ATTN_SYMBOL_NAME];
    m->word_end = attn_tokenizer_find(v, WORD_END, strlen(WORD_END));
    m->no_blank = attn_tokenizer_find(v, NO_BLANK, strlen(NO_BLANK));
    if (m->word_end < 0 || m->no_blank < 0)
        return attn_fail(err, ATTN_EVALUE, "merges", "the vocabulary lacks \"%s\" or \"%s\"",
                         WORD_END, NO_BLANK);
    m->first_byte = attn_tokenizer_find(v, name, byte_name(0, name));
    for (unsigned b = 0; b < 256; b++)
        if (m->first_byte < 0 ||
            attn_tokenizer_find(v, name, byte_name(b, name)) != m->first_byte + (int32_t)b)
            return attn_fail(err, ATTN_EVALUE, "merges",
                             "the vocabulary lacks \"%s\", or it does not follow the byte before",
                             name);
    return ATTN_OK;
}

attn_merges *attn_merges_room(size_t count) {
    attn_merges *m = attn_alloc(sizeof *m);
    size_t slot_count = 16, bytes;
    while (slot_count < 2 * count)
        slot_count *= 2;
    if (!m)
        return NULL;
    *m = (attn_merges){.slot_count = slot_count};
    m->items = attn_size_mul(count + 1, sizeof *m->items, &bytes) ? attn_alloc(bytes) : NULL;
    m->slots = attn_size_mul(slot_count, sizeof *m->slots, &bytes) ? attn_alloc(bytes) : NULL;
    if (!m->items || !m->slots) {
        attn_merges_free(m);
        return NULL;
    }
    memset(m->slots, 0, slot_count * sizeof *m->slots);
    return m;
}

attn_status attn_merges_new(attn_tokenizer *v, size_t count, attn_error *err) {
    attn_merges *m = attn_merges_room(count);
    ATTN_TAKEN(m, "the merges of a tokenizer", err);
    const attn_status status = find_symbols(v, m, err);
    if (status) {
        attn_merges_free(m);
        return status;
    }
    v->merges = m;
    v->kind = ATTN_TOKENS_SUBWORDS;
    return ATTN_OK;
}

/* Returns the slot of the merge of two symbols, or the free slot where it belongs. */
static size_t slot_of(const attn_merges *m, int32_t left, int32_t right) {
    size_t at = attn_symbols_hash(left, right) & (m->slot_count - 1);
    for (; m->slots[at]; at = (at + 1) & (m->slot_count - 1)) {
        const attn_merge *merge = &m->items[m->slots[at] - 1];
        if (merge->left == left && merge->right == right)
            break;
    }
    return at;
}

bool attn_merges_add(attn_merges *m, int32_t left, int32_t right, int32_t made) {
    const size_t at = slot_of(m, left, right);
    if (m->slots[at])
        return false;
    m->items[m->count] = (attn_merge){left, right, made};
    m->slots[at] = (uint32_t)++m->count;
    return true;
}

const attn_merge *attn_merges_find(const attn_merges *m, int32_t left, int32_t right) {
    const uint32_t slot = m->slots[slot_of(m, left, right)];
    return slot ? &m->items[slot - 1] : NULL;
}

static bool ends_open(const char *name) {
    const size_t n = strlen(name);
    return n > 2 && !strcmp(name + n - 2, "@@");
}

/* Returns whether the id belongs to a symbol that is spelt by its name: neither a special token nor
 * a byte, and neither "</w>" nor "<join>". */
static bool is_spelt(const attn_tokenizer *v, int32_t id) {
    const attn_merges *m = v->merges;
    return id >= 0 && !attn_tokenizer_is_special(v, id) && id != m->word_end && id != m->no_blank &&
           (id < m->first_byte || id >= m->first_byte + 256);
}

/* Adds the merge of one line. The line has two symbols; the first does not end a word, and their
 * joined names are the name of a symbol. Returns false for any other line, or if the merge is not
 * new. */
static bool read_merge(attn_tokenizer *v, const char *line, size_t n) {
    const char *blank = memchr(line, ' ', n);
    const size_t first = blank ? (size_t)(blank - line) : n;
    if (first + 1 >= n)
        return false;
    const int32_t left = attn_tokenizer_find(v, line, first),
                  right = attn_tokenizer_find(v, blank + 1, n - first - 1);
    char made[ATTN_SYMBOL_MOST];
    if (!is_spelt(v, left) || !is_spelt(v, right) || !ends_open(v->entries[left].word))
        return false;
    const size_t size = attn_symbol_join(v->entries[left].word, v->entries[right].word, made);
    const int32_t id = size ? attn_tokenizer_find(v, made, size) : -1;
    return is_spelt(v, id) && attn_merges_add(v->merges, left, right, id);
}

attn_status attn_tokenizer_read_merges(attn_tokenizer *v, const char *text, size_t size,
                                       attn_error *err) {
    size_t lines = 0, line = 0;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    if (v->kind != ATTN_TOKENS_WORDS || !v->settled)
        return attn_fail(err, ATTN_EARG, "merges", "the vocabulary has merges, or is not settled");
    attn_status status = attn_merges_new(v, lines + 1, err);
    for (const char *end = text + size; !status && text < end; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        const size_t n = (size_t)((stop ? stop : end) - text);
        if (!read_merge(v, text, n))
            status = attn_fail(err, ATTN_EVALUE, "merges",
                               "line %zu is no new merge of two symbols of the vocabulary: %.*s",
                               line + 1, (int)(n < 60 ? n : 60), text);
        text += n + 1;
    }
    if (status) {
        attn_merges_free(v->merges);
        v->merges = NULL;
        v->kind = ATTN_TOKENS_WORDS;
    }
    return status;
}

/* --- splitting --- */

/* A symbol with its byte range in the text. */
typedef struct piece {
    int32_t id;
    size_t begin, end;
    int32_t unit; /* index of its unit; add sets it */
} piece;

typedef struct pieces {
    const attn_tokenizer *v;
    piece *items; /* NULL: the pieces are only counted */
    size_t count;
    int32_t unit; /* index of the unit whose pieces are added */
} pieces;

static void add(pieces *p, int32_t id, size_t begin, size_t end) {
    if (p->items)
        p->items[p->count] = (piece){id, begin, end, p->unit};
    p->count++;
}

/* Applies the merges to n symbols and returns how many symbols are left. */
static size_t merge_all(const attn_merges *m, piece *symbols, size_t n) {
    for (;;) {
        uint32_t best = UINT32_MAX;
        for (size_t i = 0; i + 1 < n; i++) {
            const uint32_t at = m->slots[slot_of(m, symbols[i].id, symbols[i + 1].id)];
            best = at && at < best ? at : best;
        }
        if (best == UINT32_MAX)
            return n;
        const attn_merge *merge = &m->items[best - 1];
        size_t kept = 0;
        for (size_t i = 0; i < n; i++) {
            symbols[kept] = symbols[i];
            if (i + 1 < n && symbols[i].id == merge->left && symbols[i + 1].id == merge->right) {
                symbols[kept].id = merge->made;
                symbols[kept].end = symbols[++i].end;
            }
            kept++;
        }
        n = kept;
    }
}

/* Adds the symbols of the next chunk (ATTN_CHUNK) of a unit that ends at byte `end`. The chunk
 * begins at *at; *at is moved behind it. */
static void add_chunk(pieces *p, const char *text, size_t *at, size_t end) {
    const attn_merges *m = p->v->merges;
    piece symbols[4 * ATTN_CHUNK + 1];
    size_t n = 0;
    for (size_t i = 0; i < ATTN_CHUNK && *at < end; i++) {
        const size_t size = attn_character_size(text + *at), next = *at + size;
        char name[ATTN_SYMBOL_NAME];
        const size_t named = attn_symbol_name(text + *at, size, next == end, name);
        const int32_t id =
            attn_symbol_can_be(text + *at, size) ? attn_tokenizer_find(p->v, name, named) : -1;
        if (id >= 0)
            symbols[n++] = (piece){id, *at, next, 0};
        for (size_t b = *at; id < 0 && b < next; b++)
            symbols[n++] =
                (piece){m->first_byte + (unsigned char)text[b], b == *at ? b : next, next, 0};
        if (id < 0 && next == end)
            symbols[n++] = (piece){m->word_end, end, end, 0};
        *at = next;
    }
    n = merge_all(m, symbols, n);
    for (size_t i = 0; i < n; i++)
        add(p, symbols[i].id, symbols[i].begin, symbols[i].end);
}

static void add_characters(pieces *p, const char *text, size_t begin, size_t end) {
    while (begin < end)
        add_chunk(p, text, &begin, end);
    p->unit++;
}

/* Returns whether two neighbouring units are written without a blank between them. `left` is the
 * last byte of the first unit and `right` the first byte of the second one. A unit of blanks needs
 * no further blank. */
static bool is_tight(char left, char right, attn_language language) {
    if ((left >= 0 && left <= ' ') || (right >= 0 && right <= ' '))
        return true;
    return left == '\'' || left == '(' || strchr(".,)", right) ||
           (language == ATTN_ENGLISH && strchr(";:!?", right));
}

static void add_unit(pieces *p, const char *text, size_t begin, size_t end,
                     attn_language language) {
    if (begin && !is_tight(text[begin - 1], text[begin], language))
        add(p, p->v->merges->no_blank, begin, begin);
    add_characters(p, text, begin, end);
}

/* Returns whether the bytes [begin, end) between two words are the one blank that decoding writes
 * between these words anyway. */
static bool is_usual(const char *text, size_t begin, size_t end, size_t size,
                     attn_language language) {
    return begin && end < size && end == begin + 1 && text[begin] == ' ' &&
           !is_tight(text[begin - 1], text[end], language);
}

/* Adds the symbols of a text. Returns false at invalid UTF-8. */
static bool add_text(pieces *p, attn_word_cursor *c) {
    const char *text = c->text;
    size_t begin, end, last = 0;
    c->at = 0;
    while (attn_word_next(c, &begin, &end)) {
        const bool usual = is_usual(text, last, begin, c->size, c->language);
        if (begin > last && !usual)
            add_unit(p, text, last, begin, c->language);
        if (usual)
            add_characters(p, text, begin, end);
        else
            add_unit(p, text, begin, end, c->language);
        last = end;
    }
    if (c->at == c->size && last < c->size)
        add_unit(p, text, last, c->size, c->language);
    return c->at == c->size;
}

attn_status attn_subwords_encode(const attn_tokenizer *t, const char *text, size_t size,
                                 attn_arena *arena, attn_token **tokens, size_t *count,
                                 attn_error *err) {
    attn_word_cursor c = {text, size, 0, t->language};
    pieces p = {.v = t};
    if (!add_text(&p, &c))
        return attn_fail(err, ATTN_EVALUE, "text", "expected UTF-8, byte %zu is not", c.at);
    const size_t total = p.count;
    attn_token *list = attn_arena_zeroed(arena, total + 1, sizeof *list);
    p = (pieces){.v = t, .items = attn_arena_zeroed(arena, total + 1, sizeof *p.items)};
    ATTN_TAKEN(list && p.items, "the sub-words of a text", err);
    add_text(&p, &c);
    for (size_t i = 0; i < total; i++) {
        const piece *from = &p.items[i];
        const attn_entry *e = &t->entries[from->id];
        list[i] = (attn_token){.text = e->word,
                               .size = e->size,
                               .begin = from->begin,
                               .end = from->end,
                               .id = from->id,
                               .word = from->unit};
    }
    *tokens = list;
    *count = total;
    return ATTN_OK;
}

attn_status attn_tokenizer_count_text(attn_tokenizer *t, const char *text, size_t size,
                                      attn_error *err) {
    attn_word_cursor c = {text, size, 0, t->language};
    size_t begin, end;
    while (attn_word_next(&c, &begin, &end))
        ATTN_TRY(attn_tokenizer_count(t, text + begin, end - begin, err));
    if (c.at < size)
        return attn_fail(err, ATTN_EVALUE, "text", "expected UTF-8, byte %zu is not", c.at);
    return ATTN_OK;
}

/* --- joining --- */

/* The text that symbols are decoded to. */
typedef struct joined {
    char *data;
    size_t size;
    attn_language language;
    bool begins;   /* the next byte begins a unit */
    bool no_blank; /* no blank is put before the next byte */
} joined;

static void put_bytes(joined *j, const char *bytes, size_t n) {
    if (j->begins && n && j->size && !j->no_blank &&
        !is_tight(j->data[j->size - 1], *bytes, j->language))
        j->data[j->size++] = ' ';
    if (n)
        j->begins = j->no_blank = false;
    memcpy(j->data + j->size, bytes, n);
    j->size += n;
}

/* Adds the characters of a symbol's name, in which "␣" is a blank. */
static void put_name(joined *j, const char *name, size_t n) {
    for (size_t at = 0; at < n;) {
        const size_t whole = attn_character_size(name + at), size = whole < n - at ? whole : n - at;
        const bool blank = !strncmp(name + at, BLANK, strlen(BLANK));
        put_bytes(j, blank ? " " : name + at, blank ? 1 : size);
        at += size;
    }
}

static void put_symbol(joined *j, const attn_tokenizer *v, int32_t id) {
    const attn_merges *m = v->merges;
    const char *name = v->entries[id].word;
    const size_t n = v->entries[id].size;
    if (attn_tokenizer_is_special(v, id))
        return;
    if (id == m->no_blank) {
        j->no_blank = true;
    } else if (id == m->word_end) {
        j->begins = true;
    } else if (id >= m->first_byte && id < m->first_byte + 256) {
        put_bytes(j, (char[]){(char)(id - m->first_byte)}, 1);
    } else {
        const bool open = ends_open(name);
        put_name(j, name, open ? n - 2 : n);
        j->begins = !open;
    }
}

/* Returns whether the n bytes are the beginning of a longer UTF-8 character. */
static bool may_begin(const char *bytes, size_t n) {
    const unsigned char first = (unsigned char)*bytes;
    if (first < 0xc2 || first > 0xf4 || n >= attn_character_size(bytes))
        return false;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)bytes[i] & 0xc0) != 0x80)
            return false;
    return true;
}

/* Copies the decoded bytes to `out` with a NUL after them. A byte that is no UTF-8 becomes U+FFFD.
 * If `open`, an incomplete character at the end is left out (attn_tokenizer_decode). `out` has 3
 * bytes for each decoded byte, and one for the NUL. */
static void repair(const joined *j, bool open, char *out) {
    for (size_t at = 0; at < j->size;) {
        const size_t n = attn_character_at(j->data, j->size, at);
        if (!n && open && may_begin(j->data + at, j->size - at))
            break;
        memcpy(out, n ? j->data + at : "\xef\xbf\xbd", n ? n : 3);
        out += n ? n : 3;
        at += n ? n : 1;
    }
    *out = 0;
}

const char *attn_subwords_decode(const attn_tokenizer *t, const int32_t *ids, size_t count,
                                 bool open, attn_arena *arena) {
    size_t most = 0;
    for (size_t i = 0; i < count; i++)
        most += t->entries[ids[i]].size + 1;
    joined j = {.data = attn_arena_take(arena, most + 1), .language = t->language, .begins = true};
    char *out = j.data ? attn_arena_take(arena, 3 * most + 1) : NULL;
    for (size_t i = 0; out && i < count; i++)
        put_symbol(&j, t, ids[i]);
    if (out)
        repair(&j, open, out);
    return out;
}
