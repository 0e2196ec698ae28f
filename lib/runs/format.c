/* Reads images: the JSON text of the metadata (FORMAT.md), the texts, and for each site
 * what is known before its elements are read. */
#include <stdio.h>
#include <string.h>

#include "runs/inputs.h"

static attn_status no_memory(attn_error *err) {
    return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the stored run");
}

/* --- texts --- */

typedef struct text_reader {
    attn_run *run;
    size_t index;
    attn_error *err;
} text_reader;

static attn_status refuse_text(const text_reader *r, const char *member, const char *what) {
    char where[64];
    snprintf(where, sizeof where, "texts/%zu%s%.40s", r->index, *member ? "/" : "", member);
    return attn_fail(r->err, ATTN_EARG, where, "%s", what);
}

static attn_status read_tokens(const text_reader *r, const attn_json *list, attn_run_text *out) {
    if (!list || list->kind != ATTN_JSON_LIST)
        return refuse_text(r, "tokens", "expected a list of strings");
    const char **tokens = attn_arena_zeroed(r->run->arena, list->count + 1, sizeof *tokens);
    if (!tokens)
        return no_memory(r->err);
    for (const attn_json *v = list->first; v; v = v->next) {
        if (v->kind != ATTN_JSON_STRING)
            return refuse_text(r, "tokens", "expected strings only");
        tokens[out->count++] = v->text;
    }
    out->tokens = tokens;
    return ATTN_OK;
}

static attn_status read_ids(const text_reader *r, const attn_json *list, attn_run_text *out) {
    if (list->kind != ATTN_JSON_LIST || list->count != out->count)
        return refuse_text(r, "ids", "expected a list with an integer for each token");
    int64_t *ids = attn_arena_zeroed(r->run->arena, out->count + 1, sizeof *ids), *at = ids;
    if (!ids)
        return no_memory(r->err);
    for (const attn_json *v = list->first; v; v = v->next)
        if (!attn_json_integer(v, INT64_MIN, INT64_MAX, at++))
            return refuse_text(r, "ids", "expected integers only");
    out->ids = ids;
    return ATTN_OK;
}

/* Units of offsets; those of requests about models. */
static const char *const offset_units[] = {"bytes", "codepoints", "utf16"};
enum { BYTES, CODEPOINTS, UTF16, UNITS, MARK = 64 };

/* Where in a text its units are: each MARK units, the first character from there on. */
typedef struct offset_map {
    const char *text; /* NULL: there is none */
    size_t unit, length;
    struct offset_mark {
        size_t at, byte; /* in units and in bytes */
    } * marks;
} offset_map;

static bool begins_character(char c) {
    return ((unsigned char)c & 0xC0) != 0x80;
}

static size_t units_of(char first, size_t unit) {
    return unit == UTF16 && (unsigned char)first >= 0xF0 ? 2 : 1;
}

/* Fills marks, of which there is one for each MARK bytes of the text and one more. */
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

/* Converts an offset to bytes. Returns false if it is outside of the text or within a character. */
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

/* Reads [from, to] of a token; both lie within the text, if there is one. */
static bool read_span(const attn_json *pair, const offset_map *map, size_t span[2]) {
    int64_t from, to;
    return pair->kind == ATTN_JSON_LIST && pair->count == 2 &&
           attn_json_integer(pair->first, 0, (int64_t)map->length, &from) &&
           attn_json_integer(pair->first->next, from, (int64_t)map->length, &to) &&
           find_byte(map, from, &span[0]) && find_byte(map, to, &span[1]);
}

/* Reads offset_unit and prepares the conversion of offsets. */
static attn_status read_unit(const text_reader *r, const attn_json *unit, const char *text,
                             offset_map *out) {
    *out = (offset_map){.text = text, .length = text ? strlen(text) : (size_t)1 << 52};
    while (unit && out->unit < UNITS &&
           (unit->kind != ATTN_JSON_STRING || strcmp(unit->text, offset_units[out->unit]) != 0))
        out->unit++;
    if (out->unit == UNITS)
        return refuse_text(r, "offset_unit", "expected bytes, codepoints or utf16");
    if (out->unit == BYTES)
        return ATTN_OK;
    if (!text)
        return refuse_text(r, "offset_unit", "it needs text, from which bytes are counted");
    out->marks = attn_arena_zeroed(r->run->arena, out->length / MARK + 1, sizeof *out->marks);
    if (!out->marks)
        return no_memory(r->err);
    mark_units(out);
    return ATTN_OK;
}

static attn_status read_offsets(const text_reader *r, const attn_json *list, const attn_json *unit,
                                attn_run_text *out) {
    offset_map map;
    attn_status status = read_unit(r, unit, out->text, &map);
    if (status || !list)
        return status;
    if (list->kind != ATTN_JSON_LIST || list->count != out->count)
        return refuse_text(r, "offsets", "expected a list with [from, to] for each token");
    size_t(*spans)[2] = attn_arena_zeroed(r->run->arena, out->count + 1, sizeof *spans);
    size_t n = 0;
    if (!spans)
        return no_memory(r->err);
    for (const attn_json *v = list->first; v; v = v->next)
        if (!read_span(v, &map, spans[n++]))
            return refuse_text(r, "offsets",
                               "expected [from, to] with 0 <= from <= to <= the length of text, "
                               "and neither within a character; say offset_unit if they count "
                               "codepoints or utf16 and not bytes");
    out->offsets = (const size_t(*)[2])spans;
    return ATTN_OK;
}

static attn_status read_special(const text_reader *r, const attn_json *list, attn_run_text *out) {
    uint8_t *special = attn_arena_zeroed(r->run->arena, out->count + 1, 1);
    int64_t index;
    if (!special)
        return no_memory(r->err);
    for (const attn_json *v = list->first; list->kind == ATTN_JSON_LIST && v; v = v->next) {
        if (!attn_json_integer(v, 0, (int64_t)out->count - 1, &index))
            return refuse_text(r, "special", "expected numbers of tokens, counted from 0");
        special[index] = 1;
    }
    out->special = special;
    return list->kind == ATTN_JSON_LIST ? ATTN_OK
                                        : refuse_text(r, "special", "expected a list of numbers");
}

static attn_status read_text(const text_reader *r, attn_json *object) {
    attn_run_text *out = &r->run->texts[r->index];
    if (object->kind != ATTN_JSON_OBJECT)
        return refuse_text(r, "", "expected an object with tokens");
    const attn_json *text = attn_json_member(object, "text");
    const attn_json *ids = attn_json_member(object, "ids");
    const attn_json *offsets = attn_json_member(object, "offsets");
    const attn_json *unit = attn_json_member(object, "offset_unit");
    const attn_json *special = attn_json_member(object, "special");
    if (text && text->kind != ATTN_JSON_STRING)
        return refuse_text(r, "text", "expected a string");
    out->text = text ? text->text : NULL;
    attn_status status = read_tokens(r, attn_json_member(object, "tokens"), out);
    if (!status && ids)
        status = read_ids(r, ids, out);
    if (!status && (offsets || unit))
        status = read_offsets(r, offsets, unit, out);
    if (!status && special)
        status = read_special(r, special, out);
    const attn_json *unknown = attn_json_unknown(object);
    return status || !unknown ? status
                              : refuse_text(r, unknown->key,
                                            "there is no such member; names of your own begin "
                                            "with \"x-\"");
}

static attn_status read_texts(attn_run *run, const attn_json *list, attn_error *err) {
    attn_status status = ATTN_OK;
    if (!list)
        return ATTN_OK;
    if (list->kind != ATTN_JSON_LIST)
        return attn_fail(err, ATTN_EARG, "texts", "expected a list of texts, found %s",
                         attn_json_kind_name(list));
    run->texts = attn_arena_zeroed(run->arena, list->count + 1, sizeof *run->texts);
    if (!run->texts)
        return no_memory(err);
    run->text_count = list->count;
    size_t index = 0;
    for (attn_json *text = list->first; text && !status; text = text->next) {
        const text_reader r = {run, index++, err};
        status = read_text(&r, text);
    }
    return status;
}

/* --- sites --- */

static attn_status read_count(const attn_run_reader *r, attn_json *object, const char *member,
                              size_t *out) {
    const attn_json *value = attn_json_member(object, member);
    int64_t found = 0;
    if (value && !attn_json_integer(value, 0, (int64_t)1 << 40, &found))
        return attn_run_refuse(r, ATTN_EARG, member, "expected an integer of 0 or more");
    *out = value ? (size_t)found : *out;
    return ATTN_OK;
}

static attn_status read_kind(const attn_run_reader *r, attn_json *object, attn_run_kind *out) {
    const attn_json *value = attn_json_member(object, "kind");
    for (int k = 0; value && k < ATTN_RUN_KINDS; k++)
        if (value->kind == ATTN_JSON_STRING &&
            strcmp(value->text, attn_run_kind_name((attn_run_kind)k)) == 0) {
            *out = (attn_run_kind)k;
            return ATTN_OK;
        }
    return value ? attn_run_refuse(r, ATTN_EARG, "kind", "expected self, encoder, decoder or cross")
                 : ATTN_OK;
}

/* Reads a name, which may be absent: *out is then what it was. */
static attn_status read_name(const attn_run_reader *r, attn_json *object, const char *member,
                             const char **out) {
    const attn_json *value = attn_json_member(object, member);
    if (value && (value->kind != ATTN_JSON_STRING || !*value->text))
        return attn_run_refuse(r, ATTN_EARG, member, "expected a string that is not empty");
    *out = value ? value->text : *out;
    return ATTN_OK;
}

/* Reads name, kind, stack, layer and call. The default of the layer counts those before it of its
 * kind and stack. */
static attn_status read_place(const attn_run_reader *r, attn_json *object) {
    attn_run_site_info *info = &r->site->info;
    char usual[32];
    snprintf(usual, sizeof usual, "sites.%zu", r->index);
    info->name = attn_arena_text(r->run->arena, usual, strlen(usual));
    if (!info->name)
        return no_memory(r->err);
    attn_status status = read_name(r, object, "name", &info->name);
    if (!status)
        status = read_kind(r, object, &info->kind);
    if (!status)
        status = read_name(r, object, "stack", &info->stack);
    for (size_t i = 0; i < r->index && !status; i++) {
        const size_t axis = attn_run_site_layers(r->run, i);
        if (attn_run_same_stack(&r->run->sites[i].info, info))
            info->layer += axis ? axis : 1;
        if (strcmp(r->run->sites[i].info.name, info->name) == 0)
            status = attn_run_refuse(r, ATTN_EARG, "name", "site %zu has this name, too", i);
    }
    if (!status)
        status = read_count(r, object, "layer", &info->layer);
    if (!status)
        status = read_count(r, object, "call", &info->call);
    if (!status)
        status = read_count(r, object, "query_start", &info->query_start);
    return status ? status : read_count(r, object, "key_start", &info->key_start);
}

/* Reads query_text or key_text: a number, or a list of B numbers. */
static attn_status read_text_numbers(const attn_run_reader *r, attn_json *object,
                                     const char *member, const size_t **out, size_t *count) {
    const attn_json *value = attn_json_member(object, member);
    const int64_t last = (int64_t)r->run->text_count - 1;
    int64_t one;
    if (!value)
        return ATTN_OK;
    if (value->kind == ATTN_JSON_LIST) {
        int64_t *all;
        *count = r->site->shape.B;
        attn_status status = attn_run_read_integers(r, value, member, *count, 0, last, &all);
        *out = status ? NULL : (const size_t *)all; /* they are not negative */
        return status;
    }
    size_t *single = attn_arena_zeroed(r->run->arena, 1, sizeof *single);
    if (!single)
        return no_memory(r->err);
    if (!attn_json_integer(value, 0, last, &one))
        return attn_run_refuse(r, ATTN_EARG, member,
                               "expected the number of a text, or a list of such numbers; there "
                               "are %zu texts, counted from 0",
                               r->run->text_count);
    *single = (size_t)one;
    *out = single;
    *count = 1;
    return ATTN_OK;
}

static attn_status read_lengths(const attn_run_reader *r, attn_json *object, const char *member,
                                size_t most, const int64_t **out) {
    const attn_json *value = attn_json_member(object, member);
    int64_t *lengths;
    attn_status status = value ? attn_run_read_integers(r, value, member, r->site->shape.B, 0,
                                                        (int64_t)most, &lengths)
                               : ATTN_OK;
    if (value && !status)
        *out = lengths;
    return status;
}

static attn_status read_axes(const attn_run_reader *r, attn_json *object) {
    attn_run_site_info *info = &r->site->info;
    const attn_json *value = attn_json_member(object, "axes");
    attn_error inner = {0};
    if (value && value->kind != ATTN_JSON_LIST)
        return attn_run_refuse(r, ATTN_EARG, "axes", "expected a list of names");
    const char **names =
        value ? attn_arena_zeroed(r->run->arena, value->count + 1, sizeof *names) : NULL;
    if (value && !names)
        return no_memory(r->err);
    for (const attn_json *v = value ? value->first : NULL; v; v = v->next) {
        if (v->kind != ATTN_JSON_STRING)
            return attn_run_refuse(r, ATTN_EARG, "axes", "expected layer, batch or head");
        names[info->axis_count++] = v->text;
    }
    info->axes = names;
    attn_status status =
        value ? attn_run_axes_check(&r->site->shape, names, info->axis_count, &inner) : ATTN_OK;
    if (status)
        return attn_run_refuse(r, status, "axes", "%s", inner.text);
    attn_run_axes_usual(&r->site->shape, info);
    return ATTN_OK;
}

/* Refuses a call without its layer, and layers of a call that an earlier site has. */
static attn_status check_place(const attn_run_reader *r, attn_json *object) {
    const attn_run_site_info *info = &r->site->info;
    const size_t own = attn_run_site_layers(r->run, r->index);
    if (info->call && !attn_json_member(object, "layer"))
        return attn_run_refuse(r, ATTN_EARG, "call", "a call needs the number of its layer");
    for (size_t i = 0; i < r->index; i++) {
        const attn_run_site_info *other = &r->run->sites[i].info;
        const size_t axis = attn_run_site_layers(r->run, i);
        if (attn_run_same_stack(other, info) && other->call == info->call &&
            info->layer < other->layer + (axis ? axis : 1) &&
            other->layer < info->layer + (own ? own : 1))
            return attn_run_refuse(
                r, ATTN_EARG, "layer",
                "site %zu has this kind, stack, layer and call, too: give one of them "
                "another layer, call or stack",
                i);
    }
    return ATTN_OK;
}

/* Checks that the text has the tokens from `start` on that `length` queries or keys need. */
static attn_status check_text(const attn_run_text *text, size_t start, size_t length, size_t index,
                              const char *member, attn_error *err) {
    char where[48];
    if (text->count >= start && text->count - start >= length)
        return ATTN_OK;
    snprintf(where, sizeof where, "sites/%zu/%s", index, member);
    return attn_fail(err, ATTN_ESHAPE, where,
                     "expected a text of at least %zu tokens, found one of %zu; if the others are "
                     "padding, say %s",
                     start + length, text->count,
                     member[0] == 'q' ? "query_lengths" : "key_lengths");
}

/* Checks the texts of one side. */
static attn_status check_side(const size_t *numbers, size_t count, const int64_t *lengths,
                              size_t start, size_t each, const attn_attention_dims *d,
                              const attn_run_text *texts, size_t text_count, size_t index,
                              const char *member, attn_error *err) {
    attn_status status = ATTN_OK;
    char where[48];
    snprintf(where, sizeof where, "sites/%zu/%s", index, member);
    if (numbers && count != 1 && count != d->B)
        return attn_fail(err, ATTN_ESHAPE, where, "expected 1 or %zu texts, found %zu", d->B,
                         count);
    for (size_t b = 0; numbers && b < d->B && !status; b++) {
        const size_t number = numbers[count == 1 ? 0 : b];
        status = number < text_count
                     ? check_text(&texts[number], start, lengths ? (size_t)lengths[b] : each, index,
                                  member, err)
                     : attn_fail(err, ATTN_EARG, where, "there is no text %zu", number);
    }
    return status;
}

attn_status attn_run_check_info(const attn_run_site_info *info, const attn_attention_dims *d,
                                const attn_run_text *texts, size_t text_count, size_t index,
                                attn_error *err) {
    attn_status status =
        check_side(info->query_texts, info->query_text_count, info->query_lengths,
                   info->query_start, d->L, d, texts, text_count, index, "query_text", err);
    return status ? status
                  : check_side(info->key_texts, info->key_text_count, info->key_lengths,
                               info->key_start, d->S, d, texts, text_count, index, "key_text", err);
}

/* Reads what only files of attnd have: the kernel table of the statistics, the mask in words. */
static attn_status read_own(const attn_run_reader *r, attn_json *object) {
    const attn_json *kernel = attn_json_member(object, "kernel");
    const attn_json *words = attn_json_member(object, "mask_words");
    if ((kernel && kernel->kind != ATTN_JSON_STRING) || (words && words->kind != ATTN_JSON_STRING))
        return attn_run_refuse(r, ATTN_EARG, kernel ? "kernel" : "mask_words", "expected a string");
    r->site->kernel = kernel ? kernel->text : NULL;
    r->site->words = words ? words->text : NULL;
    return ATTN_OK;
}

static attn_status read_rest(const attn_run_reader *r, attn_json *object) {
    attn_run_site *site = r->site;
    attn_run_site_info *info = &site->info;
    attn_error inner = {0};
    attn_status status =
        read_lengths(r, object, "query_lengths", site->shape.L, &info->query_lengths);
    if (!status)
        status = read_lengths(r, object, "key_lengths", site->shape.S, &info->key_lengths);
    if (!status)
        status =
            read_text_numbers(r, object, "query_text", &info->query_texts, &info->query_text_count);
    if (!status)
        status = read_text_numbers(r, object, "key_text", &info->key_texts, &info->key_text_count);
    if (!status)
        status = attn_run_check_info(info, &site->shape, r->run->texts, r->run->text_count,
                                     r->index, r->err);
    if (!status)
        status = read_axes(r, object);
    if (!status)
        status = check_place(r, object);
    if (!status)
        status = read_own(r, object);
    if (!status)
        status = attn_run_check_axes(r);
    if (!status)
        status = attn_run_read_masks(r, object);
    if (!status)
        status = attn_run_refuse_unknown(r, object, "");
    if (!status && (status = attn_attention_shape(&site->in, &site->shape, &inner)))
        return attn_run_refuse(r, status, inner.where, "%s", inner.text);
    return status;
}

static attn_status read_site(attn_run *run, size_t index, attn_json *object, attn_error *err) {
    attn_run_site *site = &run->sites[index];
    const attn_run_reader r = {run, site, index, err};
    site->run = run;
    site->in = attn_attention_defaults();
    if (object->kind != ATTN_JSON_OBJECT)
        return attn_run_refuse(&r, ATTN_EARG, "", "expected an object, found %s",
                               attn_json_kind_name(object));
    attn_status status = read_place(&r, object);
    if (!status)
        status = attn_run_read_operation(&r, object);
    return status ? status : read_rest(&r, object);
}

static attn_status read_sites(attn_run *run, const attn_json *list, size_t most, attn_error *err) {
    attn_status status = ATTN_OK;
    if (!list || list->kind != ATTN_JSON_LIST || !list->count)
        return attn_fail(err, ATTN_EARG, "sites", "expected a list of at least one site, found %s",
                         !list                          ? "none"
                         : list->kind == ATTN_JSON_LIST ? "an empty one"
                                                        : attn_json_kind_name(list));
    if (list->count > most)
        return attn_fail(err, ATTN_ELIMIT, "sites", "expected at most %zu sites, found %zu", most,
                         list->count);
    run->sites = attn_arena_zeroed(run->arena, list->count, sizeof *run->sites);
    if (!run->sites)
        return no_memory(err);
    for (attn_json *site = list->first; site && !status; site = site->next) {
        status = read_site(run, run->site_count, site, err);
        run->site_count++;
    }
    return status;
}

attn_status attn_run_read_format(attn_run *run, const char *text, const attn_run_limits *limits,
                                 attn_error *err) {
    const size_t n = strlen(text);
    attn_json *root;
    int64_t version = 0;
    if (n > limits->text_bytes)
        return attn_fail(err, ATTN_ELIMIT, "run",
                         "the text of the metadata has %zu bytes; at most %zu are read", n,
                         limits->text_bytes);
    attn_status status = attn_json_read(text, n, run->arena, &root, err);
    if (!status && root->kind != ATTN_JSON_OBJECT)
        status = attn_fail(err, ATTN_EARG, "run", "expected an object, found %s",
                           attn_json_kind_name(root));
    if (status)
        return status;
    const attn_json *number = attn_json_member(root, "version");
    const attn_json *model = attn_json_member(root, "model");
    if (!number || !attn_json_integer(number, 0, INT64_MAX, &version) || version != ATTN_RUN_FORMAT)
        return attn_fail(err, ATTN_EARG, "version",
                         version > ATTN_RUN_FORMAT
                             ? "the run has format %lld, which is newer than this program; "
                               "it reads 2"
                             : "expected 2, found %lld",
                         (long long)version);
    if (model && model->kind != ATTN_JSON_STRING)
        return attn_fail(err, ATTN_EARG, "model", "expected a string, found %s",
                         attn_json_kind_name(model));
    run->model = model ? model->text : NULL;
    status = read_texts(run, attn_json_member(root, "texts"), err);
    if (!status)
        status = read_sites(run, attn_json_member(root, "sites"), limits->sites, err);
    const attn_json *unknown = attn_json_unknown(root);
    if (!status && unknown)
        return attn_fail(err, ATTN_EARG, unknown->key,
                         "there is no such member; names of your own begin with \"x-\"");
    return status;
}

/* --- labels --- */

/* Copies the marks of special tokens to the labels, which begin with token `start`. NULL: out of
 * memory. */
static const uint8_t *copy_special(const attn_run_text *text, size_t start, size_t each,
                                   attn_arena *arena) {
    uint8_t *marks = attn_arena_zeroed(arena, each + 1, 1);
    for (size_t i = 0; marks && i < each && start + i < text->count; i++)
        marks[i] = text->special[start + i];
    return marks;
}

/* Makes the labels of one side, [entries, each], and what their texts say of special tokens. Padding
 * behind a shorter text is "". */
static attn_status make_labels(attn_run_site *site, const size_t *numbers, size_t count,
                               size_t start, size_t each, const char ***out,
                               const uint8_t ***special, attn_error *err) {
    const size_t entries = site->own_labels ? site->shape.B : 1;
    size_t all;
    if (!numbers)
        return ATTN_OK;
    const char **labels = attn_size_mul(entries, each, &all)
                              ? attn_arena_zeroed(site->run->arena, all + 1, sizeof *labels)
                              : NULL;
    const uint8_t **marks = attn_arena_zeroed(site->run->arena, entries + 1, sizeof *marks);
    if (!labels || !marks)
        return no_memory(err);
    for (size_t b = 0; b < entries; b++) {
        const attn_run_text *text = &site->run->texts[numbers[count == 1 ? 0 : b]];
        for (size_t i = 0; i < each; i++)
            labels[b * each + i] = start + i < text->count ? text->tokens[start + i] : "";
        if (text->special && !(marks[b] = copy_special(text, start, each, site->run->arena)))
            return no_memory(err);
    }
    *out = labels;
    *special = marks;
    return ATTN_OK;
}

attn_status attn_run_labels_make(attn_run_site *site, attn_error *err) {
    const attn_run_site_info *info = &site->info;
    site->own_labels = info->query_text_count > 1 || info->key_text_count > 1;
    attn_status status =
        make_labels(site, info->query_texts, info->query_text_count, info->query_start,
                    site->shape.L, &site->query_labels, &site->query_special, err);
    return status ? status
                  : make_labels(site, info->key_texts, info->key_text_count, info->key_start,
                                site->shape.S, &site->key_labels, &site->key_special, err);
}
