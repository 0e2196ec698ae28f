/* The texts of a run: read and written as JSON (FORMAT.md), and the labels of a site from them. */
#include "runs/texts.h"
#include "base/try.h"

#include <attn/text.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* --- offsets --- */

/* Units of offsets. Requests about models have the same words. */
static const char *const offset_units[] = {"bytes", "codepoints", "utf16", NULL};
enum { BYTES, CODEPOINTS, UTF16, MARK = 64 };

/* Converts offsets in a unit to offsets in bytes. */
typedef struct offset_map {
    const char *text; /* NULL: there is no text, and offsets are in bytes */
    size_t unit;      /* BYTES, CODEPOINTS or UTF16 */
    size_t length;    /* length of the text in units */
    /* marks[k] is the first character at or behind unit k * MARK. Not used for BYTES. */
    struct offset_mark {
        size_t at, byte; /* offset of the character in units and in bytes */
    } * marks;
} offset_map;

static bool begins_character(char c) {
    return ((unsigned char)c & 0xC0) != 0x80;
}

static size_t units_of(char first, size_t unit) {
    return unit == UTF16 && (unsigned char)first >= 0xF0 ? 2 : 1;
}

/* Sets the marks and the length. `marks` must have one element for each MARK bytes of the text, and
 * one more. */
static void mark_units(offset_map *m) {
    const size_t bytes = strlen(m->text);
    size_t at = 0, marks = 0;
    for (size_t byte = 0; byte < bytes; byte++) {
        if (!begins_character(m->text[byte]))
            continue;
        if (at >= marks * MARK)
            m->marks[marks++] = (struct offset_mark){at, byte};
        at += units_of(m->text[byte], m->unit);
    }
    if (at >= marks * MARK)
        m->marks[marks] = (struct offset_mark){at, bytes};
    m->length = at;
}

/* Converts an offset to bytes. Returns false if the offset is outside of the text or within a
 * character. */
static bool find_byte(const offset_map *m, int64_t offset, size_t *byte) {
    const size_t wanted = (size_t)offset;
    *byte = wanted;
    if (wanted > m->length)
        return false;
    if (!m->text || m->unit == BYTES)
        return !m->text || begins_character(m->text[wanted]);
    struct offset_mark at = m->marks[wanted / MARK];
    while (at.at < wanted) {
        at.at += units_of(m->text[at.byte++], m->unit);
        while (!begins_character(m->text[at.byte]))
            at.byte++;
    }
    *byte = at.byte;
    return at.at == wanted;
}

/* Reads the offsets [from, to] of a token, as bytes. Returns false if `pair` is no valid pair of
 * offsets within the text. */
static bool read_span(const attn_json *pair, const offset_map *map, size_t span[2]) {
    int64_t from, to;
    return pair->kind == ATTN_JSON_LIST && pair->count == 2 &&
           attn_json_integer(pair->first, 0, (int64_t)map->length, &from) &&
           attn_json_integer(pair->first->next, from, (int64_t)map->length, &to) &&
           find_byte(map, from, &span[0]) && find_byte(map, to, &span[1]);
}

/* Reads offset_unit and prepares the conversion of offsets. */
static void read_unit(attn_run_reader *r, const attn_json *unit, const char *text,
                      offset_map *out) {
    const int found = unit ? attn_run_word(unit, offset_units) : BYTES;
    *out = (offset_map){.text = text, .length = text ? strlen(text) : SIZE_MAX >> 1};
    if (found < 0)
        attn_run_refuse(r, ATTN_EARG, "offset_unit", "expected bytes, codepoints or utf16");
    if (found <= BYTES)
        return;
    out->unit = (size_t)found;
    if (!text)
        attn_run_refuse(r, ATTN_EARG, "offset_unit", "it needs text, from which bytes are counted");
    out->marks = attn_run_take(r, out->length / MARK, sizeof *out->marks);
    if (out->marks)
        mark_units(out);
}

/* --- reading --- */

/* Checks that `list` has one element for each token of the text. Returns zeroed memory for as many
 * elements of `size` bytes. NULL: r->status is an error. */
static void *take_list(attn_run_reader *r, const attn_json *list, const attn_run_text *text,
                       const char *member, const char *what, size_t size) {
    if (list->kind != ATTN_JSON_LIST || list->count != text->count)
        attn_run_refuse(r, ATTN_EARG, member, "expected a list with %s for each token", what);
    return attn_run_take(r, text->count, size);
}

static void read_tokens(attn_run_reader *r, const attn_json *list, attn_run_text *out) {
    if (!list || list->kind != ATTN_JSON_LIST) {
        attn_run_refuse(r, ATTN_EARG, "tokens", "expected a list of strings");
        return;
    }
    const char **tokens = attn_run_take(r, list->count, sizeof *tokens);
    for (const attn_json *v = list->first; v && tokens && !r->status; v = v->next)
        if (v->kind == ATTN_JSON_STRING)
            tokens[out->count++] = v->text;
        else
            attn_run_refuse(r, ATTN_EARG, "tokens", "expected strings only");
    out->tokens = tokens;
}

static void read_ids(attn_run_reader *r, const attn_json *list, attn_run_text *out) {
    int64_t *ids = take_list(r, list, out, "ids", "an integer", sizeof *ids), *at = ids;
    for (const attn_json *v = list->first; v && ids && !r->status; v = v->next)
        if (!attn_json_integer(v, INT64_MIN, INT64_MAX, at++))
            attn_run_refuse(r, ATTN_EARG, "ids", "expected integers only");
    out->ids = ids;
}

static void read_offsets(attn_run_reader *r, const attn_json *list, const attn_json *unit,
                         attn_run_text *out) {
    offset_map map;
    size_t n = 0;
    read_unit(r, unit, out->text, &map);
    if (!list)
        return;
    size_t(*spans)[2] = take_list(r, list, out, "offsets", "[from, to]", sizeof *spans);
    for (const attn_json *v = list->first; v && spans && !r->status; v = v->next)
        if (!read_span(v, &map, spans[n++]))
            attn_run_refuse(r, ATTN_EARG, "offsets",
                            "expected [from, to] with 0 <= from <= to <= the length of text, and "
                            "neither within a character; say offset_unit if they count codepoints "
                            "or utf16 and not bytes");
    out->offsets = (const size_t(*)[2])spans;
}

static void read_special(attn_run_reader *r, const attn_json *list, attn_run_text *out) {
    int64_t index;
    if (list->kind != ATTN_JSON_LIST)
        attn_run_refuse(r, ATTN_EARG, "special", "expected a list of numbers");
    uint8_t *special = attn_run_take(r, out->count, 1);
    for (const attn_json *v = list->first; v && special && !r->status; v = v->next)
        if (attn_json_integer(v, 0, (int64_t)out->count - 1, &index))
            special[index] = 1;
        else
            attn_run_refuse(r, ATTN_EARG, "special", "expected numbers of tokens, counted from 0");
    out->special = special;
}

static const attn_input text_row = {
    .name = "text", .type = ATTN_INPUT_TEXT, .offset = offsetof(attn_run_text, text)};

static void read_text(attn_run_reader *r, attn_json *object) {
    attn_run_text *out = &r->run->texts[r->index];
    if (object->kind != ATTN_JSON_OBJECT) {
        attn_run_refuse(r, ATTN_EARG, "", "expected an object with tokens");
        return;
    }
    const attn_json *ids = attn_json_member(object, "ids");
    const attn_json *offsets = attn_json_member(object, "offsets");
    const attn_json *unit = attn_json_member(object, "offset_unit");
    const attn_json *special = attn_json_member(object, "special");
    attn_run_read_row(r, object, "", &text_row, out);
    read_tokens(r, attn_json_member(object, "tokens"), out);
    if (ids)
        read_ids(r, ids, out);
    if (offsets || unit)
        read_offsets(r, offsets, unit, out);
    if (special)
        read_special(r, special, out);
    attn_run_refuse_unknown(r, object, "");
}

void attn_run_read_texts(attn_run_reader *r, const attn_json *list) {
    attn_run *run = r->run;
    attn_run_reader inner = *r;
    if (!list || !attn_run_expect(r, list, ATTN_JSON_LIST, "texts", "a list of texts") ||
        !(run->texts = attn_run_take(r, list->count, sizeof *run->texts)))
        return;
    run->text_count = list->count;
    for (attn_json *text = list->first; text && !inner.status; text = text->next, inner.index++) {
        snprintf(inner.at, sizeof inner.at, "texts/%zu", inner.index);
        read_text(&inner, text);
    }
    r->status = inner.status;
}

/* --- writing --- */

static void write_offsets(attn_json_text *t, const attn_run_text *text) {
    if (!text->offsets)
        return;
    attn_json_key_array(t, "offsets");
    for (size_t i = 0; i < text->count; i++) {
        attn_json_array(t);
        attn_json_int(t, (int64_t)text->offsets[i][0]);
        attn_json_int(t, (int64_t)text->offsets[i][1]);
        attn_json_array_end(t);
    }
    attn_json_array_end(t);
}

static void write_special(attn_json_text *t, const attn_run_text *text) {
    if (!text->special)
        return;
    attn_json_key_array(t, "special");
    for (size_t i = 0; i < text->count; i++)
        if (text->special[i])
            attn_json_int(t, (int64_t)i);
    attn_json_array_end(t);
}

void attn_run_write_text_list(attn_json_text *t, const attn_run_text *texts, size_t count) {
    attn_json_key_array(t, "texts");
    for (const attn_run_text *text = texts; text < texts + count; text++) {
        attn_json_object(t);
        attn_run_write_texts(t, "tokens", text->tokens, text->count);
        attn_run_write_integers(t, "ids", text->ids, text->count);
        attn_run_write_text(t, "text", text->text);
        write_offsets(t, text);
        write_special(t, text);
        attn_json_object_end(t);
    }
    attn_json_array_end(t);
}

/* --- the texts of a site --- */

/* The members of a site's info that describe its queries, or those that describe its keys. */
typedef struct side {
    const char *member, *lengths_member; /* names of members in the JSON text */
    const size_t *texts;                 /* [count] indices of texts; NULL: none */
    size_t count;
    const int64_t *lengths; /* [B] or NULL */
    size_t start;           /* index in the text of the token that is the first query or key */
    size_t each;            /* number of queries, L, or of keys, S */
} side;

static side queries_of(const attn_run_site_info *info, const attn_attention_dims *d) {
    return (side){"query_text",
                  "query_lengths",
                  info->query_texts,
                  info->query_text_count,
                  info->query_lengths,
                  info->query_start,
                  d->L};
}

static side keys_of(const attn_run_site_info *info, const attn_attention_dims *d) {
    return (side){
        "key_text",      "key_lengths", info->key_texts, info->key_text_count, info->key_lengths,
        info->key_start, d->S};
}

/* Checks that each text has a token for each query or key before padding. */
static attn_status check_side(const side *s, size_t B, const attn_run_text *texts,
                              size_t text_count, size_t index, attn_error *err) {
    char where[48];
    snprintf(where, sizeof where, "sites/%zu/%s", index, s->member);
    if (s->texts && s->count != 1 && s->count != B)
        return attn_fail(err, ATTN_ESHAPE, where, "expected 1 or %zu texts, found %zu", B,
                         s->count);
    for (size_t b = 0; s->texts && b < B; b++) {
        const size_t number = s->texts[s->count == 1 ? 0 : b];
        const size_t length = s->lengths ? (size_t)s->lengths[b] : s->each;
        if (number >= text_count)
            return attn_fail(err, ATTN_EARG, where, "there is no text %zu", number);
        if (texts[number].count < s->start || texts[number].count - s->start < length)
            return attn_fail(err, ATTN_ESHAPE, where,
                             "expected a text of at least %zu token%s, found one of %zu; if the "
                             "others are padding, say %s",
                             s->start + length, attn_plural(s->start + length), texts[number].count,
                             s->lengths_member);
    }
    return ATTN_OK;
}

attn_status attn_run_check_info(const attn_run_site_info *info, const attn_attention_dims *d,
                                const attn_run_text *texts, size_t text_count, size_t index,
                                attn_error *err) {
    const side queries = queries_of(info, d), keys = keys_of(info, d);
    ATTN_TRY(check_side(&queries, d->B, texts, text_count, index, err));
    return check_side(&keys, d->B, texts, text_count, index, err);
}

/* --- labels --- */

/* Returns the marks of special tokens for `each` labels. Label 0 is token `start` of the text.
 * NULL: out of memory. */
static const uint8_t *copy_special(const attn_run_text *text, size_t start, size_t each,
                                   attn_arena *arena) {
    uint8_t *marks = attn_arena_zeroed(arena, each + 1, 1);
    for (size_t i = 0; marks && i < each && start + i < text->count; i++)
        marks[i] = text->special[start + i];
    return marks;
}

/* Sets *out to the labels of one side, [entries, each], and (*special)[b] to the marks of special
 * tokens of entry b. Padding behind a shorter text has the label "". Returns false if memory runs
 * out. */
static bool make_labels(attn_run_site *site, const side *s, const char ***out,
                        const uint8_t ***special) {
    const size_t entries = site->own_labels ? site->shape.B : 1;
    attn_arena *arena = site->run->arena;
    size_t all;
    if (!s->texts)
        return true;
    if (!attn_size_mul(entries, s->each, &all) ||
        !(*out = attn_arena_zeroed(arena, all + 1, sizeof **out)) ||
        !(*special = attn_arena_zeroed(arena, entries + 1, sizeof **special)))
        return false;
    for (size_t b = 0; b < entries; b++) {
        const attn_run_text *text = &site->run->texts[s->texts[s->count == 1 ? 0 : b]];
        for (size_t i = 0; i < s->each; i++)
            (*out)[b * s->each + i] = s->start + i < text->count ? text->tokens[s->start + i] : "";
        if (text->special &&
            !((*special)[b] = copy_special(text, s->start, s->each, site->run->arena)))
            return false;
    }
    return true;
}

attn_status attn_run_labels_make(attn_run_site *site, attn_error *err) {
    const attn_run_site_info *info = &site->info;
    const side queries = queries_of(info, &site->shape), keys = keys_of(info, &site->shape);
    site->own_labels = info->query_text_count > 1 || info->key_text_count > 1;
    return make_labels(site, &queries, &site->query_labels, &site->query_special) &&
                   make_labels(site, &keys, &site->key_labels, &site->key_special)
               ? ATTN_OK
               : attn_no_memory(err, "the stored run");
}
