/* Decodes ids with the tokenizer of a known model: makes a list of the texts of tokens, rewrites it
 * with the decoders, and joins it. */
#include <string.h>

#include "tokens/character.h"
#include "tokens/pipeline.h"
#include "tokens/words.h"

static const char REPLACEMENT[] = "\xef\xbf\xbd"; /* U+FFFD */

static attn_string part(const char *text, size_t size) {
    return (attn_string){text, size};
}

static bool equals(const char *text, size_t size, const attn_string *x) {
    return size >= x->size && !memcmp(text, x->text, x->size);
}

/* Joins the list to one text. NULL: out of memory. */
static char *join(const attn_string *list, size_t count, size_t *size, attn_arena *arena) {
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        if (!attn_size_add(total, list[i].size, &total))
            return NULL;
    char *text = total < SIZE_MAX ? attn_arena_take(arena, total + 1) : NULL, *at = text;
    for (size_t i = 0; text && i < count; i++) {
        if (list[i].size)
            memcpy(at, list[i].text, list[i].size);
        at += list[i].size;
    }
    if (text)
        *at = 0;
    *size = total;
    return text;
}

/* --- bytes --- */

/* Returns the number of bytes that one U+FFFD replaces: an incomplete character, or a byte that no
 * character has (Unicode, "substitution of maximal subparts"). *open: the text ends within a
 * character. */
static size_t broken(const unsigned char *t, size_t size, bool *open) {
    const unsigned char first = t[0];
    const size_t whole = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    *open = false;
    if (first < 0xc2 || first > 0xf4)
        return 1;
    const unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    size_t n = 1;
    if (n < size && (t[1] < low || t[1] > high))
        return 1;
    while (n < whole && n < size && (t[n] & 0xc0) == 0x80)
        n++;
    *open = n == size;
    return n;
}

/* Makes UTF-8 from any bytes. If `open`, an incomplete character at the end is left out. NULL: out
 * of memory. */
static char *repair(const char *bytes, size_t size, bool open, size_t *made, attn_arena *arena) {
    size_t room;
    char *text =
        attn_size_mul(size, 3, &room) && room < SIZE_MAX ? attn_arena_take(arena, room + 1) : NULL;
    char *to = text;
    for (size_t at = 0, n; text && at < size; at += n) {
        bool ends;
        n = attn_character_at(bytes, size, at);
        if (n) {
            memcpy(to, bytes + at, n);
            to += n;
            continue;
        }
        n = broken((const unsigned char *)bytes + at, size - at, &ends);
        if (open && ends)
            break;
        memcpy(to, REPLACEMENT, 3);
        to += 3;
    }
    if (text) {
        *to = 0;
        *made = (size_t)(to - text);
    }
    return text;
}

size_t attn_bytes_of(const attn_string *token, char *out) {
    size_t count = 0, n;
    for (size_t at = 0; at < token->size; at += n) {
        const int byte = attn_character_byte(attn_character_read(token->text + at, &n));
        if (byte < 0) {
            memcpy(out, token->text, token->size);
            return token->size;
        }
        out[count++] = (char)byte;
    }
    return count;
}

bool attn_decode_bytes(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                       attn_arena *arena) {
    size_t size;
    char *bytes = join(list, *count, &size, arena), *to = bytes;
    (void)d;
    for (size_t i = 0; bytes && i < *count; i++)
        to += attn_bytes_of(&list[i], to);
    const char *text = bytes ? repair(bytes, (size_t)(to - bytes), open, &size, arena) : NULL;
    if (!text)
        return false;
    if (*count)
        list[0] = part(text, size);
    *count = *count ? 1 : 0;
    return true;
}

/* Returns the byte that a token such as "<0x0A>" stands for; -1: it stands for none. */
static int fallback_byte(const attn_string *token) {
    static const char digits[] = "0123456789abcdef";
    int value = 0;
    if (token->size != 6 || memcmp(token->text, "<0x", 3) || token->text[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        const char c = token->text[i], lower = (char)(c >= 'A' && c <= 'F' ? c | 0x20 : c);
        const char *digit = c ? strchr(digits, lower) : NULL;
        if (!digit)
            return -1;
        value = 16 * value + (int)(digit - digits);
    }
    return value;
}

/* Makes one text from consecutive tokens of bytes. If the bytes are not UTF-8, each becomes a
 * U+FFFD. */
static bool put_run(const attn_string *run, size_t count, attn_string *out, attn_arena *arena) {
    char *text = attn_arena_array(arena, count, 3);
    size_t at = 0, n;
    if (!text)
        return false;
    for (size_t i = 0; i < count; i++)
        text[i] = (char)fallback_byte(&run[i]);
    while ((n = attn_character_at(text, count, at)))
        at += n;
    for (size_t i = 0; at < count && i < count; i++)
        memcpy(text + 3 * i, REPLACEMENT, 3);
    *out = part(text, at < count ? 3 * count : count);
    return true;
}

bool attn_decode_fallback(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                          attn_arena *arena) {
    size_t kept = 0;
    (void)d;
    for (size_t i = 0, end; i < *count; i = end) {
        for (end = i; end < *count && fallback_byte(&list[end]) >= 0;)
            end++;
        if (end == i) {
            list[kept++] = list[end++];
            continue;
        }
        if (open && end == *count)
            break; /* more bytes may follow, so the run is not complete */
        if (!put_run(list + i, end - i, &list[kept++], arena))
            return false;
    }
    *count = kept;
    return true;
}

/* --- texts --- */

/* Replaces each `find` in `text` by `with`. The text of the result is NULL if memory runs out. */
static attn_string replaced(attn_string text, attn_string find, attn_string with,
                            attn_arena *arena) {
    size_t count = 0, room, at = 0;
    for (size_t i = 0; i + find.size <= text.size;)
        if (equals(text.text + i, text.size - i, &find)) {
            count++;
            i += find.size;
        } else {
            i++;
        }
    if (!count)
        return text;
    if (!attn_size_mul(count, with.size, &room) || !attn_size_add(room, text.size + 1, &room))
        return part(NULL, 0);
    char *made = attn_arena_small(arena, room);
    for (size_t i = 0; made && i < text.size;)
        if (equals(text.text + i, text.size - i, &find)) {
            if (with.size)
                memcpy(made + at, with.text, with.size);
            at += with.size;
            i += find.size;
        } else {
            made[at++] = text.text[i++];
        }
    return part(made, at);
}

bool attn_decode_replace(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                         attn_arena *arena) {
    (void)open;
    for (size_t i = 0; i < *count; i++) {
        list[i] = replaced(list[i], d->find, d->with, arena);
        if (!list[i].text)
            return false;
    }
    return true;
}

bool attn_decode_suffix(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                        attn_arena *arena) {
    (void)open;
    for (size_t i = 0; i < *count; i++) {
        const bool last = i + 1 == *count;
        list[i] = replaced(list[i], d->find, part(" ", last ? 0 : 1), arena);
        if (!list[i].text)
            return false;
    }
    return true;
}

/* Returns the text after the rules of BERT's decoder: no blanks before punctuation and shortened
 * words. */
static attn_string cleaned(attn_string text, attn_arena *arena) {
    static const char *const rules[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                           {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                           {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                           {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t i = 0; text.text && i < sizeof rules / sizeof *rules; i++)
        text = replaced(text, part(rules[i][0], strlen(rules[i][0])),
                        part(rules[i][1], strlen(rules[i][1])), arena);
    return text;
}

bool attn_decode_wordpiece(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                           attn_arena *arena) {
    (void)open;
    for (size_t i = 0; i < *count; i++) {
        const attn_string token = list[i];
        if (i && equals(token.text, token.size, &d->find)) {
            list[i] = part(token.text + d->find.size, token.size - d->find.size);
        } else if (i) {
            char *text = attn_arena_small(arena, token.size + 1);
            if (!text)
                return false;
            *text = ' ';
            memcpy(text + 1, token.text, token.size);
            list[i] = part(text, token.size + 1);
        }
        if (d->cleanup)
            list[i] = cleaned(list[i], arena);
        if (!list[i].text)
            return false;
    }
    return true;
}

bool attn_decode_metaspace(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                           attn_arena *arena) {
    (void)open;
    for (size_t i = 0; i < *count; i++) {
        list[i] = replaced(list[i], d->find, part(" ", !i && d->drop_first ? 0 : 1), arena);
        if (!list[i].text)
            return false;
    }
    return true;
}

bool attn_decode_fuse(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                      attn_arena *arena) {
    size_t size;
    const char *text = join(list, *count, &size, arena);
    (void)d;
    (void)open;
    if (!text)
        return false;
    list[0] = part(text, size);
    *count = 1;
    return true;
}

bool attn_decode_strip(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                       attn_arena *arena) {
    (void)arena;
    for (size_t i = 0; i < *count; i++) {
        attn_string *x = &list[i];
        for (size_t k = 0; k < d->start && equals(x->text, x->size, &d->find); k++)
            *x = part(x->text + d->find.size, x->size - d->find.size);
        for (size_t k = 0; k < d->stop && !(open && i + 1 == *count) && x->size >= d->find.size &&
                           equals(x->text + x->size - d->find.size, d->find.size, &d->find);
             k++)
            x->size -= d->find.size;
    }
    return true;
}

/* --- decoding --- */

const char *attn_pipeline_decode(const attn_tokenizer *t, const int32_t *ids, size_t count,
                                 bool open, attn_arena *arena) {
    const attn_pipeline *p = t->pipeline;
    attn_string *list = attn_arena_array(arena, 2 * (count + 1), sizeof *list);
    size_t kept = 0, size;
    for (size_t i = 0; list && i < count; i++) {
        if (!attn_tokenizer_token(t, ids[i]))
            continue; /* skip this id: a model may have more ids than its tokenizer */
        const attn_added *added = attn_added_of(p, ids[i]);
        if (added && added->special && !strcmp(added->match, t->entries[ids[i]].word))
            continue; /* the reference looks up the decoded text among special tokens */
        if (kept && p->joins_with_blanks)
            list[kept++] = part(" ", 1);
        list[kept++] = added ? part(added->match, added->match_size)
                             : part(t->entries[ids[i]].word, t->entries[ids[i]].size);
    }
    for (size_t i = 0; list && i < p->decoder_count; i++)
        if (!p->decoders[i].apply(&p->decoders[i], list, &kept, open, arena))
            return NULL;
    return list ? join(list, kept, &size, arena) : NULL;
}

static bool is_byte_level(const attn_pipeline *p) {
    for (size_t i = 0; p && i < p->decoder_count; i++)
        if (p->decoders[i].apply == attn_decode_bytes)
            return true;
    return false;
}

const char *attn_tokenizer_shown(const attn_tokenizer *t, const char *token, attn_arena *arena) {
    const attn_string name = {token, strlen(token)};
    if (!is_byte_level(t->pipeline))
        return token;
    char *text = attn_arena_small(arena, name.size + 1);
    if (!text)
        return NULL;
    const size_t size = attn_bytes_of(&name, text);
    for (size_t at = 0, n; at < size; at += n)
        if (!(n = attn_character_at(text, size, at)) || (unsigned char)text[at] < ' ')
            return token;
    text[size] = 0;
    return text;
}
