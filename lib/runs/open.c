/* Opens images as runs, and their sites on first use. An image may come from anywhere. Names,
 * shapes and numbers are checked when the run is opened (format.c). The elements of masks and
 * tables are checked when a site is opened (attn_attention_new). */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/resolved.h"
#include "base/try.h"
#include "runs/format.h"
#include "runs/texts.h"

/* --- the file --- */

/* Refuses unusable tensors whose names begin with "sites.". Other tensors may be unusable. */
static attn_status check_unusable(const attn_run *run, attn_error *err) {
    for (size_t i = 0; i < run->file.unusable_count; i++) {
        const attn_unusable_tensor *t = &run->file.unusable[i];
        if (strncmp(t->name, "sites.", 6) == 0)
            return attn_fail(err, t->code, t->name, "%s", t->reason);
    }
    return ATTN_OK;
}

static attn_status read_file(attn_run *run, const void *data, size_t size, attn_error *err) {
    ATTN_TRY(attn_safetensors_read_usable(data, size, run->arena, &run->file, err));
    ATTN_TRY(
        attn_safetensors_seal(data, size, &run->file, ATTN_RUN_SEAL, run->arena, &run->seal, err));
    run->by_name = attn_arena_zeroed(run->arena, run->file.count + 1, sizeof *run->by_name);
    ATTN_TAKEN(run->by_name, "the stored run", err);
    for (size_t i = 0; i < run->file.count; i++)
        run->by_name[i] = &run->file.tensors[i];
    if (run->file.count)
        qsort(run->by_name, run->file.count, sizeof *run->by_name, attn_run_by_name);
    return ATTN_OK;
}

attn_status attn_run_open(const void *data, size_t size, const attn_run_limits *limits,
                          attn_arena *arena, attn_run **out, attn_error *err) {
    attn_error ignored;
    attn_run *run = attn_arena_zeroed(arena, 1, sizeof *run);
    pthread_mutex_t *lock = attn_arena_zeroed(arena, 1, sizeof *lock);
    attn_run_limits most = limits ? *limits : (attn_run_limits){0};
    err = err ? err : &ignored;
    ATTN_TAKEN(run && lock, "the stored run", err);
    pthread_mutex_init(lock, NULL);
    most.sites = most.sites ? most.sites : ATTN_RUN_SITES_MOST;
    most.text_bytes = most.text_bytes ? most.text_bytes : ATTN_RUN_BYTES_MOST;
    run->arena = arena;
    run->lock = lock;
    ATTN_TRY(read_file(run, data, size, err));
    const char *text = attn_run_metadata(run, "run");
    if (!text)
        return attn_fail(
            err, ATTN_EARG, "run",
            "expected the text \"run\" in the metadata, which describes the sites of a run");
    ATTN_TRY(check_unusable(run, err));
    ATTN_TRY(attn_run_read_format(run, text, &most, err));
    *out = run;
    return ATTN_OK;
}

/* --- sites --- */

/* A site that is being opened. */
typedef struct opening {
    attn_run_site *site;
    attn_error *err;
    attn_status status; /* the first error; after an error the functions below do nothing */
} opening;

/* Returns the data of the tensor "sites.N.NAME"; NULL if the file has no such tensor. It is an
 * error if the tensor has another type or shape, or if it is missing and `needed`. */
static void *find_data(opening *o, const char *name, attn_dtype dtype, int rank, const size_t *dims,
                       bool needed) {
    char full[96], shape[128];
    snprintf(full, sizeof full, "sites.%zu.%s", attn_run_site_index(o->site), name);
    const attn_tensor *t = attn_run_find_tensor(o->site->run, full);
    if (o->status)
        return NULL;
    if (!t && needed)
        o->status = attn_fail(o->err, ATTN_EARG, name, "the tensor is missing");
    else if (t && (t->dtype != dtype || t->rank != rank || !attn_tensor_is_aligned(t) ||
                   memcmp(t->dims, dims, (size_t)rank * sizeof *dims) != 0))
        o->status =
            attn_fail(o->err, ATTN_ESHAPE, full, "expected %s of shape %s", attn_dtype_name(dtype),
                      attn_shape_text(dims, rank, shape, sizeof shape));
    return t && !o->status ? t->data : NULL;
}

/* Chooses the kernel table that computed the run, if this processor supports the table. Weights are
 * then equal to those of the original run in every bit. */
static void choose_kernel(attn_run_site *site) {
    attn_attention_dims d = site->shape;
    site->exact =
        !site->kernel || attn_kernels_find(site->kernel, d.precision, d.tanh_score, &d.isa);
    if (site->exact && site->kernel)
        site->in.kernel = site->kernel;
}

/* Sets the statistics to those in the image. If the image has none, prepares statistics that are
 * computed on first use. */
static void read_stats(opening *o) {
    attn_run_site *site = o->site;
    const size_t dims[3] = {site->dims->B, site->dims->Hq, site->dims->L};
    const size_t rows = dims[0] * dims[1] * dims[2];
    const bool needed = site->kernel != NULL;
    const attn_stats stats = {.max = find_data(o, "stats.max", ATTN_F64, 3, dims, needed),
                              .sum = find_data(o, "stats.sum", ATTN_F64, 3, dims, needed),
                              .kind = find_data(o, "stats.kind", ATTN_U8, 3, dims, needed)};
    if (!o->status && !needed)
        o->status = attn_run_stats_new(site, o->err);
    if (o->status || !needed)
        return;
    site->stats = stats;
    for (size_t i = 0; i < rows && !o->status; i++)
        if (stats.kind[i] > ATTN_ROW_DOUBLE)
            o->status = attn_fail(o->err, ATTN_EVALUE, "stats.kind", "expected 0 or 1");
}

static float *read_plane(opening *o, const char *format, size_t level) {
    const attn_attention_dims *d = o->site->dims;
    const size_t dims[4] = {d->B, d->Hq, attn_run_cells_along(d->L, level),
                            attn_run_cells_along(d->S, level)};
    char name[48];
    snprintf(name, sizeof name, format, level);
    return find_data(o, name, ATTN_F32, 4, dims, true);
}

static void read_overview(opening *o) {
    attn_run_site *site = o->site;
    attn_run_pyramid *p = &site->pyramid;
    *p = attn_run_pyramid_of(site->dims->L, site->dims->S);
    if (!site->kernel)
        p->overview = SIZE_MAX;
    for (size_t level = p->overview; level < p->levels && !o->status; level++) {
        site->overview.max[level] = read_plane(o, ATTN_RUN_OVERVIEW_MAX, level);
        site->overview.mean[level] = read_plane(o, ATTN_RUN_OVERVIEW_MEAN, level);
    }
}

static attn_status open_site(attn_run_site *site, attn_error *err) {
    attn_arena *arena = site->run->arena;
    opening o = {site, err, ATTN_OK};
    choose_kernel(site);
    ATTN_TRY(attn_run_gather(site, err));
    ATTN_TRY(attn_attention_new(&site->in, arena, &site->op, err));
    site->dims = attn_attention_dims_of(site->op);
    ATTN_TAKEN(site->words || *(site->words = attn_mask_words(site->op->mask, arena)),
               "the stored run", err);
    read_stats(&o);
    ATTN_TRY(o.status);
    ATTN_TRY(attn_run_labels_make(site, err));
    ATTN_TRY(attn_run_padding_new(site, err));
    read_overview(&o);
    return o.status;
}

/* Opens the site; on an error, the site stays as it was. The caller must hold the lock of the
 * run. */
static attn_status try_site(attn_run_site *site, attn_error *err) {
    const attn_arena_mark mark = attn_arena_here(site->run->arena);
    const char *words = site->words;
    const attn_status status = open_site(site, err);
    atomic_store(&site->opened, !status);
    if (!status)
        return ATTN_OK;
    attn_run_at_site(site, err);
    attn_arena_rewind(site->run->arena, &mark); /* gives back the memory of the site */
    site->words = words;
    site->query_labels = site->key_labels = NULL;
    site->query_special = site->key_special = NULL;
    site->padding = NULL;
    return status;
}

attn_status attn_run_site_open(const attn_run *run, size_t index, const attn_run_site **out,
                               attn_error *err) {
    attn_run_site *site = &run->sites[index];
    attn_status status = ATTN_OK;
    if (!atomic_load(&site->opened)) {
        pthread_mutex_lock(run->lock);
        if (!atomic_load(&site->opened))
            status = try_site(site, err);
        pthread_mutex_unlock(run->lock);
    }
    *out = status ? NULL : site;
    return status;
}
