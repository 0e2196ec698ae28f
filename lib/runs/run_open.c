/* Opens an image as a run. An image may come from anywhere, so this file and attn_attention_new
 * check its names, shapes, numbers and alignment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/resolved.h"
#include "runs/run_private.h"

typedef struct opener {
    attn_run *run;
    attn_run_site *site;
    attn_arena *arena;
    attn_error *err;
} opener;

static attn_status no_memory(opener *o) {
    return attn_fail(o->err, ATTN_ENOMEM, "", "no memory left for the stored run");
}

static const attn_tensor *find_tensor(const attn_run *run, const char *name) {
    for (size_t i = 0; i < run->file.count; i++)
        if (strcmp(run->file.tensors[i].name, name) == 0)
            return &run->file.tensors[i].tensor;
    return NULL;
}

const char *attn_run_text(const attn_run *run, const char *key) {
    for (size_t i = 0; i < run->file.metadata_count; i++)
        if (strcmp(run->file.metadata[i].key, key) == 0)
            return run->file.metadata[i].text;
    return NULL;
}

/* Finds the tensor `name` and stores its data in *data. It is an error if the tensor is missing or
 * has another type or shape. */
static attn_status need_tensor(opener *o, const char *name, attn_dtype dtype, int rank,
                               const size_t *dims, const void **data) {
    const attn_tensor *t = find_tensor(o->run, name);
    char shape[128];
    if (t && t->dtype == dtype && t->rank == rank &&
        memcmp(t->dims, dims, (size_t)rank * sizeof *dims) == 0) {
        *data = t->data;
        return ATTN_OK;
    }
    return attn_fail(o->err, t ? ATTN_ESHAPE : ATTN_EARG, name, "expected %s of shape %s",
                     attn_dtype_name(dtype), attn_shape_text(dims, rank, shape, sizeof shape));
}

static attn_status read_layer(opener *o, size_t i, const char *line) {
    attn_mask_spec *spec = &o->site->in.mask;
    attn_mask_layer layer;
    char name[ATTN_RUN_KEY];
    snprintf(name, sizeof name, ATTN_RUN_MASK_TENSOR, i);
    const attn_tensor *values = find_tensor(o->run, name);
    if (!attn_run_layer_read(line, &layer))
        return attn_fail(o->err, ATTN_EARG, name, "expected a mask layer, found \"%.64s\"", line);
    const bool wants = layer.kind != ATTN_LAYER_CAUSAL && layer.kind != ATTN_LAYER_WINDOW &&
                       layer.kind != ATTN_LAYER_PATTERN;
    if (wants != (values != NULL))
        return attn_fail(o->err, ATTN_EARG, name, "expected %s tensor for this mask",
                         wants ? "a" : "no");
    if (values)
        layer.values = *values;
    spec->layers[spec->count++] = layer;
    return ATTN_OK;
}

static attn_status read_masks(opener *o) {
    for (size_t i = 0; i < ATTN_MASK_LAYERS; i++) {
        char key[ATTN_RUN_KEY];
        snprintf(key, sizeof key, ATTN_RUN_MASK, i);
        const char *line = attn_run_text(o->run, key);
        attn_status status = line ? read_layer(o, i, line) : ATTN_OK;
        if (!line || status != ATTN_OK)
            return status;
    }
    return ATTN_OK;
}

static attn_status read_offsets(opener *o) {
    attn_mask_spec *spec = &o->site->in.mask;
    const attn_tensor *t = find_tensor(o->run, ATTN_RUN_OFFSETS);
    if (spec->offset != ATTN_OFFSET_GIVEN)
        return ATTN_OK;
    if (!t || t->dtype != ATTN_I64 || t->rank != 1)
        return attn_fail(o->err, ATTN_ESHAPE, ATTN_RUN_OFFSETS, "expected a list of int64");
    spec->offsets = t->data;
    spec->offset_count = t->dims[0];
    return ATTN_OK;
}

static attn_status read_inputs(opener *o) {
    attn_inputs *in = &o->site->in;
    const char *version = attn_run_text(o->run, ATTN_RUN_VERSION);
    if (!version || strcmp(version, "1") != 0)
        return attn_fail(o->err, ATTN_EARG, ATTN_RUN_VERSION,
                         "expected a stored run of version 1, found %.32s",
                         version ? version : "none");
    for (size_t i = 0; i < o->run->file.count; i++)
        if (!attn_tensor_is_aligned(&o->run->file.tensors[i].tensor))
            return attn_fail(o->err, ATTN_EARG, o->run->file.tensors[i].name,
                             "its data is not aligned to its elements");
    for (const attn_run_number_name *n = attn_run_number_names; n->key; n++) {
        const char *text = attn_run_text(o->run, n->key);
        if (!text && n->optional)
            continue;
        if (!text || !attn_run_number_read(n, text, in))
            return attn_fail(o->err, ATTN_EARG, n->key,
                             "expected a number in its range, found %.32s", text ? text : "none");
    }
    for (const attn_run_tensor_name *n = attn_run_tensor_names; n->name; n++) {
        const attn_tensor *t = find_tensor(o->run, n->name);
        if (t)
            *(attn_tensor *)(void *)((char *)in + n->offset) = *t;
    }
    attn_status status = read_masks(o);
    return status ? status : read_offsets(o);
}

/* Chooses the kernel table that computed the run, if this processor supports it. Weights are then
 * equal to those of the original run in every bit. */
static void choose_kernel(attn_run_site *site) {
    const char *name = attn_run_text(site->run, ATTN_RUN_KERNEL);
    attn_attention_dims d;
    site->exact = name && attn_attention_shape(&site->in, &d, NULL) == ATTN_OK &&
                  attn_kernels_find(name, d.precision, d.tanh_score, &d.isa);
    if (site->exact)
        site->in.kernel = name;
}

static attn_status read_stats(opener *o) {
    attn_run_site *site = o->site;
    const size_t dims[3] = {site->dims->B, site->dims->Hq, site->dims->L};
    const size_t rows = dims[0] * dims[1] * dims[2];
    const void *max, *sum, *kind;
    attn_status status = need_tensor(o, "stats.max", ATTN_F64, 3, dims, &max);
    if (status == ATTN_OK)
        status = need_tensor(o, "stats.sum", ATTN_F64, 3, dims, &sum);
    if (status == ATTN_OK)
        status = need_tensor(o, "stats.kind", ATTN_U8, 3, dims, &kind);
    if (status != ATTN_OK)
        return status;
    site->stats = (attn_stats){(double *)max, (double *)sum, (uint8_t *)kind};
    for (size_t i = 0; i < rows; i++)
        if (site->stats.kind[i] > ATTN_ROW_DOUBLE)
            return attn_fail(o->err, ATTN_EVALUE, "stats.kind", "expected 0 or 1");
    return ATTN_OK;
}

/* Reads the labels of all batch entries together, `each` of them, or of each entry. */
static attn_status read_labels(opener *o, const char *name, size_t each, const char ***out) {
    const attn_tensor *t = find_tensor(o->run, name);
    const size_t B = o->site->dims->B;
    size_t found = 0;
    if (!t)
        return ATTN_OK;
    const char *at = t->data, *end = at + t->dims[0];
    if (t->dtype == ATTN_U8 && t->rank == 1)
        for (const char *p = at; p < end; p++)
            found += *p == 0;
    const bool own = B > 1 && each > 0 && found / B == each && found % B == 0;
    const size_t n = own ? found : each;
    const bool agrees = !o->site->query_labels || each == 0 || o->site->own_labels == own;
    if (found != n || (n && end[-1]) || t->rank != 1 || !agrees)
        return attn_fail(o->err, ATTN_ESHAPE, name, "expected %zu texts, found %zu",
                         o->site->own_labels ? B * each : each, found);
    const char **labels = attn_arena_zeroed(o->arena, n ? n : 1, sizeof *labels);
    if (!labels)
        return no_memory(o);
    for (size_t i = 0; i < n; i++, at += strlen(at) + 1)
        labels[i] = at;
    o->site->own_labels = o->site->own_labels || own;
    *out = labels;
    return ATTN_OK;
}

static attn_status read_overview(opener *o) {
    static const char *const names[ATTN_RUN_PLANES][2] = {
        {"overview.max", "overview.mean"}, {"overview.top.max", "overview.top.mean"}};
    attn_run_site *site = o->site;
    attn_status status = ATTN_OK;
    site->pyramid = attn_run_pyramid_of(site->dims->L, site->dims->S);
    if (site->pyramid.overview == SIZE_MAX)
        return ATTN_OK;
    for (size_t p = 0; p < ATTN_RUN_PLANES && status == ATTN_OK; p++) {
        const size_t level = site->pyramid.overview + p;
        const size_t dims[4] = {site->dims->B, site->dims->Hq,
                                attn_run_cells_along(site->dims->L, level),
                                attn_run_cells_along(site->dims->S, level)};
        const void *max = NULL, *mean = NULL;
        status = need_tensor(o, names[p][0], ATTN_F32, 4, dims, &max);
        if (status == ATTN_OK)
            status = need_tensor(o, names[p][1], ATTN_F32, 4, dims, &mean);
        site->max[p] = max;
        site->mean[p] = mean;
    }
    return status;
}

attn_status attn_run_open(const void *data, size_t size, attn_arena *arena, attn_run **out,
                          attn_error *err) {
    attn_error ignored;
    opener o = {attn_arena_zeroed(arena, 1, sizeof *o.run),
                attn_arena_zeroed(arena, 1, sizeof *o.site), arena, err ? err : &ignored};
    if (!o.run || !o.site)
        return no_memory(&o);
    *o.run = (attn_run){.sites = o.site, .site_count = 1};
    o.site->run = o.run;
    o.site->info.name = "attention";
    o.site->in = attn_attention_defaults();
    attn_status status = attn_safetensors_read(data, size, arena, &o.run->file, o.err);
    if (status == ATTN_OK)
        status = read_inputs(&o);
    if (status != ATTN_OK)
        return status;
    choose_kernel(o.site);
    status = attn_attention_new(&o.site->in, arena, &o.site->op, o.err);
    if (status != ATTN_OK)
        return status;
    o.site->dims = attn_attention_dims_of(o.site->op);
    status = read_stats(&o);
    if (status == ATTN_OK)
        status = read_labels(&o, "labels.query", o.site->dims->L, &o.site->query_labels);
    if (status == ATTN_OK)
        status = read_labels(&o, "labels.key", o.site->dims->S, &o.site->key_labels);
    if (status == ATTN_OK)
        status = read_overview(&o);
    if (status == ATTN_OK)
        *out = o.run;
    return status;
}

size_t attn_run_site_count(const attn_run *run) {
    return run->site_count;
}
const attn_run_site_info *attn_run_site_info_of(const attn_run *run, size_t index) {
    return &run->sites[index].info;
}
attn_status attn_run_site_open(const attn_run *run, size_t index, const attn_run_site **out,
                               attn_error *err) {
    (void)err;
    *out = &run->sites[index];
    return ATTN_OK;
}

const char *attn_run_kind_name(attn_run_kind kind) {
#define NAME(name, text) text,
    static const char *const names[] = {ATTN_RUN_KIND_LIST(NAME)};
#undef NAME
    return (unsigned)kind < ATTN_RUN_KINDS ? names[kind] : NULL;
}
const attn_attention *attn_run_attention(const attn_run_site *site) {
    return site->op;
}
const attn_attention_dims *attn_run_dims(const attn_run_site *site) {
    return site->dims;
}
const attn_inputs *attn_run_inputs(const attn_run_site *site) {
    return &site->in;
}
const attn_stats *attn_run_stats(const attn_run_site *site) {
    return &site->stats;
}
const char *const *attn_run_query_labels(const attn_run_site *site, size_t batch) {
    const size_t own = site->own_labels ? batch * site->dims->L : 0;
    return site->query_labels ? site->query_labels + own : NULL;
}
const char *const *attn_run_key_labels(const attn_run_site *site, size_t batch) {
    const size_t own = site->own_labels ? batch * site->dims->S : 0;
    return site->key_labels ? site->key_labels + own : NULL;
}
size_t attn_run_label_entries(const attn_run_site *site) {
    const bool any = site->query_labels || site->key_labels;
    return site->own_labels ? site->dims->B : any;
}
bool attn_run_is_exact(const attn_run_site *site) {
    return site->exact;
}
const char *attn_run_words(const attn_run_site *site) {
    const char *words = attn_run_text(site->run, ATTN_RUN_WORDS);
    return words ? words : "";
}
