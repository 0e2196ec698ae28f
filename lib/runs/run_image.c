/* Makes images of format 2 (FORMAT.md): a safetensors container with
 *
 * - the input tensors of each site: dense ones are not copied, others are
 * - boolean masks, packed to one bit a cell
 * - row statistics and the overview of sites that have run
 * - all else as JSON under the key "run" of the metadata
 *
 * A tensor that several sites share, and a mask that they share, is in the file once. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runs/run_copy.h"
#include "runs/run_operation.h"
#include "runs/run_pool.h"

enum {
    /* most tensors of a site: inputs, masks, statistics, overview */
    SITE_TENSORS = 48 + 2 * ATTN_RUN_LEVELS,
    NAME = 96, /* bytes of a tensor's name, with the NUL */
};

/* A mask that was packed, and what it was before. */
typedef struct packed {
    attn_tensor before;
    attn_semantics semantics;
    attn_mask_layer after;
} packed;

typedef struct builder {
    const attn_run_source *source;
    attn_pool *pool;
    const attn_control *control;
    attn_arena *arena;
    attn_error *err;
    attn_safetensors file;
    attn_tensor *given; /* [file.count] the tensors as the caller has them */
    packed *masks;      /* [mask_count] */
    size_t mask_count, site;
    attn_json_text text;
    attn_status status; /* the first error; the functions below then do nothing */
} builder;

static void no_memory(builder *b) {
    if (!b->status)
        b->status = attn_fail(b->err, ATTN_ENOMEM, "", "no memory left for the stored run");
}

/* --- tensors --- */

static bool is_same(const attn_tensor *a, const attn_tensor *b) {
    const size_t axes = (size_t)a->rank;
    return a->data == b->data && a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dims, b->dims, axes * sizeof *a->dims) == 0 &&
           memcmp(a->strides, b->strides, axes * sizeof *a->strides) == 0;
}

/* Returns the name under which the file has the tensor; NULL: it does not have it. */
static const char *find_given(const builder *b, const attn_tensor *t) {
    for (size_t i = 0; i < b->file.count; i++)
        if (is_same(&b->given[i], t))
            return b->file.tensors[i].name;
    return NULL;
}

/* Adds the tensor as "sites.N.MEMBER". Returns its name; NULL: an error. */
static const char *add_tensor(builder *b, const char *member, const attn_tensor *t) {
    attn_named_tensor *n = &b->file.tensors[b->file.count];
    char name[NAME];
    if (b->status)
        return NULL;
    snprintf(name, sizeof name, "sites.%zu.%.64s", b->site, member);
    for (char *p = name; *p; p++)
        *p = *p == '/' ? '.' : *p;
    *n = (attn_named_tensor){attn_arena_text(b->arena, name, strlen(name)), *t};
    if (!n->name) {
        no_memory(b);
        return NULL;
    }
    if (!attn_tensor_is_dense(t) && !attn_run_copy_tensor(&n->tensor, b->arena)) {
        no_memory(b);
        return NULL;
    }
    b->given[b->file.count++] = *t;
    return n->name;
}

/* attn_run_naming.tensor */
static void put_tensor(void *ctx, const char *member, const attn_tensor *t) {
    builder *b = ctx;
    const char *name = find_given(b, t);
    if (!name)
        name = add_tensor(b, member, t);
    attn_json_put_string(&b->text, name ? name : "");
}

/* attn_run_naming.mask */
static attn_mask_layer put_mask(void *ctx, const char *member, const attn_mask_layer *given) {
    builder *b = ctx;
    attn_mask_layer layer = *given;
    (void)member;
    if (b->status)
        return layer;
    if (layer.kind == ATTN_LAYER_VALUES && !attn_run_mask_is_boolean(&layer) &&
        layer.semantics == ATTN_SEM_UNSTATED)
        layer.semantics = ATTN_SEM_ADDITIVE;
    if (!attn_run_mask_is_boolean(&layer))
        return layer;
    for (size_t i = 0; i < b->mask_count; i++)
        if (is_same(&b->masks[i].before, &given->values) &&
            b->masks[i].semantics == given->semantics) {
            layer.kind = b->masks[i].after.kind;
            layer.semantics = b->masks[i].after.semantics;
            layer.values = b->masks[i].after.values;
            return layer;
        }
    b->status = attn_run_mask_pack(&layer, b->source->sites[b->site].op->dims.S, b->arena, b->err);
    b->masks[b->mask_count++] = (packed){given->values, given->semantics, layer};
    return layer;
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
    const size_t dims[4] = {d->B, d->Hq, attn_run_cells_along(d->L, level),
                            attn_run_cells_along(d->S, level)};
    const attn_tensor t = attn_tensor_dense(cells, ATTN_F32, 4, dims);
    char name[NAME];
    snprintf(name, sizeof name, format, level);
    add_tensor(b, name, &t);
}

static void add_overview(builder *b, const attn_attention *op, const attn_stats *stats) {
    const attn_run_pyramid pyramid = attn_run_pyramid_of(op->dims.L, op->dims.S);
    const attn_run_matter matter = {.terms = {{op, stats}}, .count = 1};
    const attn_run_head_span all = {0, op->dims.B * op->dims.Hq};
    attn_run_planes planes = {{0}, {0}};
    if (pyramid.overview == SIZE_MAX || b->status)
        return;
    b->status = attn_run_planes_new(&pyramid, all.count, b->arena, &planes)
                    ? attn_run_overview_make(&matter, &all, &pyramid, b->pool, b->control, b->arena,
                                             NULL, &planes, b->err)
                    : attn_fail(b->err, ATTN_ENOMEM, "", "no memory left for the overview");
    for (size_t level = pyramid.overview; level < pyramid.levels && !b->status; level++) {
        add_plane(b, &op->dims, ATTN_RUN_OVERVIEW_MAX, level, planes.max[level]);
        add_plane(b, &op->dims, ATTN_RUN_OVERVIEW_MEAN, level, planes.mean[level]);
    }
}

/* --- the text --- */

static void put_count(builder *b, const char *key, size_t value, size_t usual) {
    if (value == usual)
        return;
    attn_json_key(&b->text, key);
    attn_json_put_integer(&b->text, (int64_t)value);
}

static void put_integers(builder *b, const char *key, const int64_t *values, size_t n) {
    if (!values)
        return;
    attn_json_key(&b->text, key);
    attn_json_begin(&b->text, '[');
    for (size_t i = 0; i < n; i++)
        attn_json_put_integer(&b->text, values[i]);
    attn_json_end(&b->text, ']');
}

static void put_text_numbers(builder *b, const char *key, const size_t *numbers, size_t n) {
    if (numbers && n == 1)
        put_count(b, key, numbers[0], SIZE_MAX);
    else
        put_integers(b, key, (const int64_t *)numbers, n);
}

static void put_info(builder *b, const attn_run_site_info *info, const attn_attention_dims *d) {
    attn_json_text *t = &b->text;
    if (info->name) {
        attn_json_key(t, "name");
        attn_json_put_string(t, info->name);
    }
    attn_json_key(t, "kind");
    attn_json_put_string(t, attn_run_kind_name(info->kind));
    attn_json_key(t, "layer");
    attn_json_put_integer(t, (int64_t)info->layer);
    put_count(b, "call", info->call, 0);
    put_count(b, "query_start", info->query_start, 0);
    put_count(b, "key_start", info->key_start, 0);
    put_integers(b, "query_lengths", info->query_lengths, d->B);
    put_integers(b, "key_lengths", info->key_lengths, d->B);
    put_text_numbers(b, "query_text", info->query_texts, info->query_text_count);
    put_text_numbers(b, "key_text", info->key_texts, info->key_text_count);
    if (info->axis_count == 0)
        return;
    attn_json_key(t, "axes");
    attn_json_begin(t, '[');
    for (size_t i = 0; i < info->axis_count; i++)
        attn_json_put_string(t, info->axes[i]);
    attn_json_end(t, ']');
}

/* Writes the operation with all its operands by name, and with the offset that the library uses,
 * whatever the starts say. */
static void put_operation(builder *b, const attn_attention *op) {
    const attn_run_naming to = {&b->text, put_tensor, put_mask, b};
    attn_inputs in = op->in;
    static const int64_t zero = 0;
    const attn_run_site_info *info = &b->source->sites[b->site].info;
    if (!in.key.rank) {
        in.key = in.query;
        in.value = in.value.rank ? in.value : in.query;
    }
    if (in.mask.offset == ATTN_OFFSET_DEFAULT && info->query_start != info->key_start &&
        !op->dims.past) {
        in.mask.offset = ATTN_OFFSET_GIVEN;
        in.mask.offsets = &zero;
        in.mask.offset_count = 1;
    }
    attn_run_write_operation(&to, &in);
}

static void put_site(builder *b) {
    const attn_run_site_source *site = &b->source->sites[b->site];
    const attn_attention *op = site->op;
    attn_json_text *t = &b->text;
    if (!b->status)
        b->status = attn_run_check_info(&site->info, &op->dims, b->source->texts,
                                        b->source->text_count, b->site, b->err);
    if (!b->status && site->info.axes)
        b->status = attn_run_axes_check(&op->dims, site->info.axes, site->info.axis_count, b->err);
    attn_json_begin(t, '{');
    put_info(b, &site->info, &op->dims);
    put_operation(b, op);
    if (site->stats && !b->status) {
        const char *words = attn_mask_words(op->mask, b->arena);
        attn_json_key(t, "kernel");
        attn_json_put_string(t, op->kernels->name);
        attn_json_key(t, "mask_words");
        attn_json_put_string(t, words ? words : "");
        add_stats(b, &op->dims, site->stats);
        add_overview(b, op, site->stats);
    }
    attn_json_end(t, '}');
}

static void put_text(builder *b, const attn_run_text *text) {
    attn_json_text *t = &b->text;
    attn_json_begin(t, '{');
    attn_json_key(t, "tokens");
    attn_json_begin(t, '[');
    for (size_t i = 0; i < text->count; i++)
        attn_json_put_string(t, text->tokens[i]);
    attn_json_end(t, ']');
    put_integers(b, "ids", text->ids, text->count);
    if (text->text) {
        attn_json_key(t, "text");
        attn_json_put_string(t, text->text);
    }
    if (text->offsets) {
        attn_json_key(t, "offsets");
        attn_json_begin(t, '[');
        for (size_t i = 0; i < text->count; i++) {
            attn_json_begin(t, '[');
            attn_json_put_integer(t, (int64_t)text->offsets[i][0]);
            attn_json_put_integer(t, (int64_t)text->offsets[i][1]);
            attn_json_end(t, ']');
        }
        attn_json_end(t, ']');
    }
    if (text->special) {
        attn_json_key(t, "special");
        attn_json_begin(t, '[');
        for (size_t i = 0; i < text->count; i++)
            if (text->special[i])
                attn_json_put_integer(t, (int64_t)i);
        attn_json_end(t, ']');
    }
    attn_json_end(t, '}');
}

/* Writes the whole text, and adds the tensors as it names them. */
static void put_run(builder *b) {
    attn_json_text *t = &b->text;
    attn_json_begin(t, '{');
    attn_json_key(t, "version");
    attn_json_put_integer(t, 2);
    if (b->source->model) {
        attn_json_key(t, "model");
        attn_json_put_string(t, b->source->model);
    }
    attn_json_key(t, "texts");
    attn_json_begin(t, '[');
    for (size_t i = 0; i < b->source->text_count; i++)
        put_text(b, &b->source->texts[i]);
    attn_json_end(t, ']');
    attn_json_key(t, "sites");
    attn_json_begin(t, '[');
    for (b->site = 0; b->site < b->source->site_count && !b->status; b->site++)
        put_site(b);
    attn_json_end(t, ']');
    attn_json_end(t, '}');
    attn_json_put_raw(t, "", 1);
    if (t->failed)
        no_memory(b);
}

/* --- the container --- */

static void add_metadata(builder *b, const char *key, const char *text) {
    attn_metadata *m = &b->file.metadata[b->file.metadata_count++];
    *m = (attn_metadata){key, text};
}

/* Checks the texts of the caller. */
static attn_status check_metadata(const attn_run_source *source, attn_error *err) {
    bool wrong = source->metadata_count > ATTN_RUN_METADATA;
    size_t i = 0;
    for (; i < source->metadata_count && !wrong; i++) {
        const char *key = source->metadata[i].key;
        wrong = strcmp(key, "run") == 0 || strncmp(key, "run.", 4) == 0;
        for (size_t k = 0; k < i; k++)
            wrong = wrong || strcmp(key, source->metadata[k].key) == 0;
    }
    return wrong ? attn_fail(err, ATTN_EARG, "metadata",
                             "expected at most %d different keys other than \"run\" and those that "
                             "begin with \"run.\", found \"%.64s\"",
                             ATTN_RUN_METADATA, source->metadata[i ? i - 1 : 0].key)
                 : ATTN_OK;
}

static attn_status finish(builder *b, attn_run_image *out) {
    const void *header;
    size_t size, n = 0;
    attn_status status =
        attn_safetensors_sealed_header(&b->file, ATTN_RUN_SEAL, b->arena, &header, &size, b->err);
    if (status != ATTN_OK)
        return status;
    attn_run_piece *pieces = attn_arena_zeroed(b->arena, b->file.count + 1, sizeof *pieces);
    if (!pieces) {
        no_memory(b);
        return b->status;
    }
    pieces[n++] = (attn_run_piece){header, size};
    for (size_t i = 0; i < b->file.count; i++) {
        const attn_tensor *t = &b->file.tensors[i].tensor;
        size_t count = 0, bytes = 0;
        if (!attn_tensor_count(t, &count) ||
            !attn_size_mul(count, attn_dtype_size(t->dtype), &bytes) ||
            !attn_size_add(size, bytes, &size))
            return attn_fail(b->err, ATTN_ELIMIT, b->file.tensors[i].name, "it cannot be counted");
        if (bytes)
            pieces[n++] = (attn_run_piece){t->data, bytes};
    }
    *out = (attn_run_image){pieces, n, size};
    return ATTN_OK;
}

attn_status attn_run_image_new(const attn_run_source *source, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_run_image *out,
                               attn_error *err) {
    builder b = {.source = source,
                 .pool = pool,
                 .control = control,
                 .arena = arena,
                 .err = err,
                 .text.arena = arena};
    size_t most = 0, masks = 0;
    attn_status status = check_metadata(source, err);
    if (status)
        return status;
    if (attn_size_mul(source->site_count, SITE_TENSORS, &most) &&
        attn_size_mul(source->site_count, ATTN_MASK_LAYERS, &masks)) {
        b.file.tensors = attn_arena_zeroed(arena, most, sizeof *b.file.tensors);
        b.given = attn_arena_zeroed(arena, most, sizeof *b.given);
        b.masks = attn_arena_zeroed(arena, masks, sizeof *b.masks);
        b.file.metadata = attn_arena_zeroed(arena, ATTN_RUN_METADATA + 1, sizeof *b.file.metadata);
    }
    if (!b.file.tensors || !b.given || !b.masks || !b.file.metadata) {
        no_memory(&b);
        return b.status;
    }
    put_run(&b);
    if (b.status)
        return b.status;
    add_metadata(&b, "run", b.text.data);
    for (size_t i = 0; i < source->metadata_count; i++)
        add_metadata(&b, source->metadata[i].key, source->metadata[i].text);
    return finish(&b, out);
}

attn_status attn_run_cost(const attn_attention_dims *d, size_t slots, attn_cost *out,
                          attn_error *err) {
    const attn_run_pyramid p = attn_run_pyramid_of(d->L, d->S);
    const double heads = (double)d->B * (double)d->Hq, rows = heads * (double)d->L;
    const double elem = d->result == ATTN_F64 ? 8 : 4;
    double image = rows * (17 + elem * (double)d->E) + 65536 +
                   elem * (double)d->B * (double)d->Hkv * (double)d->S * (double)(d->Ek + d->Ev);
    size_t work = 0;
    attn_cost cost = {.cells = 0};
    if (p.overview != SIZE_MAX) {
        double planes;
        cost.cells = rows * (double)d->S;
        cost.operations = cost.cells * 2 * (double)d->score_width;
        if (!attn_run_overview_bytes(d, &(attn_run_view){.against = NULL}, &p, slots, &planes,
                                     &work))
            return attn_fail(err, ATTN_ELIMIT, "store", "more bytes than can be counted");
        image += heads * planes;
        work += (size_t)(heads * planes);
    }
    cost.work_bytes = work;
    cost.result_bytes = (size_t)image;
    *out = cost;
    return ATTN_OK;
}
