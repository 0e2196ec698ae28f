/* Reads and writes the JSON text of a run: its sites, and the properties of a site that do not
 * depend on elements of tensors. */
#include "runs/format.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "runs/inputs.h"
#include "runs/texts.h"

#define INFO(member) offsetof(attn_run_site_info, member)
#define COUNT(member)                                                                              \
    {                                                                                              \
        "", #member, ATTN_INPUT_SIZE, INFO(member), 0, 0, ATTN_INPUT_FARTHEST, NULL, 0,            \
            sizeof(((attn_run_site_info *)0)->member) == 4                                         \
    }

/* Rows leave out trailing members that are zero, which GCC would warn about without this line. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
static const attn_input name_rows[] = {
    {"", "name", ATTN_INPUT_TEXT, INFO(name), 0, 1, 0, NULL, 0},
    {"", "kind", ATTN_INPUT_WORD, INFO(kind), 0, 0, 0, attn_run_kind_words, 0},
    {"", "stack", ATTN_INPUT_TEXT, INFO(stack), 0, 1, 0, NULL, 0},
    {.name = NULL},
};
static const attn_input layer_row = COUNT(layer);
static const attn_input count_rows[] = {
    COUNT(call),
    COUNT(query_start),
    COUNT(key_start),
    {.name = NULL},
};
/* Members that only files written by attnd have. */
static const attn_input own_rows[] = {
    {"", "kernel", ATTN_INPUT_TEXT, offsetof(attn_run_site, kernel), 0, 0, 0, NULL, 0},
    {"", "mask_words", ATTN_INPUT_TEXT, offsetof(attn_run_site, words), 0, 0, 0, NULL, 0},
    {.name = NULL},
};

/* --- a site --- */

/* Reads name, kind, stack, layer, call and starts. The default of `layer` is the number of layers
 * of the same kind and stack in earlier sites. */
static void read_place(attn_run_reader *r, attn_json *object) {
    attn_run_site_info *info = &r->site->info;
    char *usual = attn_run_take(r, 32, 1);
    if (!usual)
        return;
    snprintf(usual, 32, "sites.%zu", r->index);
    info->name = usual;
    attn_run_read_rows(r, object, "", name_rows, info);
    for (size_t i = 0; i < r->index && !r->status; i++) {
        const attn_run_site_info *other = &r->run->sites[i].info;
        const size_t axis = attn_run_site_layers(r->run, i);
        if (attn_run_same_stack(other, info))
            info->layer += axis ? axis : 1;
        if (strcmp(other->name, info->name) == 0)
            attn_run_refuse(r, ATTN_EARG, "name", "site %zu has this name, too", i);
    }
    attn_run_read_row(r, object, "", &layer_row, info);
    attn_run_read_rows(r, object, "", count_rows, info);
}

/* Reads query_text or key_text: a number, or a list of B numbers. */
static const size_t *read_text_numbers(attn_run_reader *r, attn_json *object, const char *member,
                                       size_t *count) {
    const attn_json *value = attn_json_member(object, member);
    const int64_t last = (int64_t)r->run->text_count - 1;
    if (!value)
        return NULL;
    *count = value->kind == ATTN_JSON_LIST ? r->site->shape.B : 1;
    /* no number is negative, so an int64_t may be read as a size_t */
    if (value->kind == ATTN_JSON_LIST)
        return (const size_t *)attn_run_read_integers(r, value, member, *count, 0, last);
    int64_t *single = attn_run_take(r, 1, sizeof *single);
    if (single && !attn_json_integer(value, 0, last, single))
        attn_run_refuse(r, ATTN_EARG, member,
                        "expected the number of a text, or a list of such numbers; there are %zu "
                        "texts, counted from 0",
                        r->run->text_count);
    return (const size_t *)single;
}

static const int64_t *read_lengths(attn_run_reader *r, attn_json *object, const char *member,
                                   size_t most) {
    const attn_json *value = attn_json_member(object, member);
    return value ? attn_run_read_integers(r, value, member, r->site->shape.B, 0, (int64_t)most)
                 : NULL;
}

static void read_axes(attn_run_reader *r, attn_json *object) {
    attn_run_site_info *info = &r->site->info;
    const attn_json *value = attn_json_member(object, "axes");
    attn_error inner = {0};
    if (value && value->kind != ATTN_JSON_LIST)
        attn_run_refuse(r, ATTN_EARG, "axes", "expected a list of names");
    const char **names = value ? attn_run_take(r, value->count, sizeof *names) : NULL;
    for (const attn_json *v = names ? value->first : NULL; v && !r->status; v = v->next)
        if (v->kind == ATTN_JSON_STRING)
            names[info->axis_count++] = v->text;
        else
            attn_run_refuse(r, ATTN_EARG, "axes", "expected layer, batch or head");
    info->axes = names;
    if (names && !r->status &&
        attn_run_axes_check(&r->site->shape, names, info->axis_count, &inner))
        attn_run_refuse(r, inner.code, "axes", "%s", inner.text);
    attn_run_axes_usual(&r->site->shape, info);
}

/* Refuses a site that has the member `call` but not the member `layer`. Also refuses a site with a
 * layer that an earlier site of the same kind, stack and call has, too. */
static void check_place(attn_run_reader *r, attn_json *object) {
    const attn_run_site_info *info = &r->site->info;
    const size_t own = attn_run_site_layers(r->run, r->index);
    if (info->call && !attn_json_member(object, "layer"))
        attn_run_refuse(r, ATTN_EARG, "call", "a call needs the number of its layer");
    for (size_t i = 0; i < r->index && !r->status; i++) {
        const attn_run_site_info *other = &r->run->sites[i].info;
        const size_t axis = attn_run_site_layers(r->run, i);
        if (attn_run_same_stack(other, info) && other->call == info->call &&
            info->layer < other->layer + (axis ? axis : 1) &&
            other->layer < info->layer + (own ? own : 1))
            attn_run_refuse(r, ATTN_EARG, "layer",
                            "site %zu has this kind, stack, layer and call, too: give one of them "
                            "another layer, call or stack",
                            i);
    }
}

/* Reads lengths, texts and axes. The shape of the site must have been read. */
static void read_info(attn_run_reader *r, attn_json *object) {
    attn_run_site_info *info = &r->site->info;
    const attn_attention_dims *d = &r->site->shape;
    info->query_lengths = read_lengths(r, object, "query_lengths", d->L);
    info->key_lengths = r->site->blocks.pages.table.rank
                            ? r->site->blocks.pages.lengths.data
                            : read_lengths(r, object, "key_lengths", d->S);
    info->query_texts = read_text_numbers(r, object, "query_text", &info->query_text_count);
    info->key_texts = read_text_numbers(r, object, "key_text", &info->key_text_count);
    if (!r->status)
        r->status =
            attn_run_check_info(info, d, r->run->texts, r->run->text_count, r->index, r->err);
    read_axes(r, object);
    check_place(r, object);
}

static void read_site(attn_run_reader *r, attn_json *object) {
    attn_run_site *site = r->site;
    attn_error inner = {0};
    site->run = r->run;
    site->in = attn_attention_defaults();
    if (!attn_run_expect(r, object, ATTN_JSON_OBJECT, "", "an object"))
        return;
    read_place(r, object);
    attn_run_read_operation(r, object);
    if (r->status) /* without a shape the following members cannot be checked */
        return;
    read_info(r, object);
    attn_run_read_rows(r, object, "", own_rows, site);
    attn_run_check_axes(r);
    attn_run_read_masks(r, object);
    attn_run_refuse_unknown(r, object, "");
    if (!r->status && attn_attention_shape(&site->in, &site->shape, &inner))
        attn_run_refuse_error(r, &inner);
}

static void write_text_numbers(attn_json_text *t, const char *key, const size_t *numbers,
                               size_t n) {
    if (numbers && n == 1)
        attn_json_key_int(t, key, (int64_t)numbers[0]);
    else
        attn_run_write_integers(t, key, (const int64_t *)numbers, n);
}

void attn_run_write_info(attn_json_text *t, const attn_run_site_info *info, size_t B) {
    static const attn_run_site_info usual;
    const attn_run_naming to = {.text = t};
    attn_run_write_text(t, "name", info->name);
    attn_run_write_text(t, "kind", attn_run_kind_words[info->kind]);
    attn_run_write_text(t, "stack", info->stack);
    attn_json_key_int(t, "layer", (int64_t)info->layer);
    attn_run_write_rows(&to, "", count_rows, info, &usual);
    attn_run_write_integers(t, "query_lengths", info->query_lengths, B);
    attn_run_write_integers(t, "key_lengths", info->key_lengths, B);
    write_text_numbers(t, "query_text", info->query_texts, info->query_text_count);
    write_text_numbers(t, "key_text", info->key_texts, info->key_text_count);
    if (info->axis_count)
        attn_run_write_texts(t, "axes", info->axes, info->axis_count);
}

/* --- the run --- */

static void read_sites(attn_run_reader *r, const attn_json *list, size_t most) {
    attn_run *run = r->run;
    attn_run_reader inner = *r;
    if (!list || list->kind != ATTN_JSON_LIST || !list->count)
        attn_run_refuse(r, ATTN_EARG, "sites", "expected a list of at least one site, found %s",
                        !list                          ? "none"
                        : list->kind == ATTN_JSON_LIST ? "an empty one"
                                                       : attn_json_kind_name(list));
    else if (list->count > most)
        attn_run_refuse(r, ATTN_ELIMIT, "sites", "expected at most %zu sites, found %zu", most,
                        list->count);
    if (r->status || !(run->sites = attn_run_take(r, list->count, sizeof *run->sites)))
        return;
    for (attn_json *site = list->first; site && !inner.status; site = site->next) {
        inner.site = &run->sites[inner.index];
        snprintf(inner.at, sizeof inner.at, "sites/%zu", inner.index);
        read_site(&inner, site);
        run->site_count = ++inner.index;
    }
    r->status = inner.status;
}

static void read_version(attn_run_reader *r, const attn_json *number) {
    int64_t version = 0;
    if (!number || !attn_json_integer(number, 0, INT64_MAX, &version))
        version = 0;
    if (version > ATTN_RUN_FORMAT)
        attn_run_refuse(r, ATTN_EARG, "version",
                        "the run has format %lld, which is newer than this program; it reads %d",
                        (long long)version, ATTN_RUN_FORMAT);
    if (version < ATTN_RUN_FORMAT)
        attn_run_refuse(r, ATTN_EARG, "version", "expected %d, found %lld", ATTN_RUN_FORMAT,
                        (long long)version);
}

attn_status attn_run_read_format(attn_run *run, const char *text, const attn_run_limits *limits,
                                 attn_error *err) {
    attn_run_reader r = {.run = run, .err = err};
    const size_t n = strlen(text);
    attn_json *root;
    if (n > limits->text_bytes)
        return attn_fail(err, ATTN_ELIMIT, "run",
                         "the text of the metadata has %zu bytes; at most %zu are read", n,
                         limits->text_bytes);
    r.status = attn_json_read(text, n, run->arena, &root, err);
    if (r.status || !attn_run_expect(&r, root, ATTN_JSON_OBJECT, "run", "an object"))
        return r.status;
    read_version(&r, attn_json_member(root, "version"));
    const attn_json *model = attn_json_member(root, "model");
    if (model && attn_run_expect(&r, model, ATTN_JSON_STRING, "model", "a string"))
        run->model = model->text;
    attn_run_read_texts(&r, attn_json_member(root, "texts"));
    read_sites(&r, attn_json_member(root, "sites"), limits->sites);
    attn_run_refuse_unknown(&r, root, "");
    return r.status;
}
