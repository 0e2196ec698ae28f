/* Reads images of format 1, which attnd 0.1 wrote: one operation a file, whose numbers and mask
 * layers are texts of the metadata. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runs/private.h"

/* A tensor of attn_inputs and its name in the image. */
typedef struct tensor_name {
    const char *name;
    size_t offset; /* offset of the attn_tensor in attn_inputs */
} tensor_name;

/* A number of attn_inputs and its key in the metadata. */
typedef enum number_kind { REAL, SIZE, I64, ENUM, BOOLEAN } number_kind;
typedef struct number_name {
    const char *key;
    number_kind kind;
    size_t offset;
    int most;      /* for ENUM: the largest valid number */
    bool optional; /* the oldest runs lack it; then it is 0 */
} number_name;

/* Bytes of a key of the metadata, with the NUL. */
enum { KEY = 32 };

#define AT(member) offsetof(attn_inputs, member)

static const tensor_name tensor_names[] = {
    {"query", AT(query)},
    {"key", AT(key)},
    {"value", AT(value)},
    {"past_key", AT(past_key)},
    {"past_value", AT(past_value)},
    {"sinks", AT(sinks)},
    {"score.w_q", AT(score.w_q)},
    {"score.w_k", AT(score.w_k)},
    {"score.b", AT(score.b)},
    {"score.v", AT(score.v)},
    {"score.w", AT(score.w)},
    {"position.slopes", AT(position.slopes)},
    {"position.table", AT(position.table)},
    {"position.key_table", AT(position.key_table)},
    {"position.value_table", AT(position.value_table)},
    {NULL, 0},
};

static const number_name number_names[] = {
    {"run.layout", ENUM, AT(layout), ATTN_BLD, false},
    {"run.num_heads", SIZE, AT(num_heads), 0, false},
    {"run.num_kv_heads", SIZE, AT(num_kv_heads), 0, false},
    {"run.scale", REAL, AT(scale), 0, false},
    {"run.softcap", REAL, AT(softcap), 0, false},
    {"run.score", ENUM, AT(score.kind), ATTN_SCORE_COUNT - 1, false},
    {"run.position", ENUM, AT(position.kind), ATTN_POSITION_LEARNED, false},
    {"run.max_distance", I64, AT(position.max_distance), 0, false},
    {"run.unidirectional", BOOLEAN, AT(position.unidirectional), 0, false},
    {"run.rotary", ENUM, AT(position.rotary), ATTN_ROTARY_HALVES, false},
    {"run.base", REAL, AT(position.base), 0, false},
    {"run.dims", I64, AT(position.dims), 0, false},
    {"run.position_dropout_p", REAL, AT(position.dropout_p), 0, true},
    {"run.position_dropout_seed", I64, AT(position.dropout_seed), 0, true},
    {"run.dropout_p", REAL, AT(dropout_p), 0, false},
    {"run.dropout_seed", I64, AT(dropout_seed), 0, false},
    {"run.fill", ENUM, AT(mask.fill), ATTN_FILL_REPLACE, false},
    {"run.fill_value", REAL, AT(mask.fill_value), 0, false},
    {"run.offset", ENUM, AT(mask.offset), ATTN_OFFSET_END, false},
    {"run.allow_nonfinite", BOOLEAN, AT(allow_nonfinite), 0, false},
    {"run.precision", ENUM, AT(precision), ATTN_PRECISION_COUNT - 1, false},
    {NULL, REAL, 0, 0, false},
};

_Static_assert(sizeof(attn_layout) == sizeof(int) && sizeof(size_t) == sizeof(int64_t),
               "the table reads them so");

static bool read_number(const number_name *name, const char *text, attn_inputs *in) {
    void *at = (char *)in + name->offset;
    char *end;
    if (!*text)
        return false;
    if (name->kind == REAL) {
        const double real = strtod(text, &end);
        memcpy(at, &real, sizeof real);
        return !*end;
    }
    const int64_t integer = strtoll(text, &end, 10);
    if (*end)
        return false;
    switch (name->kind) {
    case ENUM:
        *(int *)at = (int)integer;
        return integer >= 0 && integer <= name->most;
    case BOOLEAN:
        *(bool *)at = integer != 0;
        return true;
    case SIZE:
        memcpy(at, &integer, sizeof integer);
        return integer >= 0;
    default:
        memcpy(at, &integer, sizeof integer);
        return true;
    }
}

#define LAYER_IN                                                                                   \
    "%d %d %" SCNd64 " %" SCNd64 " %" SCNd64 " %d %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64    \
    " %" SCNd64 " %n"

static bool read_line(const char *line, attn_mask_layer *layer) {
    int kind, semantics, pattern, used = 0;
    attn_mask_layer l = {.kind = ATTN_LAYER_CAUSAL};
    attn_pattern *p = &l.pattern;
    if (sscanf(line, LAYER_IN, &kind, &semantics, &l.window[0], &l.window[1], &l.pad_id, &pattern,
               &p->radius, &p->stride, &p->size, &p->num_keys, &p->local, &used) != 11 ||
        kind < 0 || kind > ATTN_LAYER_BITS || semantics < 0 || semantics > ATTN_SEM_NONZERO ||
        pattern < 0 || pattern > ATTN_PATTERN_GLOBAL)
        return false;
    l.kind = (attn_layer_kind)kind;
    l.semantics = (attn_semantics)semantics;
    p->kind = (attn_pattern_kind)pattern;
    l.where = line + used;
    *layer = l;
    return true;
}

static attn_status read_layer(attn_run_site *site, size_t i, const char *line, attn_error *err) {
    attn_mask_spec *spec = &site->in.mask;
    attn_mask_layer layer;
    char name[KEY];
    snprintf(name, sizeof name, "mask.%zu", i);
    const attn_tensor *values = attn_run_find_tensor(site->run, name);
    if (!read_line(line, &layer))
        return attn_fail(err, ATTN_EARG, name, "expected a mask layer, found \"%.64s\"", line);
    const bool wants = layer.kind != ATTN_LAYER_CAUSAL && layer.kind != ATTN_LAYER_WINDOW &&
                       layer.kind != ATTN_LAYER_PATTERN;
    if (wants != (values != NULL))
        return attn_fail(err, ATTN_EARG, name, "expected %s tensor for this mask",
                         wants ? "a" : "no");
    if (values)
        layer.values = *values;
    spec->layers[spec->count++] = layer;
    return ATTN_OK;
}

static attn_status read_masks(attn_run_site *site, attn_error *err) {
    for (size_t i = 0; i < ATTN_MASK_LAYERS; i++) {
        char key[KEY];
        snprintf(key, sizeof key, "run.mask.%zu", i);
        const char *line = attn_run_metadata(site->run, key);
        attn_status status = line ? read_layer(site, i, line, err) : ATTN_OK;
        if (!line || status != ATTN_OK)
            return status;
    }
    return ATTN_OK;
}

static attn_status read_offsets(attn_run_site *site, attn_error *err) {
    attn_mask_spec *spec = &site->in.mask;
    const attn_tensor *t = attn_run_find_tensor(site->run, "query_offsets");
    if (spec->offset != ATTN_OFFSET_GIVEN)
        return ATTN_OK;
    if (!t || t->dtype != ATTN_I64 || t->rank != 1)
        return attn_fail(err, ATTN_ESHAPE, "query_offsets", "expected a list of int64");
    spec->offsets = t->data;
    spec->offset_count = t->dims[0];
    return ATTN_OK;
}

static attn_status read_inputs(attn_run_site *site, attn_error *err) {
    const attn_run *run = site->run;
    attn_inputs *in = &site->in;
    for (size_t i = 0; i < run->file.count; i++)
        if (!attn_tensor_is_aligned(&run->file.tensors[i].tensor))
            return attn_fail(err, ATTN_EARG, run->file.tensors[i].name,
                             "its data is not aligned to its elements");
    for (const number_name *n = number_names; n->key; n++) {
        const char *text = attn_run_metadata(run, n->key);
        if (!text && n->optional)
            continue;
        if (!text || !read_number(n, text, in))
            return attn_fail(err, ATTN_EARG, n->key, "expected a number in its range, found %.32s",
                             text ? text : "none");
    }
    for (const tensor_name *n = tensor_names; n->name; n++) {
        const attn_tensor *t = attn_run_find_tensor(run, n->name);
        if (t)
            *(attn_tensor *)(void *)((char *)in + n->offset) = *t;
    }
    attn_status status = read_masks(site, err);
    return status ? status : read_offsets(site, err);
}

attn_status attn_run_read_format1(attn_run *run, attn_error *err) {
    attn_run_site *site = attn_arena_zeroed(run->arena, 1, sizeof *site);
    const char *words = attn_run_metadata(run, "run.mask");
    if (!site)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the stored run");
    *site = (attn_run_site){.run = run,
                            .info.name = "attention",
                            .in = attn_attention_defaults(),
                            .kernel = attn_run_metadata(run, "run.kernel"),
                            .words = words ? words : ""};
    run->sites = site;
    run->site_count = 1;
    attn_status status = read_inputs(site, err);
    if (!status)
        status = attn_attention_shape(&site->in, &site->shape, err);
    if (!status)
        attn_run_axes_usual(&site->shape, &site->info);
    return status;
}

/* Reads the labels of all batch entries together, `each` of them, or of each entry. */
static attn_status read_labels(attn_run_site *site, const char *name, size_t each,
                               const char ***out, attn_error *err) {
    const attn_tensor *t = attn_run_find_tensor(site->run, name);
    const size_t B = site->shape.B;
    size_t found = 0;
    if (!t)
        return ATTN_OK;
    const char *at = t->data, *end = at + t->dims[0];
    if (t->dtype == ATTN_U8 && t->rank == 1)
        for (const char *p = at; p < end; p++)
            found += *p == 0;
    const bool own = B > 1 && each > 0 && found / B == each && found % B == 0;
    const size_t n = own ? found : each;
    const bool agrees = !site->query_labels || each == 0 || site->own_labels == own;
    if (found != n || (n && end[-1]) || t->rank != 1 || !agrees)
        return attn_fail(err, ATTN_ESHAPE, name, "expected %zu texts, found %zu",
                         site->own_labels ? B * each : each, found);
    const char **labels = attn_arena_zeroed(site->run->arena, n ? n : 1, sizeof *labels);
    if (!labels)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the labels");
    for (size_t i = 0; i < n; i++, at += strlen(at) + 1)
        labels[i] = at;
    site->own_labels = site->own_labels || own;
    *out = labels;
    return ATTN_OK;
}

attn_status attn_run_labels_format1(attn_run_site *site, attn_error *err) {
    attn_status status = read_labels(site, "labels.query", site->shape.L, &site->query_labels, err);
    return status ? status : read_labels(site, "labels.key", site->shape.S, &site->key_labels, err);
}
