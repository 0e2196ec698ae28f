/* Opens images as runs, and sites when they are asked for. An image may come from anywhere. What
 * depends on names, shapes and numbers is checked when the run is opened (format.c);
 * attn_attention_new checks the elements of masks and tables when a site is. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/resolved.h"
#include "runs/private.h"

static attn_status no_memory(attn_error *err) {
    return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the stored run");
}

/* --- the file --- */

static int by_name(const void *a, const void *b) {
    const attn_named_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

const attn_tensor *attn_run_find_tensor(const attn_run *run, const char *name) {
    const attn_named_tensor key = {.name = name}, *wanted = &key;
    const attn_named_tensor **found =
        run->file.count ? bsearch(&wanted, run->by_name, run->file.count, sizeof *found, by_name)
                        : NULL;
    return found ? &(*found)->tensor : NULL;
}

const char *attn_run_metadata(const attn_run *run, const char *key) {
    for (size_t i = 0; i < run->file.metadata_count; i++)
        if (strcmp(run->file.metadata[i].key, key) == 0)
            return run->file.metadata[i].text;
    return NULL;
}

/* Refuses tensors of a site that are unusable. Other tensors of a capture may be anything. */
static attn_status check_unusable(const attn_run *run, attn_error *err) {
    for (size_t i = 0; i < run->file.unusable_count; i++) {
        const attn_unusable_tensor *t = &run->file.unusable[i];
        if (strncmp(t->name, "sites.", 6) == 0)
            return attn_fail(err, t->code, t->name, "%s", t->reason);
    }
    return ATTN_OK;
}

static attn_status read_file(attn_run *run, const void *data, size_t size, attn_error *err) {
    attn_status status = attn_safetensors_read_usable(data, size, run->arena, &run->file, err);
    if (status)
        return status;
    status =
        attn_safetensors_seal(data, size, &run->file, ATTN_RUN_SEAL, run->arena, &run->seal, err);
    if (status)
        return status;
    run->by_name = attn_arena_zeroed(run->arena, run->file.count + 1, sizeof *run->by_name);
    if (!run->by_name)
        return no_memory(err);
    for (size_t i = 0; i < run->file.count; i++)
        run->by_name[i] = &run->file.tensors[i];
    if (run->file.count)
        qsort(run->by_name, run->file.count, sizeof *run->by_name, by_name);
    return ATTN_OK;
}

attn_status attn_run_open(const void *data, size_t size, const attn_run_limits *limits,
                          attn_arena *arena, attn_run **out, attn_error *err) {
    attn_error ignored;
    attn_run *run = attn_arena_zeroed(arena, 1, sizeof *run);
    pthread_mutex_t *lock = attn_arena_zeroed(arena, 1, sizeof *lock);
    attn_run_limits most = limits ? *limits : (attn_run_limits){0};
    err = err ? err : &ignored;
    if (!run || !lock)
        return no_memory(err);
    pthread_mutex_init(lock, NULL);
    most.sites = most.sites ? most.sites : ATTN_RUN_SITES_MOST;
    most.text_bytes = most.text_bytes ? most.text_bytes : ATTN_RUN_BYTES_MOST;
    run->arena = arena;
    run->lock = lock;
    attn_status status = read_file(run, data, size, err);
    if (status)
        return status;
    const char *text = attn_run_metadata(run, "run");
    if (!text)
        return attn_fail(
            err, ATTN_EARG, "run",
            "expected the text \"run\" in the metadata, which describes the sites of a run");
    status = check_unusable(run, err);
    if (!status)
        status = attn_run_read_format(run, text, &most, err);
    if (!status)
        *out = run;
    return status;
}

/* --- sites --- */

/* Finds the tensor "sites.N.name" and stores its data in *data. *data stays NULL
 * if there is none. It is an error if it has another type or shape. */
static attn_status find_data(const attn_run_site *site, const char *name, attn_dtype dtype,
                             int rank, const size_t *dims, const void **data, attn_error *err) {
    char full[96], shape[128];
    snprintf(full, sizeof full, "sites.%zu.%s", attn_run_site_index(site), name);
    const attn_tensor *t = attn_run_find_tensor(site->run, full);
    *data = NULL;
    if (!t)
        return ATTN_OK;
    if (t->dtype == dtype && t->rank == rank && attn_tensor_is_aligned(t) &&
        memcmp(t->dims, dims, (size_t)rank * sizeof *dims) == 0) {
        *data = t->data;
        return ATTN_OK;
    }
    return attn_fail(err, ATTN_ESHAPE, full, "expected %s of shape %s", attn_dtype_name(dtype),
                     attn_shape_text(dims, rank, shape, sizeof shape));
}

static attn_status missing(const char *name, attn_error *err) {
    return attn_fail(err, ATTN_EARG, name, "the tensor is missing");
}

/* Chooses the kernel table that computed the run, if this processor supports it. Weights are then
 * equal to those of the original run in every bit. */
static void choose_kernel(attn_run_site *site) {
    attn_attention_dims d = site->shape;
    site->exact =
        !site->kernel || attn_kernels_find(site->kernel, d.precision, d.tanh_score, &d.isa);
    if (site->exact && site->kernel)
        site->in.kernel = site->kernel;
}

/* Takes the statistics from the image, or prepares those that are computed later. */
static attn_status read_stats(attn_run_site *site, attn_error *err) {
    const size_t dims[3] = {site->dims->B, site->dims->Hq, site->dims->L};
    const size_t rows = dims[0] * dims[1] * dims[2];
    const void *max, *sum = NULL, *kind = NULL;
    attn_status status = find_data(site, "stats.max", ATTN_F64, 3, dims, &max, err);
    if (status == ATTN_OK)
        status = find_data(site, "stats.sum", ATTN_F64, 3, dims, &sum, err);
    if (status == ATTN_OK)
        status = find_data(site, "stats.kind", ATTN_U8, 3, dims, &kind, err);
    if (status != ATTN_OK)
        return status;
    if (!site->kernel)
        return attn_run_stats_new(site, err);
    if (!max || !sum || !kind)
        return missing(max ? sum ? "stats.kind" : "stats.sum" : "stats.max", err);
    site->stats = (attn_stats){.max = (double *)(uintptr_t)max,
                               .sum = (double *)(uintptr_t)sum,
                               .kind = (uint8_t *)(uintptr_t)kind};
    for (size_t i = 0; i < rows; i++)
        if (site->stats.kind[i] > ATTN_ROW_DOUBLE)
            return attn_fail(err, ATTN_EVALUE, "stats.kind", "expected 0 or 1");
    return ATTN_OK;
}

static attn_status read_plane(attn_run_site *site, const char *name, size_t level, float **out,
                              attn_error *err) {
    const attn_attention_dims *d = site->dims;
    const size_t dims[4] = {d->B, d->Hq, attn_run_cells_along(d->L, level),
                            attn_run_cells_along(d->S, level)};
    const void *data;
    attn_status status = find_data(site, name, ATTN_F32, 4, dims, &data, err);
    *out = (float *)(uintptr_t)data;
    return status || data ? status : missing(name, err);
}

static attn_status read_overview(attn_run_site *site, attn_error *err) {
    attn_run_pyramid *p = &site->pyramid;
    attn_status status = ATTN_OK;
    *p = attn_run_pyramid_of(site->dims->L, site->dims->S);
    if (!site->kernel)
        p->overview = SIZE_MAX;
    if (p->overview == SIZE_MAX)
        return ATTN_OK;
    for (size_t level = p->overview; level < p->levels && !status; level++) {
        char name[48];
        snprintf(name, sizeof name, ATTN_RUN_OVERVIEW_MAX, level);
        status = read_plane(site, name, level, &site->overview.max[level], err);
        snprintf(name, sizeof name, ATTN_RUN_OVERVIEW_MEAN, level);
        if (!status)
            status = read_plane(site, name, level, &site->overview.mean[level], err);
    }
    return status;
}

/* Opens the site. The caller has the lock of the run. */
static attn_status open_site(attn_run_site *site, attn_error *err) {
    attn_arena *arena = site->run->arena;
    choose_kernel(site);
    attn_status status = attn_attention_new(&site->in, arena, &site->op, err);
    if (status != ATTN_OK)
        return status;
    site->dims = attn_attention_dims_of(site->op);
    if (!site->words && !*(site->words = attn_mask_words(site->op->mask, arena)))
        return no_memory(err);
    status = read_stats(site, err);
    if (status == ATTN_OK)
        status = attn_run_labels_make(site, err);
    if (!status)
        status = attn_run_padding_new(site, err);
    return status ? status : read_overview(site, err);
}

void attn_run_at_site(const attn_run_site *site, attn_error *err) {
    char where[80];
    if (!err || strncmp(err->where, "sites", 5) == 0)
        return;
    snprintf(where, sizeof where, "%.79s", err->where);
    snprintf(err->where, sizeof err->where, "sites/%zu%s%.66s", (size_t)(site - site->run->sites),
             *where ? "/" : "", where);
}

attn_status attn_run_site_open(const attn_run *run, size_t index, const attn_run_site **out,
                               attn_error *err) {
    attn_run_site *site = &run->sites[index];
    attn_status status = ATTN_OK;
    if (!atomic_load(&site->opened)) {
        pthread_mutex_lock(run->lock);
        if (!atomic_load(&site->opened)) {
            const attn_arena_mark mark = attn_arena_here(run->arena);
            const char *words = site->words;
            status = open_site(site, err);
            if (status) { /* what it holds of the arena goes */
                attn_run_at_site(site, err);
                attn_arena_rewind(run->arena, &mark);
                site->words = words;
                site->query_labels = site->key_labels = NULL;
                site->query_special = site->key_special = NULL;
                site->padding = NULL;
            } else {
                atomic_store(&site->opened, true);
            }
        }
        pthread_mutex_unlock(run->lock);
    }
    *out = status ? NULL : site;
    return status;
}

/* --- parts --- */

const attn_checksums *attn_run_checksums(const attn_run *run, const void **bytes) {
    *bytes = run->seal.bytes;
    return run->seal.version ? &run->seal.checksums : NULL;
}
const char *attn_run_model(const attn_run *run) {
    return run->model;
}
const attn_run_text *attn_run_texts(const attn_run *run, size_t *count) {
    *count = run->text_count;
    return run->texts;
}
size_t attn_run_site_count(const attn_run *run) {
    return run->site_count;
}
const attn_run_site_info *attn_run_site_info_of(const attn_run *run, size_t index) {
    return &run->sites[index].info;
}
const attn_attention_dims *attn_run_site_shape(const attn_run *run, size_t index) {
    return &run->sites[index].shape;
}

size_t attn_run_site_index(const attn_run_site *site) {
    return (size_t)(site - site->run->sites);
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
const uint8_t *attn_run_query_special(const attn_run_site *site, size_t batch) {
    return site->query_special ? site->query_special[site->own_labels ? batch : 0] : NULL;
}
const uint8_t *attn_run_key_special(const attn_run_site *site, size_t batch) {
    return site->key_special ? site->key_special[site->own_labels ? batch : 0] : NULL;
}
size_t attn_run_label_entries(const attn_run_site *site) {
    const bool any = site->query_labels || site->key_labels;
    return site->own_labels ? site->dims->B : any;
}
bool attn_run_is_exact(const attn_run_site *site) {
    return site->exact;
}
const char *attn_run_words(const attn_run_site *site) {
    return site->words;
}
