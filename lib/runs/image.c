/* Makes images (FORMAT.md), and computes their cost. An image has
 *
 * - the input tensors of each site; a tensor is copied only if it is not dense
 * - boolean masks, packed to one bit a cell
 * - row statistics and the overview of sites that have run
 * - all else as JSON under the key "run" of the metadata
 *
 * A tensor or a mask that several sites share is in the image once. */
#include <stdio.h>
#include <string.h>

#include "attention/resolved.h"
#include "base/try.h"
#include "io/growing_list.h"
#include "io/safetensors_layout.h"
#include "runs/copy.h"
#include "runs/format.h"
#include "runs/inputs.h"
#include "runs/pooling.h"
#include "runs/texts.h"

enum { NAME = 96 }; /* largest size of a tensor's name in bytes, with the NUL */

/* A tensor of the caller and its name in the file. */
typedef struct given {
    attn_tensor tensor;
    const char *name;
} given;

/* A boolean mask that was packed. */
typedef struct packed {
    attn_tensor before;       /* the mask of the caller */
    attn_semantics semantics; /* meaning of the elements of `before` */
    size_t keys;              /* S of the site for which the mask was packed */
    attn_mask_layer after;    /* the mask in the file */
    const char *name;         /* name of the tensor in the file */
} packed;

typedef struct builder {
    const attn_run_source *source;
    attn_pool *pool;
    const attn_control *control;
    attn_arena *arena;
    attn_error *err;
    /* attn_named_tensor elements: the tensors of the file, in the order of sites */
    attn_io_list tensors;
    attn_io_list given; /* `given` elements: tensors of the caller that later sites may share */
    attn_io_list masks; /* `packed` elements: boolean masks that were packed */
    size_t site;        /* index of the present site */
    size_t keys;        /* S of the present site */
    attn_json_text text;
    attn_status status; /* the first error; after an error the functions below do nothing */
} builder;

static void fail_memory(builder *b) {
    if (!b->status)
        b->status = attn_no_memory(b->err, "the stored run");
}

/* Appends an item of `each` bytes to one of the lists and returns it. NULL: out of memory. */
static void *append_item(builder *b, attn_io_list *list, size_t each) {
    list->each = each;
    void *item = attn_io_append(list, b->arena);
    if (!item)
        fail_memory(b);
    return item;
}

/* --- tensors --- */

static bool is_same(const attn_tensor *a, const attn_tensor *b) {
    const size_t axes = (size_t)a->rank;
    return a->data == b->data && a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dims, b->dims, axes * sizeof *a->dims) == 0 &&
           memcmp(a->strides, b->strides, axes * sizeof *a->strides) == 0;
}

static given *find_given(const builder *b, const attn_tensor *t) {
    given *g = b->given.items;
    for (size_t i = 0; i < b->given.count; i++)
        if (is_same(&g[i].tensor, t))
            return &g[i];
    return NULL;
}

/* Appends a tensor to the file. Returns its name, or NULL on an error. */
static const char *append_tensor(builder *b, const char *name, const attn_tensor *t) {
    const char *copy = attn_arena_text(b->arena, name, strlen(name));
    attn_named_tensor *n = copy ? append_item(b, &b->tensors, sizeof *n) : NULL;
    if (!n) {
        fail_memory(b);
        return NULL;
    }
    *n = (attn_named_tensor){copy, *t};
    attn_run_copier c = {.arena = b->arena};
    if (!attn_tensor_is_dense(t))
        attn_run_copy_tensor(&c, &n->tensor);
    if (c.failed)
        fail_memory(b);
    return b->status ? NULL : copy;
}

/* Adds the tensor as "sites.N.MEMBER". Returns this name, or NULL on an error. */
static const char *add_tensor(builder *b, const char *member, const attn_tensor *t) {
    char name[NAME];
    if (b->status)
        return NULL;
    snprintf(name, sizeof name, "sites.%zu.%.64s", b->site, member);
    for (char *p = name; *p; p++)
        *p = *p == '/' ? '.' : *p;
    return append_tensor(b, name, t);
}

/* Implements attn_run_naming.tensor. */
static const char *name_tensor(void *ctx, const char *member, const attn_tensor *t) {
    builder *b = ctx;
    given *g = find_given(b, t);
    const char *name = g ? g->name : add_tensor(b, member, t);
    if (!g && name && (g = append_item(b, &b->given, sizeof *g)))
        *g = (given){*t, name};
    return name ? name : "";
}

/* Returns an earlier mask that has the same data and meaning and was packed for the same number of
 * keys. NULL: there is no such mask. */
static const packed *find_packed(const builder *b, const attn_mask_layer *layer) {
    const packed *p = b->masks.items;
    for (size_t i = 0; i < b->masks.count; i++, p++)
        if (is_same(&p->before, &layer->values) && p->semantics == layer->semantics &&
            p->keys == b->keys)
            return p;
    return NULL;
}

/* Packs a boolean mask that the file does not have yet, and adds it. NULL: an error. */
static const packed *add_packed(builder *b, const char *member, const attn_mask_layer *before) {
    attn_mask_layer after = *before;
    b->status = attn_run_mask_pack(&after, b->keys, b->arena, b->err);
    const char *name = add_tensor(b, member, &after.values);
    packed *p = name ? append_item(b, &b->masks, sizeof *p) : NULL;
    if (p)
        *p = (packed){before->values, before->semantics, b->keys, after, name};
    return p;
}

/* Implements attn_run_naming.mask. */
static const char *name_mask(void *ctx, const char *member, attn_mask_layer *layer) {
    builder *b = ctx;
    if (b->status || !layer->values.rank)
        return "";
    if (!attn_run_mask_is_boolean(layer)) {
        if (layer->kind == ATTN_LAYER_VALUES && layer->semantics == ATTN_SEM_UNSTATED)
            layer->semantics = ATTN_SEM_ADDITIVE;
        return name_tensor(b, member, &layer->values);
    }
    const packed *p = find_packed(b, layer);
    if (!p && !(p = add_packed(b, member, layer)))
        return "";
    layer->kind = p->after.kind;
    layer->semantics = p->after.semantics;
    return p->name;
}

/* --- what was computed --- */

static void add_stats(builder *b, const attn_attention_dims *d, const attn_stats *stats) {
    const size_t dims[3] = {d->B, d->Hq, d->L};
    const attn_tensor max = attn_tensor_dense(stats->max, ATTN_F64, 3, dims);
    const attn_tensor sum = attn_tensor_dense(stats->sum, ATTN_F64, 3, dims);
    const attn_tensor kind = attn_tensor_dense(stats->kind, ATTN_U8, 3, dims);
    add_tensor(b, "stats.max", &max);
    add_tensor(b, "stats.sum", &sum);
    add_tensor(b, "stats.kind", &kind);
}

static void add_plane(builder *b, const attn_attention_dims *d, const char *format, size_t level,
                      float *cells) {
    const size_t dims[4] = {d->B, d->Ho, attn_run_cells_along(d->L, level),
                            attn_run_cells_along(d->S, level)};
    const attn_tensor t = attn_tensor_dense(cells, ATTN_F32, 4, dims);
    char name[NAME];
    snprintf(name, sizeof name, format, level);
    add_tensor(b, name, &t);
}

static void add_overview(builder *b, const attn_attention *op, const attn_stats *stats) {
    const attn_run_pyramid pyramid = attn_run_pyramid_of(op->dims.L, op->dims.S);
    const attn_run_matrix matrix = {.terms = {{op, stats}}, .count = 1};
    const attn_run_head_span all = {0, op->dims.B * op->dims.Ho};
    attn_run_planes planes = {{0}, {0}};
    if (pyramid.overview == SIZE_MAX || b->status)
        return;
    b->status = attn_run_planes_new(&pyramid, all.count, b->arena, &planes)
                    ? attn_run_overview_make(&matrix, &all, &pyramid, b->pool, b->control, b->arena,
                                             NULL, &planes, b->err)
                    : attn_no_memory(b->err, "the overview");
    for (size_t level = pyramid.overview; level < pyramid.levels && !b->status; level++) {
        add_plane(b, &op->dims, ATTN_RUN_OVERVIEW_MAX, level, planes.max[level]);
        add_plane(b, &op->dims, ATTN_RUN_OVERVIEW_MEAN, level, planes.mean[level]);
    }
}

/* --- the text --- */

/* Writes the operation with the names of its operands. A reader computes a query offset that is not
 * written from the starts of queries and keys. So the default offset, 0, is written if these starts
 * differ. */
static void write_operation(builder *b, const attn_run_site_source *site) {
    const attn_run_naming to = {&b->text, name_tensor, name_mask, b};
    const attn_attention *op = site->op;
    attn_inputs in = op->in;
    static const int64_t zero = 0;
    if (!in.key.rank) {
        in.key = in.query;
        in.value = in.value.rank ? in.value : in.query;
    }
    if (in.mask.offset == ATTN_OFFSET_DEFAULT && site->info.query_start != site->info.key_start &&
        !op->dims.past) {
        in.mask.offset = ATTN_OFFSET_GIVEN;
        in.mask.offsets = &zero;
        in.mask.offset_count = 1;
    }
    attn_run_write_operation(&to, &in);
}

static attn_status check_site(const builder *b, const attn_run_site_source *site) {
    const attn_run_site_info *info = &site->info;
    const attn_attention_dims *d = &site->op->dims;
    ATTN_TRY(
        attn_run_check_info(info, d, b->source->texts, b->source->text_count, b->site, b->err));
    return info->axes ? attn_run_axes_check(d, info->axes, info->axis_count, b->err) : ATTN_OK;
}

static void add_site(builder *b, const attn_run_site_source *site) {
    const attn_attention *op = site->op;
    attn_json_text *t = &b->text;
    b->status = check_site(b, site);
    b->keys = op->dims.S;
    attn_json_object(t);
    if (!b->status) {
        attn_run_write_info(t, &site->info, op->dims.B);
        write_operation(b, site);
    }
    if (site->stats && !b->status) {
        const char *words = attn_mask_words(op->mask, b->arena);
        if (!*words)
            fail_memory(b);
        attn_run_write_text(t, "kernel", op->kernels->name);
        attn_run_write_text(t, "mask_words", words);
        add_stats(b, &op->dims, site->stats);
        add_overview(b, op, site->stats);
    }
    attn_json_object_end(t);
    b->site++;
}

static void write_run(builder *b) {
    const attn_run_source *source = b->source;
    attn_json_text *t = &b->text;
    attn_json_object(t);
    attn_json_key_int(t, "version", ATTN_RUN_FORMAT);
    attn_run_write_text(t, "model", source->model);
    attn_run_write_text_list(t, source->texts, source->text_count);
    attn_json_key_array(t, "sites");
    for (size_t i = 0; i < source->site_count && !b->status; i++)
        add_site(b, &source->sites[i]);
    attn_json_array_end(t);
    attn_json_object_end(t);
    attn_json_put(t, "", 1);
    if (t->failed)
        fail_memory(b);
}

/* --- the image --- */

static attn_status check_metadata(const attn_metadata *metadata, size_t count, attn_error *err) {
    bool wrong = count > ATTN_RUN_METADATA;
    size_t i = 0;
    for (; i < count && !wrong; i++) {
        const char *key = metadata[i].key;
        wrong = strcmp(key, "run") == 0 || strncmp(key, "run.", 4) == 0;
        for (size_t k = 0; k < i; k++)
            wrong = wrong || strcmp(key, metadata[k].key) == 0;
    }
    return wrong ? attn_fail(err, ATTN_EARG, "metadata",
                             "expected at most %d different keys other than \"run\" and those that "
                             "begin with \"run.\", found \"%.64s\"",
                             ATTN_RUN_METADATA, metadata[i ? i - 1 : 0].key)
                 : ATTN_OK;
}

/* Makes the image: a header and the data of the tensors. The pieces of the image are pointers to
 * the data, not copies. */
static attn_status make_image(attn_safetensors *file, attn_arena *arena, attn_run_image *out,
                              attn_error *err) {
    const void *header;
    size_t size, n = 0;
    ATTN_TRY(attn_safetensors_sealed_header(file, ATTN_RUN_SEAL, arena, &header, &size, err));
    attn_run_piece *pieces = attn_arena_zeroed(arena, file->count + 1, sizeof *pieces);
    ATTN_TAKEN(pieces, "the stored run", err);
    pieces[n++] = (attn_run_piece){header, size};
    for (size_t i = 0; i < file->count; i++) {
        const attn_tensor *t = &file->tensors[i].tensor;
        size_t bytes;
        if (!attn_io_tensor_bytes(t, &bytes) || !attn_size_add(size, bytes, &size))
            return attn_fail(err, ATTN_ELIMIT, file->tensors[i].name, "it cannot be counted");
        if (bytes)
            pieces[n++] = (attn_run_piece){t->data, bytes};
    }
    *out = (attn_run_image){pieces, n, size};
    return ATTN_OK;
}

attn_status attn_run_image_new(const attn_run_source *source, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_run_image *out,
                               attn_error *err) {
    const size_t count = source->metadata_count;
    attn_metadata *metadata = attn_arena_zeroed(arena, count + 1, sizeof *metadata);
    builder b = {.source = source,
                 .pool = pool,
                 .control = control,
                 .arena = arena,
                 .err = err,
                 .text = {.arena = arena}};
    ATTN_TAKEN(metadata, "the stored run", err);
    ATTN_TRY(check_metadata(source->metadata, count, err));
    write_run(&b);
    ATTN_TRY(b.status);
    metadata[0] = (attn_metadata){"run", b.text.data};
    for (size_t i = 0; i < count; i++)
        metadata[i + 1] = source->metadata[i];
    attn_safetensors file = {.tensors = b.tensors.items,
                             .count = b.tensors.count,
                             .metadata = metadata,
                             .metadata_count = count + 1};
    return make_image(&file, arena, out, err);
}

attn_status attn_run_cost(const attn_attention_dims *d, size_t slots, attn_cost *out,
                          attn_error *err) {
    const attn_run_pyramid p = attn_run_pyramid_of(d->L, d->S);
    const double heads = (double)d->B * (double)(d->Hq > d->Ho ? d->Hq : d->Ho);
    const double rows = heads * (double)d->L;
    const double elem = d->result == ATTN_F64 ? 8 : 4;
    double image = rows * (17 + elem * (double)d->E) + 65536 +
                   elem * (double)d->B * (double)d->S *
                       ((double)d->Hkv * (double)d->Ek + (double)d->Hv * (double)d->Ev);
    size_t work = 0;
    attn_cost cost = {.cells = 0};
    if (p.overview != SIZE_MAX) {
        double planes;
        cost.cells = rows * (double)d->S;
        cost.operations = cost.cells * 2 * (double)d->score_width;
        if (!attn_run_overview_bytes(&(attn_run_shapes){.dims = {d}}, &p, slots, &planes, &work))
            return attn_fail(err, ATTN_ELIMIT, "store", "more bytes than can be counted");
        image += heads * planes;
        work += (size_t)(heads * planes);
    }
    cost.work_bytes = work;
    cost.result_bytes = (size_t)image;
    *out = cost;
    return ATTN_OK;
}
